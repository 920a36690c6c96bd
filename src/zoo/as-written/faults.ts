import { UsageError } from '../../base/failure.ts';
import type { Bug } from '../specimen.ts';

/**
 * The eight faults that the review of the first connector found. Each has a switch of its own: in the set it is on, as
 * first written; absent it is mended, and everything else is the same code.
 */

export const FAULT_IDS = ['F1', 'F2', 'F3', 'F4', 'F5', 'F6', 'F7', 'F8'] as const;
export type FaultId = (typeof FAULT_IDS)[number];
export type FaultSet = ReadonlySet<FaultId>;

export const FAULTS: { readonly [F in FaultId]: Bug } = {
  F1: {
    where: 'notify listener',
    what: 'the error path for bytes that are not UTF-8 names the text that only a good decode would have set',
    breaks: ['I7'],
    places: [{ site: 'thread', machine: 'rank', part: 'notify listener' }],
  },
  F2: {
    where: 'background handshake',
    what: 'a second request for one remote finds its handshake running and uses sizes that were never set',
    breaks: ['I7'],
    places: [{ site: 'thread', machine: 'rank', part: 'main (background handshake)' }],
  },
  F3: {
    where: 'registering caches',
    what: 'every layer is recorded with the cell size of the last one',
    breaks: ['I1', 'I4'],
    places: [{ site: 'blocks' }, { site: 'slots' }, { site: 'attention', role: 'decode' }],
  },
  F4: {
    where: 'proxy, choice of DP rank',
    what: 'the chooser ignores its argument and takes the global request counter',
    breaks: ['I6'],
    places: [{ site: 'rank-choice' }],
  },
  F5: {
    where: 'proxy, choice of DP rank',
    what: 'the counter is divided by the number of fields of an instance record, not by the number of instances',
    breaks: ['I6'],
    places: [{ site: 'rank-choice' }],
  },
  F6: {
    where: 'write worker start',
    what: 'the "started" flag is tested and set outside the lock: two callers start two write workers',
    breaks: ['I2', 'I4', 'I5', 'I3', 'I1'],
    places: [
      // An update of the layer count is lost, or a deferred task is.
      { site: 'wait', role: 'prefill', machine: 'rank', part: 'layer-count' },
      { site: 'wait', role: 'prefill', machine: 'rank', part: 'write-task' },
      // A task that was done twice makes the transfer end before its last layer is written.
      { site: 'attention', role: 'decode' },
      // Both workers count the last layer.
      { site: 'report', role: 'prefill' },
      // A task that was done twice comes to its second end after the transfer's.
      { site: 'tables', role: 'prefill', machine: 'rank' },
      { site: 'blocks', role: 'prefill' },
      { site: 'pool', role: 'prefill' },
    ],
  },
  F7: {
    where: 'save call',
    what: 'with no request to save the remote id stays unset, and the wait for its ready flag never ends',
    breaks: ['I9'],
    places: [{ site: 'thread', role: 'prefill', part: 'main (save call)' }],
  },
  F8: {
    where: "building the step's metadata",
    what: 'every scheduled request is looked up among those that wait for their last chunk',
    breaks: ['I7'],
    places: [
      { site: 'thread', role: 'prefill', machine: 'scheduler', part: 'main' },
      { site: 'thread', role: 'prefill', machine: 'scheduler', part: 'build metadata' },
    ],
  },
};

/** The faults a scenario names. @throws UsageError FAULT-UNKNOWN */
export function faultSet(names: readonly string[]): FaultSet {
  const faults = new Set<FaultId>();
  for (const name of names) {
    const fault = FAULT_IDS.find((id) => id === name);
    if (fault === undefined) {
      throw new UsageError(
        'FAULT-UNKNOWN',
        `the as-written connector has no fault ${name}; it has ${FAULT_IDS.join(', ')}`,
      );
    }
    faults.add(fault);
  }
  return faults;
}

/** An exception that ends a thread of the first connector; `thread` names the thread and the part of it. */
export class ThreadDeath extends Error {
  override readonly name = 'ThreadDeath';
  readonly thread: string;
  constructor(thread: string, cause: string) {
    super(cause);
    this.thread = thread;
  }
}

/** A variable of the first connector that some path sets and another one reads: unset is an exception there too. */
export function assigned<T>(value: T | undefined, thread: string, variable: string): T {
  if (value === undefined) throw new ThreadDeath(thread, `${variable} is used before it is set`);
  return value;
}

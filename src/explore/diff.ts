import { UsageError } from '../base/failure.ts';
import { mix } from '../base/mix.ts';
import type { Fabric } from '../io/fabric.ts';
import type { Violation } from '../oracle/verdict.ts';
import { digestMemory, type WorldMemory } from '../sim/memory.ts';
import { checkSeed, runSeed, SEED_FROM_MAX } from '../sim/run.ts';
import type { Scenario } from '../sim/scenario.ts';
import {
  type HarnessFailures,
  harnessFailureOf,
  keepHarnessFailure,
  noHarnessFailures,
} from './harness-failure.ts';

/** Who moves the bytes of a run, in a memory of its own. */
export interface DiffSide {
  readonly name: string;
  readonly memory: WorldMemory;
  /** Asked once for each run; holds no regions then. */
  readonly fabric: () => Fabric;
}

/** What a run came to, as far as a fabric has a part in it. */
export interface DiffOutcome {
  /** Of all happenings and effects. */
  readonly schedule: string;
  /** Batches that were moved, and a hash of their ids and status codes in order. */
  readonly batches: number;
  readonly statuses: string;
  /** Of the whole memory after the last step. */
  readonly memory: string;
  readonly violation: Violation | null;
}

export interface DiffSeed {
  readonly seed: number;
  readonly outcomes: Readonly<Record<string, DiffOutcome>>;
}

export interface Diff {
  seeds: number;
  equal: number;
  batches: number;
  readonly differing: DiffSeed[];
  /** Seeds in which the harness broke on a side: neither equal nor differing. */
  readonly harness: HarnessFailures;
}

export interface DiffOptions {
  readonly scenario: Scenario;
  readonly seedFrom: number;
  readonly seeds: number;
  readonly onProgress?: (seeds: number) => void;
}

const PROGRESS_EVERY = 64;

/** Runs each seed on both sides: the world is the same program, so nothing may differ. */
export function diffSeeds(left: DiffSide, right: DiffSide, options: DiffOptions): Diff {
  const diff = newDiff();
  advanceDiff([left, right], options, diff, Number.POSITIVE_INFINITY);
  return diff;
}

export function newDiff(): Diff {
  return { seeds: 0, equal: 0, batches: 0, differing: [], harness: noHarnessFailures() };
}

/** Runs at most `seedsMax` more seeds; false when all have run. */
export function advanceDiff(
  sides: readonly [DiffSide, DiffSide],
  options: DiffOptions,
  diff: Diff,
  seedsMax: number,
): boolean {
  checkSeed(options.seedFrom, SEED_FROM_MAX);
  for (let done = 0; done < seedsMax && diff.seeds < options.seeds; done++) {
    if (diff.seeds > 0 && diff.seeds % PROGRESS_EVERY === 0) options.onProgress?.(diff.seeds);
    diffSeed(sides, options.scenario, options.seedFrom + diff.seeds, diff);
    diff.seeds++;
  }
  return diff.seeds < options.seeds;
}

function diffSeed(
  [left, right]: readonly [DiffSide, DiffSide],
  scenario: Scenario,
  seed: number,
  diff: Diff,
): void {
  try {
    const [one, other] = [outcomeOf(left, scenario, seed), outcomeOf(right, scenario, seed)];
    diff.batches += one.batches;
    if (JSON.stringify(one) === JSON.stringify(other)) diff.equal++;
    else diff.differing.push({ seed, outcomes: { [left.name]: one, [right.name]: other } });
  } catch (error) {
    if (error instanceof UsageError && diff.seeds === 0) throw error;
    keepHarnessFailure(diff.harness, harnessFailureOf(error, seed, 'run'));
  }
}

export function outcomeOf(side: DiffSide, scenario: Scenario, seed: number): DiffOutcome {
  const statuses = { batches: 0, hash: 0 };
  const fabric = (): Fabric => listening(side.fabric(), statuses);
  const { result } = runSeed(side.memory, scenario, seed, { fabric });
  return {
    schedule: result.digest,
    batches: statuses.batches,
    statuses: statuses.hash.toString(16).padStart(8, '0'),
    memory: digestMemory(side.memory),
    violation: result.violation,
  };
}

/** The same fabric; the completions that somebody polls are counted and hashed. */
function listening(fabric: Fabric, statuses: { batches: number; hash: number }): Fabric {
  const { rest } = fabric;
  return {
    name: fabric.name,
    registerMemory: (owner, start, end) => fabric.registerMemory(owner, start, end),
    deregisterMemory: (region) => fabric.deregisterMemory(region),
    connect: (initiator, target) => fabric.connect(initiator, target),
    post: (connection, operation, runs, id) => fabric.post(connection, operation, runs, id),
    poll() {
      const ended = fabric.poll();
      for (const { id, code } of ended) statuses.hash = mix(mix(statuses.hash, id), code);
      statuses.batches += ended.length;
      return ended;
    },
    ...(rest === undefined ? {} : { rest: () => rest.call(fabric) }),
  };
}

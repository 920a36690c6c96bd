import { BrokenBelief, UsageError } from '../base/failure.ts';
import { describeThrown, stackHead } from '../base/thrown.ts';
import type { TapeEntry } from '../sim/tape.ts';

/** A schedule in which the harness itself broke: no verdict about the connector, and no reason to lose those there are. */
export interface HarnessFailure {
  /** Null where only a tape was given. */
  readonly seed: number | null;
  /** The code of docs/INVARIANTS.md, or `ERROR` for an exception that states no belief. */
  readonly code: string;
  readonly message: string;
  /** The innermost lines of the stack. */
  readonly stack: readonly string[];
  /** What was being done with the seed. */
  readonly during: 'run' | 'shrink' | 'report';
  /** What runs into it again, where that is not the seed's own schedule. */
  readonly tape: readonly TapeEntry[] | null;
}

/** The harness failures of a campaign: the first ones, and how many there were. */
export interface HarnessFailures {
  readonly kept: HarnessFailure[];
  count: number;
}

export const HARNESS_FAILURES_MAX = 20;

export function noHarnessFailures(): HarnessFailures {
  return { kept: [], count: 0 };
}

export function harnessFailureOf(
  thrown: unknown,
  seed: number | null,
  during: HarnessFailure['during'],
  tape: readonly TapeEntry[] | null = null,
): HarnessFailure {
  const code = thrown instanceof BrokenBelief || thrown instanceof UsageError ? thrown.code : 'ERROR';
  const message = describeThrown(thrown).replace(`BrokenBelief: ${code}: `, '');
  // A belief about an exception keeps it: its stack is where things went wrong.
  const cause = thrown instanceof BrokenBelief ? (thrown.cause ?? thrown) : thrown;
  return { seed, code, message, stack: stackHead(cause), during, tape };
}

export function keepHarnessFailure(failures: HarnessFailures, failure: HarnessFailure): void {
  failures.count++;
  if (failures.kept.length < HARNESS_FAILURES_MAX) failures.kept.push(failure);
}

export function addHarnessFailures(failures: HarnessFailures, more: HarnessFailures): void {
  for (const failure of more.kept) keepHarnessFailure(failures, failure);
  failures.count += more.count - more.kept.length;
}

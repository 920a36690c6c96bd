import { UsageError } from '../base/failure.ts';
import { mix } from '../base/mix.ts';
import type { Fabric } from '../io/fabric.ts';
import type { Violation } from '../oracle/verdict.ts';
import { digestMemory, type WorldMemory } from '../sim/memory.ts';
import type { Scenario } from '../sim/scenario.ts';
import { WINDOW } from './fabric-diff/classes.ts';
import { type Coverage, createCoverage, missedOf } from './fabric-diff/coverage.ts';
import { runWorkload, type SideDifference } from './fabric-diff/workload.ts';
import {
  type HarnessFailures,
  harnessFailureOf,
  keepHarnessFailure,
  noHarnessFailures,
} from './harness-failure.ts';
import { checkSeed, runSeed, SEED_FROM_MAX } from './run.ts';

/** Who moves the bytes of a run, in a memory of its own. */
export interface DiffSide {
  readonly name: string;
  /** Of DIFF_PAGES. */
  readonly memory: WorldMemory;
  /** Asked once for each run; holds no regions then. */
  readonly fabric: () => Fabric;
}

/** What a run came to, as far as a fabric has a part in it. */
export interface DiffOutcome {
  /** Of all events and effects. */
  readonly schedule: string;
  /** Batches that were moved, and a hash of their ids and status codes in order. */
  readonly batches: number;
  readonly statuses: string;
  /** Of the whole memory after the last step. */
  readonly memory: string;
  readonly violation: Violation | null;
}

/** A seed of which the two sides made something else than each other, or than was asked for. */
export interface DiffSeed {
  readonly seed: number;
  /** What the two runs of a cluster came to; null where the harness broke in them. */
  readonly outcomes: Readonly<Record<string, DiffOutcome>> | null;
  /** Fields of the outcomes that are not equal. */
  readonly fields: readonly (keyof DiffOutcome)[];
  /** Work requests of the drawn batches that a side did not move as it should: the first ones, and how many there are. */
  readonly differences: readonly SideDifference[];
  readonly differenceCount: number;
}

export interface Diff {
  seeds: number;
  equal: number;
  /** Batches of the clusters' runs on one side. */
  batches: number;
  /** Drawn batches that ended, over both sides and both paces. */
  drawnBatches: number;
  readonly differing: DiffSeed[];
  /** Seeds in which the harness broke on a side: neither equal nor, if nothing else is known of them, differing. */
  readonly harness: HarnessFailures;
  readonly coverage: Coverage;
}

export interface DiffOptions {
  readonly scenario: Scenario;
  readonly seedFrom: number;
  readonly seeds: number;
  /** Ends with the first seed that differs. */
  readonly stopAtFirst?: boolean;
  readonly onProgress?: (seeds: number) => void;
}

const PROGRESS_EVERY = 8;

export function newDiff(): Diff {
  return {
    seeds: 0,
    equal: 0,
    batches: 0,
    drawnBatches: 0,
    differing: [],
    harness: noHarnessFailures(),
    coverage: createCoverage(),
  };
}

/** What the drawn batches never were; nothing where there were too few seeds to tell. */
export function missedBy({ seeds, coverage }: Diff): string[] {
  return seeds >= WINDOW ? missedOf(coverage) : [];
}

/**
 * Runs at most `seedsMax` more seeds; false when all have run. Each seed on both sides: a cluster's schedule, of which nothing
 * may differ since the world is the same program, and drawn batches, of which every byte is known beforehand. @throws UsageError
 * DIFF-MEMORY
 */
export function advanceDiff(
  sides: readonly [DiffSide, DiffSide],
  options: DiffOptions,
  diff: Diff,
  seedsMax: number,
): boolean {
  checkSeed(options.seedFrom, SEED_FROM_MAX);
  const isOver = (): boolean =>
    diff.seeds >= options.seeds || (options.stopAtFirst === true && diff.differing.length > 0);
  for (let done = 0; done < seedsMax && !isOver(); done++) {
    if (diff.seeds > 0 && diff.seeds % PROGRESS_EVERY === 0) options.onProgress?.(diff.seeds);
    diffSeed(sides, options, options.seedFrom + diff.seeds, diff);
    diff.seeds++;
  }
  return !isOver();
}

function diffSeed(
  sides: readonly [DiffSide, DiffSide],
  { scenario, stopAtFirst }: DiffOptions,
  seed: number,
  diff: Diff,
): void {
  const broken = diff.harness.count;
  const [left, right] = sides;
  const outcomes = keepFailure(diff, seed, () => {
    const [one, other] = [outcomeOf(left, scenario, seed), outcomeOf(right, scenario, seed)];
    return { one, other };
  });
  const drawn = keepFailure(diff, seed, () => runWorkload(sides, seed, diff.coverage, stopAtFirst));
  diff.batches += outcomes?.one.batches ?? 0;
  diff.drawnBatches += drawn?.batches ?? 0;
  const fields = outcomes === null ? [] : fieldsOf(outcomes.one, outcomes.other);
  const { differences = [], differenceCount = 0 } = drawn ?? {};
  if (fields.length === 0 && differenceCount === 0) {
    if (diff.harness.count === broken) diff.equal++;
    return;
  }
  const named = outcomes && { [left.name]: outcomes.one, [right.name]: outcomes.other };
  diff.differing.push({ seed, outcomes: named, fields, differences, differenceCount });
}

/** Null where the harness broke: what else is known of the seed still counts. */
function keepFailure<Result>(diff: Diff, seed: number, run: () => Result): Result | null {
  try {
    return run();
  } catch (error) {
    if (error instanceof UsageError && diff.seeds === 0) throw error;
    keepHarnessFailure(diff.harness, harnessFailureOf(error, seed, 'run'));
    return null;
  }
}

function fieldsOf(one: DiffOutcome, other: DiffOutcome): (keyof DiffOutcome)[] {
  const fields = Object.keys(one) as (keyof DiffOutcome)[];
  return fields.filter((field) => JSON.stringify(one[field]) !== JSON.stringify(other[field]));
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
    connect: (initiator, target, queuePair) => fabric.connect(initiator, target, queuePair),
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

import { sameFailure, type Violation } from '../oracle/verdict.ts';
import type { WorldMemory } from '../sim/memory.ts';
import type { RunResult } from '../sim/run-spec.ts';
import type { Scenario } from '../sim/scenario.ts';
import { DRAW, type DrawKind, type TapeEntry } from '../sim/tape.ts';
import {
  type HarnessFailures,
  harnessFailureOf,
  keepHarnessFailure,
  noHarnessFailures,
} from './harness-failure.ts';
import { type Run, type RunOptions, runSeed, runTape, type Who, whoRan } from './run.ts';

/** The smallest tape found that still breaks the same invariant at the same place. */
export interface Shrunk extends Who {
  readonly entries: readonly TapeEntry[];
  /** Its violation is null when not even the schedule that was given fails again: what ran keeps state between runs. */
  readonly result: RunResult;
  readonly runs: number;
  /** Smaller tapes in which the harness itself broke. They were left alone. */
  readonly harness: HarnessFailures;
}

/** Runs that one shrink may take, and steps over all of them: a run that never ends is long. */
export const SHRINK_RUNS_MAX = 3000;
export const SHRINK_STEPS_MAX = 10_000_000;

/** Kinds of draws that can go together, the most removable first: delays, then faults, then the workload. */
const GROUPS: readonly (readonly DrawKind[])[] = [
  [DRAW.deliverDelay, DRAW.timerDelay, DRAW.turnDelay, DRAW.landDelay, DRAW.completeDelay],
  [DRAW.preemption],
  [DRAW.timerDelay],
  [DRAW.completeDelay],
  [DRAW.landDelay],
  [DRAW.turnDelay],
  [DRAW.deliverDelay],
  [DRAW.stray],
  [DRAW.crash],
  [DRAW.abort],
  [DRAW.fate],
  [DRAW.nicFate],
  [DRAW.slowNic],
  [DRAW.workload],
  [DRAW.shape],
];

export function shrinkSeed(
  memory: WorldMemory,
  scenario: Scenario,
  seed: number,
  violation: Violation,
  options: RunOptions = {},
): Shrunk {
  const { recorded } = runSeed(memory, scenario, seed, { ...options, record: true }).tape;
  return shrinkFrom({ memory, scenario, violation, options, best: recorded, seed });
}

export function shrinkTape(
  memory: WorldMemory,
  scenario: Scenario,
  start: readonly TapeEntry[],
  violation: Violation,
  options: RunOptions = {},
): Shrunk {
  return shrinkFrom({ memory, scenario, violation, options, best: start, seed: null });
}

function shrinkFrom(start: SearchStart): Shrunk {
  const search: Search = { ...start, runs: 0, steps: 0, harness: noHarnessFailures() };
  const { memory, scenario, options } = search;
  for (;;) {
    const before = size(search.best);
    for (const group of GROUPS)
      attempt(
        search,
        search.best.filter((entry) => !group.includes(entry.draw)),
      );
    removeChunks(search);
    lowerValues(search);
    if (size(search.best) === before || isSpent(search)) break;
  }
  const run = runTape(memory, scenario, search.best, { ...options, record: true });
  const { result } = run;
  return { ...whoRan(run), entries: search.best, result, runs: search.runs, harness: search.harness };
}

interface SearchStart {
  readonly memory: WorldMemory;
  readonly scenario: Scenario;
  readonly violation: Violation;
  readonly options: RunOptions;
  readonly seed: number | null;
  best: readonly TapeEntry[];
}

interface Search extends SearchStart {
  readonly harness: HarnessFailures;
  runs: number;
  steps: number;
}

function isSpent(search: Search): boolean {
  return search.runs >= SHRINK_RUNS_MAX || search.steps >= SHRINK_STEPS_MAX;
}

/** Fewer entries first, then smaller values. Bounded below, so the search ends. */
function size(entries: readonly TapeEntry[]): number {
  return entries.reduce((sum, entry) => sum + 1_000_000 + Math.min(entry.value, 999_999), 0);
}

/** Takes the candidate if it is smaller and fails alike; drops entries that the shorter run no longer asks for. */
function attempt(search: Search, candidate: readonly TapeEntry[]): boolean {
  if (size(candidate) >= size(search.best) || isSpent(search)) return false;
  search.runs++;
  const run = runCandidate(search, candidate);
  if (run === null) return false;
  const { result, tape } = run;
  search.steps += result.steps;
  if (result.violation === null || !sameFailure(result.violation, search.violation)) return false;
  search.best = [...tape.recorded];
  return true;
}

/** Null when the harness broke in it: then it is no smaller form of the violation, and the search goes on without it. */
function runCandidate(search: Search, candidate: readonly TapeEntry[]): Run | null {
  const { memory, scenario, options, seed } = search;
  try {
    return runTape(memory, scenario, candidate, { ...options, record: false });
  } catch (error) {
    keepHarnessFailure(search.harness, harnessFailureOf(error, seed, 'shrink', candidate));
    return null;
  }
}

/** Delta debugging: halves, quarters, down to single entries. */
function removeChunks(search: Search): void {
  for (
    let chunk = Math.ceil(search.best.length / 2);
    chunk >= 1;
    chunk = chunk === 1 ? 0 : Math.ceil(chunk / 2)
  ) {
    for (let from = 0; from < search.best.length; ) {
      const candidate = search.best.filter((_, index) => index < from || index >= from + chunk);
      if (!attempt(search, candidate)) from += chunk;
      if (isSpent(search)) return;
    }
  }
}

/** Lowers each value, by halves and then by ones while it is small. */
function lowerValues(search: Search): void {
  for (let index = 0; index < search.best.length; index++) {
    for (const lower of [
      (value: number) => 1 + Math.trunc(value / 8),
      (value: number) => Math.trunc(value / 2),
      (value: number) => value - 1,
    ]) {
      while (index < search.best.length) {
        const entry = search.best[index]!;
        const value = lower(entry.value);
        if (value < 1 || value >= entry.value) break;
        if (
          !attempt(
            search,
            search.best.map((other, at) => (at === index ? { ...other, value } : other)),
          )
        )
          break;
        if (isSpent(search)) return;
      }
    }
  }
}

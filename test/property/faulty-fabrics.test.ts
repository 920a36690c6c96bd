import { describe, expect, test } from 'vitest';
import {
  type Cell,
  CHAINS,
  cellsOf,
  DIRECTIONS,
  QUEUE_PAIRS,
  SIZES,
  WINDOW,
} from '../../src/explore/fabric-diff/classes.ts';
import { createCoverage, missedOf } from '../../src/explore/fabric-diff/coverage.ts';
import { tellDifference } from '../../src/explore/fabric-diff/tell.ts';
import { runWorkload, type SideDifference } from '../../src/explore/fabric-diff/workload.ts';
import { createWasmFabric } from '../../src/sim/wasm-fabric.ts';
import { FAULTS, type Fault, type Strikes } from '../helpers/faulty-fabrics.ts';
import { diffMemory, newMemory } from '../helpers/world.ts';

/** A fabric that does one thing wrong is found within a window of seeds, wherever it begins, and its fault is named. */

const BASES = [0, 1007, 2 ** 32 + 5];

const memory = diffMemory();

interface Found {
  readonly seed: number;
  readonly differences: readonly SideDifference[];
}

/** The first seed from `base` on, of a window, at which the fabric is found; null when it is not. */
function findFrom(base: number, fault: Fault, strikes: Strikes): Found | null {
  const fabric = fault.wrap(createWasmFabric(memory), strikes);
  for (let seed = base; seed < base + WINDOW; seed++) {
    const side = { name: 'faulty', memory, fabric: () => fabric };
    const { differences } = runWorkload([side], seed, createCoverage(), true);
    if (differences.length > 0) return { seed, differences };
  }
  return null;
}

describe.each(FAULTS)('a fabric that $name', (fault) => {
  test.each(DIRECTIONS)('in a %s', (direction) => {
    const base = BASES[FAULTS.indexOf(fault) % BASES.length]!;
    const found = findFrom(base, fault, ({ operation }) => operation === direction);
    expect(found?.differences[0]).toMatchObject({ kind: fault.kind, operation: direction, side: 'faulty' });
    for (const difference of found!.differences) {
      expect(difference.operation).toBe(direction);
      expect(difference.expected).not.toBe(difference.actual);
      expect(tellDifference(difference)).toMatch(
        /batch \d+ .*work request \d+ of \d+, \d+ bytes from local \d+/,
      );
    }
  });
});

test('a fault of one queue pair and one direction, in long chains and odd lengths alone', () => {
  const strikes: Strikes = ({ operation, queuePair, runs }) =>
    operation === 'read' && queuePair === 3 && runs.length > 64 * 3 && runs.at(-1)! % 2 === 1;
  const found = findFrom(40, FAULTS[6]!, strikes);
  expect(found?.differences[0]).toMatchObject({ kind: 'lost request', operation: 'read', queuePair: 3 });
});

test('a good fabric is not accused', () => {
  const fabric = createWasmFabric(memory);
  const side = { name: 'good', memory, fabric: () => fabric };
  const { batches, ...found } = runWorkload([side], 3, createCoverage());
  expect(found).toEqual({ differences: [], differenceCount: 0 });
  expect(batches).toBeGreaterThan(80);
});

test('a window of seeds has each combination of classes in both of its turns, wherever it begins', () => {
  const all = DIRECTIONS.length * QUEUE_PAIRS * 2 * CHAINS.length * SIZES.length;
  for (const base of [0, 3, 999_999, 2 ** 40]) {
    const seen = new Map<string, number>();
    for (let seed = base; seed < base + WINDOW; seed++)
      for (const cell of cellsOf(seed)) {
        const name = JSON.stringify(cell satisfies Cell);
        seen.set(name, (seen.get(name) ?? 0) + 1);
      }
    // Each of them in both of its turns.
    expect([seen.size, new Set(seen.values())]).toEqual([2 * all, new Set([1])]);
  }
});

test('what was never posted is told, each by its name', () => {
  const missed = missedOf(createCoverage());
  expect(missed).toContain('read of above 1 MiB on queue pair 3 in a chain of 65 and more');
  expect(missed).toContain('notification: on');
});

test('a memory without room for the workload is refused', () => {
  const small = newMemory();
  const side = { name: 'small', memory: small, fabric: () => createWasmFabric(small) };
  expect(() => runWorkload([side], 0, createCoverage())).toThrow(/DIFF_PAGES/);
});

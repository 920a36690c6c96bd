import { afterAll, describe, expect, test } from 'vitest';
import {
  advanceDiff,
  type Diff,
  type DiffOptions,
  type DiffSide,
  missedBy,
  newDiff,
  outcomeOf,
} from '../../src/explore/diff.ts';
import { QUEUE_PAIRS, WINDOW } from '../../src/explore/fabric-diff/classes.ts';
import type { Fabric } from '../../src/io/fabric.ts';
import { NATIVE_PROVIDERS } from '../../src/node/native-fabric.ts';
import type { WorldMemory } from '../../src/sim/memory.ts';
import { createWasmFabric } from '../../src/sim/wasm-fabric.ts';
import { SHIPPED_MIX } from '../../src/zoo/shipped.ts';
import { availability, openNative } from '../helpers/native.ts';
import { diffMemory } from '../helpers/world.ts';

/** Whole runs over both fabrics: one seed is one schedule, whatever moves the bytes. */

const SEEDS = WINDOW;

function wasmSide(change: (fabric: Fabric, memory: WorldMemory) => Fabric = (fabric) => fabric): DiffSide {
  const memory = diffMemory();
  return { name: 'wasm', memory, fabric: () => change(createWasmFabric(memory), memory) };
}

function diffSeeds(left: DiffSide, right: DiffSide, options: DiffOptions): Diff {
  const diff = newDiff();
  advanceDiff([left, right], options, diff, Number.POSITIVE_INFINITY);
  return diff;
}

describe.each(NATIVE_PROVIDERS)('native %s', (provider) => {
  const { missing, note } = availability(provider);
  describe.skipIf(missing)(`beside wasm${note}`, () => {
    const memory = missing ? null! : diffMemory();
    const native = missing ? null! : openNative(provider, memory, provider === 'mori' ? 1 : QUEUE_PAIRS);
    const side: DiffSide = {
      name: 'native',
      memory,
      fabric: () => {
        native.reset();
        return native;
      },
    };
    afterAll(() => native.close());

    test.each(['write', 'read'] as const)(`${SEEDS} seeds in %s mode end alike to the last byte`, (mode) => {
      const scenario = { ...SHIPPED_MIX, mode };
      const diff = diffSeeds(wasmSide(), side, { scenario, seedFrom: 0, seeds: SEEDS });
      expect(diff).toMatchObject({ seeds: SEEDS, equal: SEEDS, differing: [] });
      expect(diff.batches).toBeGreaterThan(SEEDS * 5);
      expect(missedBy(diff)).toEqual([]);
    });
  });
});

describe('a diff notices', () => {
  /** The seed's runs move something, and are moved by a fabric that does it wrong. */
  const differingFields = (change: (fabric: Fabric, memory: WorldMemory) => Fabric): string[] => {
    const scenario = { ...SHIPPED_MIX, mode: 'write' as const };
    const bad: DiffSide = { ...wasmSide(change), name: 'bad' };
    const { differing } = diffSeeds(wasmSide(), bad, { scenario, seedFrom: 0, seeds: 8 });
    const fields = differing.flatMap((seed) => seed.fields);
    return [...new Set(fields)];
  };

  test('nothing between two like sides', () => {
    expect(differingFields((fabric) => fabric)).toEqual([]);
  });

  test('a byte beside the bytes that were to move', () => {
    const change = (fabric: Fabric, memory: WorldMemory): Fabric => ({
      ...fabric,
      post(connection, operation, runs, id) {
        fabric.post(connection, operation, runs, id);
        memory.bytes[memory.bytes.length - 1]! ^= 1 + (id & 1);
      },
    });
    expect(differingFields(change)).toContain('memory');
  });

  test('a batch whose last run is left out', () => {
    const change = (fabric: Fabric): Fabric => ({
      ...fabric,
      post: (connection, operation, runs, id) => fabric.post(connection, operation, runs.slice(0, -3), id),
    });
    expect(differingFields(change)).toEqual(expect.arrayContaining(['memory', 'violation']));
  });

  test('a status that is another', () => {
    const change = (fabric: Fabric): Fabric => ({
      ...fabric,
      poll: () => fabric.poll().map((ended) => ({ ...ended, code: 13 as const })),
    });
    expect(differingFields(change)).toEqual(expect.arrayContaining(['statuses', 'schedule']));
  });
});

test('the outcome of a seed is the same twice in one memory', () => {
  const side = wasmSide();
  const first = outcomeOf(side, SHIPPED_MIX, 11);
  for (let seed = 0; seed < 20; seed++) outcomeOf(side, SHIPPED_MIX, seed);
  expect(outcomeOf(side, SHIPPED_MIX, 11)).toEqual(first);
});

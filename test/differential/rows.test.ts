import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { REFUSED } from '../../src/kv/kernels.ts';
import {
  BLOCKS_JOB_BYTES,
  type BlocksJob,
  NOT_COVERED,
  scratchBytes,
  writeBlocksJob,
} from '../../src/kv/row-kernels.ts';
import { anyWord, PAGE_BYTES, Pair, SETTINGS, small, Tally, U32_MAX } from './pair.ts';

type Row = readonly [local: number, remote: number, bytes: number];

/** Lists begin at any byte; scratch lies far behind them. */
const SCRATCH = 40_000;
/** Where jobs lie: at no multiple of 8, since kernels read at any address. */
const JOB = PAGE_BYTES - 69;

/** Lays a job down in both memories. */
function putBlocksJob(job: BlocksJob): void {
  const words = new Uint32Array(BLOCKS_JOB_BYTES / 4);
  writeBlocksJob({ words, doubles: new Float64Array(words.buffer) }, 0, job);
  small.put(JOB, [...words]);
}

function putRows(pair: Pair, out: number, capacity: number, rows: readonly Row[]): void {
  for (let column = 0; column < 3; column++)
    pair.putDoubles(
      out + column * capacity * 8,
      rows.map((row) => row[column]!),
    );
}

function rowsAt(pair: Pair, out: number, capacity: number, count: number): number[][] {
  return [0, 1, 2].map((column) => pair.doubles(out + column * capacity * 8, count));
}

interface MergeCase {
  readonly id: string;
  readonly input: {
    readonly offsets_local: number[];
    readonly offsets_remote: number[];
    readonly sizes: number[];
    readonly assume_sorted: boolean;
  };
  readonly expect: {
    readonly ok: boolean;
    readonly offsets_local: number[];
    readonly offsets_remote: number[];
    readonly sizes: number[];
  };
}

describe('the recorded merges', () => {
  const url = new URL('../golden/merge.json', import.meta.url);
  const { cases } = JSON.parse(readFileSync(url, 'utf8')) as { cases: MergeCase[] };

  test('all agree, but for lists of unequal lengths, which the caller refuses', () => {
    let checked = 0;
    for (const { id, input, expect: wanted } of cases) {
      const { offsets_local: local, offsets_remote: remote, sizes } = input;
      if (!wanted.ok) continue;
      const count = local.length;
      small.reset();
      putRows(
        small,
        8,
        count + 1,
        local.map((offset, i) => [offset, remote[i]!, sizes[i]!]),
      );
      const scratch: [number, number] = [SCRATCH, SCRATCH + scratchBytes(count)];
      const kept = input.assume_sorted
        ? small.agree((k) => k.joinRows(8, count, count + 1))
        : small.agree((k) => k.mergeRows(8, count, count + 1, SCRATCH), scratch);
      const merged = [wanted.offsets_local, wanted.offsets_remote, wanted.sizes];
      expect([id, ...rowsAt(small, 8, count + 1, kept)]).toEqual([id, ...merged]);
      checked++;
    }
    expect(cases.length - checked).toBe(cases.filter(({ expect: { ok } }) => !ok).length);
    expect(checked).toBeGreaterThan(105);
  });
});

describe('mergeRows and joinRows', () => {
  /** Places on a coarse grid, so that rows meet, tie and overlap; far apart, so that all widths of keys occur. */
  const grid = fc.integer({ min: 0, max: 12 });
  const unit = fc.constantFrom(1, 8, 4096, 2 ** 21, 2 ** 40);
  const origin = fc.constantFrom(0, -40, 12_345, 2 ** 32 - 8, 2 ** 45, -(2 ** 52));
  const rows = fc.array(fc.tuple(grid, grid, fc.integer({ min: 0, max: 3 }), fc.boolean()), {
    maxLength: 60,
  });

  test('agree with the twins on rows in any order, near and far', () => {
    const tally = new Tally();
    const property = fc.property(
      rows,
      unit,
      origin,
      origin,
      fc.integer({ min: 0, max: 5 }),
      (cells, step, a, b, at) => {
        small.reset();
        const list = cells.map(([local, remote, bytes, alike]): Row => {
          return [a + local * step, b + (alike ? local : remote) * step, bytes * step];
        });
        const capacity = list.length + 2;
        const scratch: [number, number] = [SCRATCH, SCRATCH + scratchBytes(list.length)];
        putRows(small, at, capacity, list);
        const joined = small.agree((k) => k.joinRows(at, list.length, capacity));
        putRows(small, at, capacity, list);
        const merged = small.agree((k) => k.mergeRows(at, list.length, capacity, SCRATCH), scratch);
        const locals = list.map((row) => row[0]);
        tally.add('joined', joined < list.length);
        tally.add('merged', merged < joined);
        tally.add(
          'in order',
          locals.every((local, i) => i === 0 || locals[i - 1]! <= local) && list.length > 1,
        );
        tally.add('ties', new Set(locals).size < list.length);
        tally.add('wide', Math.max(...locals) - Math.min(...locals) > U32_MAX);
        tally.add(
          'empty row',
          list.some((row) => row[2] === 0),
        );
      },
    );
    fc.assert(property, SETTINGS);
    tally.expectEach(['joined', 'merged', 'in order', 'ties', 'wide', 'empty row'], 50);
  });

  test('agree with the twins on thousands of rows whose keys have any number of bits', () => {
    const large = new Pair(16);
    const property = fc.property(fc.integer({ min: 1, max: 52 }), fc.integer(), (bits, seed) => {
      large.reset();
      const random = fc.sample(fc.integer({ min: 0, max: 2 ** bits }), { seed, numRuns: 3000 });
      putRows(
        large,
        0,
        3000,
        random.map((local, i): Row => [local, i, 1]),
      );
      const scratch: [number, number] = [100_000, 100_000 + scratchBytes(3000)];
      large.agree((k) => k.mergeRows(0, 3000, 3000, 100_000), scratch);
    });
    fc.assert(property, { seed: 42, numRuns: 60 });
  });

  test('refuse local offsets that are not whole or reach 2^53', () => {
    for (const local of [0.5, 2 ** 53, -(2 ** 53), Number.NaN, Number.POSITIVE_INFINITY]) {
      small.reset();
      putRows(small, 0, 2, [
        [1, 0, 1],
        [local, 1, 1],
      ]);
      expect(small.agree((k) => k.mergeRows(0, 2, 2, SCRATCH))).toBe(REFUSED);
    }
  });

  test('agree with the twins on lists at any address', () => {
    const tally = new Tally();
    const count = fc.oneof(fc.integer({ min: 0, max: 40 }), anyWord);
    const place = fc.oneof(fc.integer({ min: 0, max: 50_000 }), anyWord);
    const property = fc.property(place, count, count, place, (at, many, capacity, scratch) => {
      small.reset();
      small.putDoubles(
        0,
        Array.from({ length: 200 }, (_, i) => (i * 7) % 50),
      );
      const joined = small.agree((k) => k.joinRows(at, many, capacity));
      tally.add(joined === REFUSED ? 'refused' : 'joined');
      const room: [number, number] = [scratch, scratch + scratchBytes(many)];
      const fits = room[1] <= PAGE_BYTES && many <= capacity;
      const merged = small.agree((k) => k.mergeRows(at, many, capacity, scratch), fits ? room : undefined);
      tally.add('merged', merged !== REFUSED);
      tally.add('not apart', merged === REFUSED && joined !== REFUSED && fits);
    });
    fc.assert(property, { ...SETTINGS, numRuns: 4000 });
    tally.expectEach(['refused', 'joined', 'merged', 'not apart'], 20);
  });
});

describe('planWholeBlocks', () => {
  const LOCAL_IDS = 0;
  const REMOTE_IDS = 1000;
  const LOCAL_BASES = 2001;
  const REMOTE_BASES = 2100;
  const OUT = 2205;
  const ROOM: [number, number] = [SCRATCH, SCRATCH + scratchBytes(60)];

  /** Stretches of blocks that go on on both sides, in any order. */
  const stretch = fc.tuple(
    fc.integer({ min: 0, max: 90 }),
    fc.integer({ min: 0, max: 90 }),
    fc.integer({ min: 1, max: 9 }),
  );
  const id = fc.oneof(
    { weight: 10, arbitrary: fc.constant(0) },
    { weight: 1, arbitrary: fc.constantFrom(2 ** 31, U32_MAX - 1, U32_MAX) },
  );
  const pairs = fc
    .tuple(fc.array(stretch, { maxLength: 8 }), id, fc.integer())
    .map(([stretches, far, seed]) => {
      const list = stretches.flatMap(([local, remote, length]) =>
        Array.from({ length }, (_, i) => [local + i, remote + i] as const),
      );
      if (list.length > 0 && far > 0) list[0] = seed % 2 === 0 ? [far, 0] : [0, far];
      const keys = fc.sample(fc.integer({ min: 0, max: 1000 }), { seed, numRuns: list.length + 1 });
      return seed % 3 === 0
        ? list
        : list
            .map((pair, i) => ({ pair, key: keys[i]! }))
            .sort((a, b) => a.key - b.key)
            .map(({ pair }) => pair);
    });
  const stride = fc.oneof(
    { weight: 3, arbitrary: fc.constant(4096) },
    { weight: 1, arbitrary: fc.constantFrom(0, 8192, 0.5, 2 ** 22) },
  );
  const base = fc.oneof(
    { weight: 20, arbitrary: fc.integer({ min: 0, max: 2 ** 45 }) },
    { weight: 1, arbitrary: fc.constantFrom(-1, 0.5, 2 ** 53 - 4096) },
  );
  const bases = fc.array(fc.tuple(base, base), { maxLength: 5 });

  test('agrees with the twin on any pairs, strides and bases', () => {
    const tally = new Tally();
    const property = fc.property(
      pairs,
      bases,
      stride,
      stride,
      fc.constantFrom(4096, 4096, 64, 0),
      fc.constantFrom(300, 300, 20),
      (list, layers, a, b, bytes, capacity) => {
        const blocks = list.slice(0, 60);
        small.reset();
        small.put(
          LOCAL_IDS,
          blocks.map((pair) => pair[0]),
        );
        small.put(
          REMOTE_IDS,
          blocks.map((pair) => pair[1]),
        );
        small.putDoubles(
          LOCAL_BASES,
          layers.map((pair) => pair[0]),
        );
        small.putDoubles(
          REMOTE_BASES,
          layers.map((pair) => pair[1]),
        );
        putBlocksJob({
          localStride: a,
          remoteStride: b,
          blockBytes: bytes,
          localIds: LOCAL_IDS,
          remoteIds: REMOTE_IDS,
          count: blocks.length,
          localBases: LOCAL_BASES,
          remoteBases: REMOTE_BASES,
          layers: layers.length,
          out: OUT,
          capacity,
          scratch: SCRATCH,
        });
        const count = small.agree((k) => k.planWholeBlocks(JOB), ROOM);
        tally.add('joined', count > 0 && count < blocks.length * layers.length);
        tally.add('plain', count > 0 && count === blocks.length * layers.length);
        tally.add('nothing', count === 0);
        tally.add('refused', count === REFUSED);
        tally.add('no such block', count === NOT_COVERED);
        tally.add('no room', count === -5);
      },
    );
    fc.assert(property, SETTINGS);
    tally.expectEach(['joined', 'plain', 'nothing', 'refused', 'no such block', 'no room'], 20);
  });

  test('agrees with the twin on lists at any address', () => {
    const tally = new Tally();
    const at = fc.oneof(
      { weight: 8, arbitrary: fc.integer({ min: 0, max: 30_000 }) },
      { weight: 1, arbitrary: anyWord },
    );
    const many = fc.oneof(
      { weight: 8, arbitrary: fc.integer({ min: 0, max: 12 }) },
      { weight: 1, arbitrary: anyWord },
    );
    const property = fc.property(
      fc.tuple(at, at, at, at, at),
      many,
      many,
      many,
      fc.oneof(fc.constant(SCRATCH), at),
      (places, count, layers, capacity, scratch) => {
        const [localIds, remoteIds, localBases, remoteBases, out] = places;
        small.reset();
        for (const ids of [localIds, remoteIds, localBases, remoteBases])
          if (ids < 30_000)
            small.putDoubles(
              ids,
              Array.from({ length: 12 }, (_, i) => i * 3),
            );
        const room: [number, number] = [scratch, scratch + scratchBytes(count)];
        const strides = { localStride: 16, remoteStride: 16, blockBytes: 16 };
        const lists = { localIds, remoteIds, count, localBases, remoteBases, layers };
        putBlocksJob({ ...strides, ...lists, out, capacity, scratch });
        const call = () =>
          small.agree((k) => k.planWholeBlocks(JOB), room[1] <= PAGE_BYTES ? room : undefined);
        tally.add(call() === REFUSED ? 'refused' : 'accepted');
      },
    );
    fc.assert(property, SETTINGS);
    tally.expectEach(['refused', 'accepted'], 100);
  });
});

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createKernelTwin } from '../../src/kv/kernel-twin.ts';
import {
  ALL_FINE,
  ATTEND,
  CELL_VIEW,
  type CellView,
  HEADS_MAX,
  type Kernels,
  OUTSIDE_REGION,
  REFUSED,
  RUN_WORDS,
  writeCellView,
} from '../../src/kv/kernels.ts';
import { stampOf, stampWord } from '../../src/kv/stamps.ts';
import { readKernelBytes } from '../../src/node/kernel-bytes.ts';
import { instantiateKernels, instantiateKernelsAsync } from '../../src/sim/load-kernels.ts';

declare const WebAssembly: {
  readonly Module: { new (bytes: Uint8Array): object; imports(module: object): object[] };
};

const PAGE_BYTES = 65_536;
const U32_MAX = 0xffff_ffff;

/** One memory for the module, one for the twin; each step happens in both, and both agree to the last byte. */
class Pair {
  readonly module: Kernels;
  readonly twin: Kernels;
  readonly moduleBytes: Buffer;
  readonly twinBytes: Buffer;
  readonly #noise: Buffer;

  constructor(pages: number) {
    const loaded = instantiateKernels(readKernelBytes(), pages);
    const twinMemory = { buffer: new ArrayBuffer(pages * PAGE_BYTES) };
    this.module = loaded.kernels;
    this.twin = createKernelTwin(twinMemory);
    this.moduleBytes = Buffer.from(loaded.memory.buffer);
    this.twinBytes = Buffer.from(twinMemory.buffer);
    this.#noise = Buffer.alloc(pages * PAGE_BYTES);
    for (let i = 0; i < this.#noise.length / 4; i++)
      this.#noise.writeUInt32LE(stampWord(i ^ 0x5bd1, i), i * 4);
  }

  get bytes(): number {
    return this.moduleBytes.length;
  }

  /** Both memories get the same noise: a byte written by mistake shows up. */
  reset(): void {
    this.#noise.copy(this.moduleBytes);
    this.#noise.copy(this.twinBytes);
  }

  /** Writes words at any byte address of both memories. */
  put(address: number, words: readonly number[]): void {
    words.forEach((word, i) => {
      this.moduleBytes.writeUInt32LE(word >>> 0, address + i * 4);
      this.twinBytes.writeUInt32LE(word >>> 0, address + i * 4);
    });
  }

  putView(address: number, view: CellView): void {
    const words = new Int32Array(13);
    writeCellView(words, 0, view);
    this.put(address, [...words]);
  }

  word(address: number): number {
    return this.moduleBytes.readUInt32LE(address);
  }

  /** The result both agree on. */
  agree(call: (kernels: Kernels) => number): number {
    const actual = call(this.module);
    expect(actual).toBe(call(this.twin));
    const same = this.moduleBytes.equals(this.twinBytes);
    if (!same) throw new Error(`memories differ at ${firstDifference(this.moduleBytes, this.twinBytes)}`);
    return actual;
  }
}

function firstDifference(a: Buffer, b: Buffer): number {
  return a.findIndex((byte, i) => byte !== b[i]);
}

/** Counts what happened, so that no property holds for want of cases. */
class Tally {
  readonly #counts: Record<string, number> = {};

  add(outcome: string, happened = true): void {
    if (happened) this.#counts[outcome] = (this.#counts[outcome] ?? 0) + 1;
  }

  expectEach(outcomes: readonly string[], timesMin: number): void {
    for (const outcome of outcomes) {
      expect(this.#counts[outcome] ?? 0, `cases of ${outcome}`).toBeGreaterThanOrEqual(timesMin);
    }
  }
}

const small = new Pair(1);
const SETTINGS = { seed: 42, numRuns: 2000 };

/** Any word, the edges of a one-page memory and of 32 bits well represented. */
const anyWord = fc.oneof(
  fc.integer({ min: 0, max: 64 }),
  fc.integer({ min: 0, max: PAGE_BYTES + 16 }),
  fc.integer({ min: PAGE_BYTES - 64, max: PAGE_BYTES + 8 }),
  fc.integer({ min: 0x7fff_fff0, max: 0x8000_0010 }),
  fc.integer({ min: U32_MAX - 64, max: U32_MAX }),
  fc.integer({ min: 0, max: U32_MAX }),
);

describe('the release module', () => {
  test('imports its memory and nothing else', () => {
    const imports = WebAssembly.Module.imports(new WebAssembly.Module(readKernelBytes()));
    expect(imports).toEqual([{ module: 'env', name: 'memory', kind: 'memory' }]);
  });

  test('exports exactly the kernels of the twin', () => {
    expect(Object.keys(small.module).sort()).toEqual(Object.keys(small.twin).sort());
  });

  test('leaves a fresh memory all zero, since it holds no static data', async () => {
    const { memory, kernels } = await instantiateKernelsAsync(readKernelBytes(), 3);
    expect(Buffer.from(memory.buffer).equals(Buffer.alloc(3 * PAGE_BYTES))).toBe(true);
    expect(kernels.digest(0, 64, 64)).toBe(0);
  });
});

describe('copyRuns', () => {
  const offset = fc.oneof(
    { weight: 12, arbitrary: fc.integer({ min: 0, max: 1500 }) },
    { weight: 1, arbitrary: anyWord },
  );
  const bytes = fc.oneof(
    { weight: 6, arbitrary: fc.integer({ min: 0, max: 140 }) },
    { weight: 6, arbitrary: fc.integer({ min: 0, max: 1500 }) },
    { weight: 1, arbitrary: anyWord },
  );
  const runList = fc.array(fc.tuple(offset, offset, bytes), { maxLength: 8 });

  test('agrees with the twin on runs of any size, overlap and alignment', () => {
    const tally = new Tally();
    const base = fc.integer({ min: 1000, max: 4000 });
    const property = fc.property(
      runList,
      base,
      base,
      fc.integer({ min: 0, max: 7 }),
      (runs, source, target, at) => {
        small.reset();
        small.put(at, runs.flat());
        const result = small.agree((k) =>
          k.copyRuns(at, runs.length, source, source + 3000, target, target + 3000),
        );
        const copied = runs.filter((run) => run[2] > 0);
        const overlaps = copied.some((run) => Math.abs(source + run[0] - target - run[1]) < run[2]);
        tally.add('no runs', runs.length === 0);
        tally.add('copied', result === ALL_FINE && copied.length > 0);
        tally.add('overlapping run copied', result === ALL_FINE && overlaps);
        tally.add('bad run', result >= 0);
        tally.add('bad run after good ones', result > 0);
        tally.add(
          'huge run',
          runs.some((run) => Math.max(...run) > 0x7fff_ffff),
        );
      },
    );
    fc.assert(property, SETTINGS);
    const outcomes = [
      'no runs',
      'copied',
      'overlapping run copied',
      'bad run',
      'bad run after good ones',
      'huge run',
    ];
    tally.expectEach(outcomes, 50);
  });

  test('agrees with the twin on every size from 0 to 300 bytes at every small distance', () => {
    for (let bytes = 0; bytes <= 300; bytes++) {
      small.reset();
      for (const distance of [-129, -17, -16, -5, -1, 0, 1, 3, 8, 16, 31, 64, 127, 1000]) {
        small.put(0, [3, 3, bytes]);
        expect(small.agree((k) => k.copyRuns(0, 1, 5000, 6000, 5000 + distance, 6000 + distance))).toBe(
          ALL_FINE,
        );
      }
    }
  });

  test('agrees with the twin on lists and regions at any address', () => {
    const tally = new Tally();
    const region = fc.tuple(anyWord, anyWord).map((ends) => ends.sort((a, b) => a - b));
    const anyRegion = fc.oneof(fc.constant([9000, 12_000]), region, fc.tuple(anyWord, anyWord));
    const count = fc.oneof(fc.integer({ min: 0, max: 3 }), anyWord);
    const at = fc.oneof(fc.integer({ min: 0, max: 8000 }), anyWord);
    const property = fc.property(at, count, anyRegion, anyRegion, (runs, many, source, target) => {
      small.reset();
      for (let i = 0; i < 400; i++) small.put(i * 12, [i, i * 2, i]);
      const result = small.agree((k) =>
        k.copyRuns(runs, many, source[0]!, source[1]!, target[0]!, target[1]!),
      );
      tally.add('refused', result === REFUSED);
      tally.add(
        'list in the target',
        result === REFUSED && runs + many * 12 <= small.bytes && runs > target[0]!,
      );
      tally.add('bad run', result >= 0);
      tally.add('fine', result === ALL_FINE);
    });
    fc.assert(property, SETTINGS);
    tally.expectEach(['refused', 'list in the target', 'bad run', 'fine'], 20);
  });

  test('agrees with the twin on runs of more than 256 KiB, apart or overlapping', () => {
    const large = new Pair(32);
    const tally = new Tally();
    const start = fc.integer({ min: 100, max: 1_000_000 });
    const bytes = fc.integer({ min: 262_100, max: 600_000 });
    const nearby = fc.oneof(start, fc.integer({ min: 100, max: 400 }));
    const property = fc.property(nearby, nearby, bytes, (source, target, length) => {
      large.reset();
      large.put(1, [source, target, length]);
      expect(large.agree((k) => k.copyRuns(1, 1, 0, large.bytes, 100, large.bytes))).toBe(ALL_FINE);
      tally.add(Math.abs(source - target - 100) < length ? 'overlapping' : 'apart');
    });
    fc.assert(property, { seed: 42, numRuns: 60 });
    tally.expectEach(['overlapping', 'apart'], 5);
  });
});

describe('the edges', () => {
  const END = PAGE_BYTES;

  test('a run may end with its regions and not one byte later', () => {
    for (const [source, target, expected] of [
      [0, 0, ALL_FINE],
      [1, 0, 0],
      [0, 1, 0],
    ] as const) {
      small.reset();
      small.put(0, [900 + source, 1900 + target, 100]);
      expect(small.agree((k) => k.copyRuns(0, 1, 5000, 6000, 7000, 9000))).toBe(expected);
    }
  });

  test('a region and a list may end with the memory and not one byte later', () => {
    for (const [past, expected] of [
      [0, ALL_FINE],
      [1, REFUSED],
    ] as const) {
      small.reset();
      small.put(END - 12, [0, 0, 4]);
      expect(small.agree((k) => k.copyRuns(END - 12 + past, 1, 0, 16, 32, 64))).toBe(expected);
      small.put(0, [0, 0, 4]);
      expect(small.agree((k) => k.copyRuns(0, 1, 100, END + past, 100, 200))).toBe(expected);
      expect(small.agree((k) => k.copyRuns(0, 1, 100, 200, 100, END + past))).toBe(expected);
      expect(small.agree((k) => k.mergeRuns(END - 12 + past, 1))).toBe(past === 0 ? 1 : REFUSED);
      expect(small.agree((k) => k.digest(END - 77 + past, 77, 0))).toBe(past === 0 ? 0 : REFUSED);
      expect(small.agree((k) => k.digest(0, 77, END - 8 + past))).toBe(past === 0 ? 0 : REFUSED);
    }
  });

  test('a list may touch the target region and not share a byte with it', () => {
    for (const [at, expected] of [
      [988, ALL_FINE],
      [989, REFUSED],
      [1999, REFUSED],
      [2000, ALL_FINE],
    ] as const) {
      small.reset();
      small.put(at, [0, 500, 4]);
      expect(small.agree((k) => k.copyRuns(at, 1, 5000, 6000, 1000, 2000))).toBe(expected);
      expect(small.agree((k) => k.copyRuns(at, 0, 5000, 6000, 1000, 2000))).toBe(ALL_FINE);
    }
  });

  test('cells may begin and end with their region and not one byte outside', () => {
    const cells = {
      headStride: 16,
      tokenStride: 16,
      kvStride: 32,
      blockStride: 64,
      cellBytes: 16,
      headCount: 1,
    };
    const sizes = { cellsPerBlock: 2, kvCount: 2, headFirst: 0, layer: 0 };
    for (const [start, end, written] of [
      [3000, 3064, -1],
      [3001, 3064, 0],
      [3000, 3063, 1],
    ] as const) {
      small.reset();
      small.put(TABLE_AT, [0]);
      small.put(LINEAGE_AT, [11, 12]);
      small.putView(VIEW_AT, { base: 3000, ...cells, ...sizes, regionStart: start, regionEnd: end });
      expect(small.agree(fill(2))).toBe(written);
      expect(small.agree(attend(2))).toBe(written === ALL_FINE ? ALL_FINE : OUTSIDE_REGION);
    }
  });

  test('each list of a view may end with the memory and not one byte later', () => {
    const layout = fc.sample(
      anyLayout.filter((l) => l.positions > 2),
      { seed: 42, numRuns: 1 },
    )[0]!;
    const { view, blocks, lineage, positions } = layout;
    const tableBytes = Math.ceil(positions / view.cellsPerBlock) * 4;
    for (const [past, expected] of [
      [0, ALL_FINE],
      [1, REFUSED],
    ] as const) {
      const call = (v: number, t: number, l: number, r: number) => {
        putLayout(small, layout);
        expect(small.agree((k) => k.fillStamps(VIEW_AT, TABLE_AT, LINEAGE_AT, 0, positions))).toBe(ALL_FINE);
        if (v !== VIEW_AT) small.putView(END - 52, view);
        if (t !== TABLE_AT) small.put(END - tableBytes, blocks.slice(0, tableBytes / 4));
        if (l !== LINEAGE_AT) small.put(END - positions * 4, lineage.slice(0, positions));
        return small.agree((k) => k.attend(v, t, l, positions, r));
      };
      expect(call(END - 52 + past, TABLE_AT, LINEAGE_AT, RESULT_AT)).toBe(expected);
      expect(call(VIEW_AT, END - tableBytes + past, LINEAGE_AT, RESULT_AT)).toBe(expected);
      expect(call(VIEW_AT, TABLE_AT, END - positions * 4 + past, RESULT_AT)).toBe(expected);
      expect(call(VIEW_AT, TABLE_AT, LINEAGE_AT, END - 32 + past)).toBe(expected);
    }
  });
});

describe('mergeRuns', () => {
  /** A step from the end of the run before: mostly 0 on both sides, so that many runs touch. */
  const gap = fc.oneof(
    { weight: 5, arbitrary: fc.constant(0) },
    { weight: 1, arbitrary: fc.integer({ min: -1, max: 1 }) },
  );
  const size = fc.oneof(
    { weight: 8, arbitrary: fc.integer({ min: 0, max: 300 }) },
    { weight: 1, arbitrary: fc.constantFrom(0, 0x7fff_ffff, 0x8000_0000, 0xffff_fff0, U32_MAX) },
  );

  test('agrees with the twin on chains of runs, also where sums leave 32 bits', () => {
    const tally = new Tally();
    const chain = fc.array(fc.tuple(gap, gap, size), { maxLength: 20 });
    const property = fc.property(
      chain,
      anyWord,
      anyWord,
      fc.integer({ min: 0, max: 5 }),
      (steps, source, target, at) => {
        small.reset();
        let ends = [source, target];
        let wraps = false;
        const runs = steps.flatMap(([sourceGap, targetGap, bytes]) => {
          const run = [(ends[0]! + sourceGap) >>> 0, (ends[1]! + targetGap) >>> 0, bytes];
          ends = [run[0]! + bytes, run[1]! + bytes];
          wraps ||= Math.max(...ends) > U32_MAX;
          return run;
        });
        small.put(at, runs);
        const count = small.agree((k) => k.mergeRuns(at, steps.length));
        const kept = steps.filter((step) => step[2] > 0).length;
        tally.add('merged', count < kept);
        tally.add('not merged', count === kept && kept > 1);
        tally.add('empty run dropped', kept < steps.length);
        tally.add('beyond 32 bits', wraps);
      },
    );
    fc.assert(property, SETTINGS);
    tally.expectEach(['merged', 'not merged', 'empty run dropped', 'beyond 32 bits'], 50);
  });

  test('agrees with the twin on lists at any address', () => {
    const tally = new Tally();
    const property = fc.property(anyWord, fc.oneof(fc.integer({ min: 0, max: 40 }), anyWord), (at, count) => {
      small.reset();
      tally.add(small.agree((k) => k.mergeRuns(at, count)) === REFUSED ? 'refused' : 'accepted');
    });
    fc.assert(property, SETTINGS);
    tally.expectEach(['refused', 'accepted'], 50);
  });

  test('moves the same bytes as the list it was given', () => {
    const list = [0, 100, 8, 8, 108, 8, 0, 0, 0, 16, 116, 4, 30, 120, 4, 34, 125, 4];
    small.reset();
    small.put(0, list);
    expect(small.agree((k) => k.mergeRuns(0, list.length / RUN_WORDS))).toBe(3);
    expect(Array.from({ length: 9 }, (_, i) => small.word(i * 4))).toEqual([
      0, 100, 20, 30, 120, 4, 34, 125, 4,
    ]);
  });
});

/** A cache in one page: lists first, then the region. */
interface Layout {
  readonly view: CellView;
  readonly blocks: readonly number[];
  readonly lineage: readonly number[];
  readonly positions: number;
}

const VIEW_AT = 3;
const TABLE_AT = 101;
const LINEAGE_AT = 402;
const RESULT_AT = 1001;
const REGION_AT = 2048;

/** Dense layouts of either inner order, at any alignment, with a request's blocks somewhere in the cache. */
const anyLayout: fc.Arbitrary<Layout> = fc
  .record({
    cellBytes: fc.oneof(
      fc.constantFrom(4, 16, 20, 32, 64, 256),
      fc.integer({ min: 1, max: 20 }).map((w) => w * 4),
    ),
    cellsPerBlock: fc.integer({ min: 1, max: 5 }),
    kvCount: fc.integer({ min: 1, max: 2 }),
    headCount: fc.integer({ min: 1, max: 3 }),
    headFirst: fc.oneof(fc.integer({ min: 0, max: 64 }), anyWord),
    layer: fc.oneof(fc.integer({ min: 0, max: 64 }), anyWord),
    headsInside: fc.boolean(),
    shift: fc.integer({ min: 0, max: 5 }),
    blocks: fc.uniqueArray(fc.integer({ min: 0, max: 5 }), { minLength: 1, maxLength: 4 }),
    lineage: fc.array(fc.oneof(fc.integer({ min: 0, max: U32_MAX }), anyWord), {
      minLength: 20,
      maxLength: 20,
    }),
    spare: fc.integer({ min: 0, max: 4 }),
  })
  .map(({ headsInside, shift, blocks, lineage, spare, ...sizes }) => {
    const { cellBytes, cellsPerBlock, kvCount, headCount } = sizes;
    const headStride = headsInside ? cellBytes : cellBytes * cellsPerBlock;
    const tokenStride = headsInside ? cellBytes * headCount : cellBytes;
    const kvStride = cellBytes * cellsPerBlock * headCount;
    const base = REGION_AT + shift;
    const strides = { blockStride: kvStride * kvCount, kvStride, tokenStride, headStride };
    const region = { regionStart: base, regionEnd: base + strides.blockStride * 6 };
    const positions = Math.max(0, blocks.length * cellsPerBlock - spare);
    return { view: { base, ...strides, ...sizes, ...region }, blocks, lineage, positions };
  });

function putLayout(pair: Pair, layout: Layout): void {
  pair.reset();
  pair.putView(VIEW_AT, layout.view);
  pair.put(TABLE_AT, layout.blocks);
  pair.put(LINEAGE_AT, layout.lineage);
}

function cellAddress(layout: Layout, position: number, kv: number, head: number): number {
  const { view, blocks } = layout;
  const block = blocks[Math.floor(position / view.cellsPerBlock)]!;
  const token = position % view.cellsPerBlock;
  return (
    view.base +
    block * view.blockStride +
    kv * view.kvStride +
    token * view.tokenStride +
    head * view.headStride
  );
}

const fill =
  (to: number, from = 0) =>
  (k: Kernels) =>
    k.fillStamps(VIEW_AT, TABLE_AT, LINEAGE_AT, from, to);
const attend = (to: number) => (k: Kernels) => k.attend(VIEW_AT, TABLE_AT, LINEAGE_AT, to, RESULT_AT);
const resultWords = () => Array.from({ length: 8 }, (_, i) => small.word(RESULT_AT + i * 4));

describe('fillStamps and attend', () => {
  test('agree with the twin, and attend finds every cell as filled', () => {
    const tally = new Tally();
    const property = fc.property(anyLayout, fc.integer({ min: 0, max: 20 }), (layout, from) => {
      putLayout(small, layout);
      expect(small.agree(fill(layout.positions, from))).toBe(ALL_FINE);
      expect(small.agree(fill(Math.min(from, layout.positions)))).toBe(ALL_FINE);
      expect(small.agree(attend(layout.positions))).toBe(ALL_FINE);
      expect(resultWords().slice(1)).toEqual([0, 0, 0, 0, 0, 0, 0]);
      tally.add('filled in two steps', from > 0 && from < layout.positions);
      tally.add('from past to', from > layout.positions);
      tally.add('no cells', layout.positions === 0);
      tally.add('whole vectors', layout.view.cellBytes % 16 === 0);
      tally.add('odd words', layout.view.cellBytes % 16 !== 0);
    });
    fc.assert(property, SETTINGS);
    tally.expectEach(['filled in two steps', 'from past to', 'no cells', 'whole vectors', 'odd words'], 50);
  });

  test('attend names the one word that was flipped, and still sums every cell', () => {
    const tally = new Tally();
    const pick = fc.nat({ max: 1000 });
    const property = fc.property(
      anyLayout,
      pick,
      pick,
      pick,
      pick,
      fc.nat({ max: 31 }),
      (layout, p, v, h, w, bit) => {
        fc.pre(layout.positions > 0);
        putLayout(small, layout);
        small.agree(fill(layout.positions));
        small.agree(attend(layout.positions));
        const sum = small.word(RESULT_AT);
        const { view } = layout;
        const [position, kv, head] = [p % layout.positions, v % view.kvCount, h % view.headCount];
        const word = w % (view.cellBytes / 4);
        const address = cellAddress(layout, position, kv, head) + word * 4;
        const before = small.word(address);
        const actual = (before ^ (1 << bit)) >>> 0;
        small.put(address, [actual]);
        expect(small.agree(attend(layout.positions))).toBe(position);
        const expected = stampOf(layout.lineage[position]!, view.layer, kv, view.headFirst + head);
        const newSum = word === 0 ? (sum + actual - before) >>> 0 : sum;
        expect(resultWords()).toEqual([newSum, position, kv, head, expected, actual, word, 0]);
        tally.add('first word', word === 0);
        tally.add('word of a vector', word > 0 && word * 4 < (view.cellBytes & ~15));
        tally.add('word after the vectors', word * 4 >= (view.cellBytes & ~15));
      },
    );
    fc.assert(property, SETTINGS);
    tally.expectEach(['first word', 'word of a vector', 'word after the vectors'], 50);
  });

  test('agree with the twin when blocks, strides, region and lists are wrong in any way', () => {
    const tally = new Tally();
    const field = fc.constantFrom(...(Object.keys(CELL_VIEW) as (keyof CellView)[]));
    const value = fc.oneof(fc.integer({ min: 0, max: 8 }), fc.integer({ min: 1900, max: 2600 }), anyWord);
    const faults = fc.array(fc.tuple(field, value), { maxLength: 2 });
    const block = fc.tuple(fc.nat({ max: 5 }), fc.oneof(fc.integer({ min: 0, max: 8 }), anyWord));
    const property = fc.property(
      anyLayout,
      faults,
      block,
      fc.nat({ max: 24 }),
      (layout, wrong, [entry, id], to) => {
        putLayout(small, layout);
        small.agree(fill(layout.positions));
        small.putView(VIEW_AT, { ...layout.view, ...Object.fromEntries(wrong) });
        small.put(TABLE_AT + entry * 4, [id]);
        const read = small.agree(attend(to));
        const written = small.agree(fill(to));
        tally.add('read refused', read === REFUSED);
        tally.add('read outside', read === OUTSIDE_REGION);
        tally.add('read mismatch', read >= 0);
        tally.add('read fine', read === ALL_FINE && to > 0);
        tally.add('write refused', written === REFUSED);
        tally.add('write outside at once', written === 0);
        tally.add('write outside later', written > 0);
        tally.add('write fine', written === ALL_FINE && to > 0);
      },
    );
    fc.assert(property, SETTINGS);
    const reads = ['read refused', 'read outside', 'read mismatch', 'read fine'];
    tally.expectEach(
      [...reads, 'write refused', 'write outside at once', 'write outside later', 'write fine'],
      50,
    );
  });

  test('agree with the twin on views, lists and results at any address', () => {
    const tally = new Tally();
    const at = (usual: number) =>
      fc.oneof({ weight: 3, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: anyWord });
    const to = fc.oneof(
      { weight: 3, arbitrary: fc.integer({ min: 0, max: 10 }) },
      { weight: 1, arbitrary: anyWord },
    );
    const addresses = fc.tuple(at(VIEW_AT), at(TABLE_AT), at(LINEAGE_AT), at(RESULT_AT));
    const property = fc.property(anyLayout, addresses, to, (layout, [view, table, lineage, result], end) => {
      putLayout(small, layout);
      const written = small.agree((k) => k.fillStamps(view, table, lineage, 0, end));
      const read = small.agree((k) => k.attend(view, table, lineage, end, result));
      tally.add('write refused', written === REFUSED);
      tally.add('read refused', read === REFUSED);
      tally.add('only the result refused', read === REFUSED && written !== REFUSED);
      tally.add('written', written === ALL_FINE && end > 0);
      tally.add('read', read === ALL_FINE && end > 0);
    });
    fc.assert(property, SETTINGS);
    tally.expectEach(['write refused', 'read refused', 'only the result refused', 'written', 'read'], 50);
  });

  test('refuse each malformed view, and accept it once repaired', () => {
    const [layout] = fc.sample(
      anyLayout.filter((l) => l.positions > 2),
      { seed: 42, numRuns: 1 },
    );
    const { view } = layout!;
    const wrongs: Partial<CellView>[] = [
      { cellBytes: 0 },
      { cellBytes: 6 },
      { cellsPerBlock: 0 },
      { kvCount: 0 },
      { kvCount: 3 },
      { headCount: 0 },
      { headCount: HEADS_MAX + 1 },
      { regionStart: view.regionEnd + 1 },
      { regionEnd: PAGE_BYTES + 1 },
    ];
    for (const wrong of wrongs) {
      putLayout(small, layout!);
      small.putView(VIEW_AT, { ...view, ...wrong });
      expect(small.agree(fill(layout!.positions))).toBe(REFUSED);
      expect(small.agree(attend(layout!.positions))).toBe(REFUSED);
      small.putView(VIEW_AT, view);
      expect(small.agree(fill(layout!.positions))).toBe(ALL_FINE);
      expect(small.agree(attend(layout!.positions))).toBe(ALL_FINE);
    }
  });

  test('the stamp of another layer, part, head or lineage word differs', () => {
    const right = stampOf(7, 3, 0, 5);
    const others = [stampOf(8, 3, 0, 5), stampOf(7, 2, 0, 5), stampOf(7, 3, 1, 5), stampOf(7, 3, 0, 4)];
    expect(new Set([right, ...others]).size).toBe(5);
  });
});

describe('digest', () => {
  const digestAt = (address: number, bytes: number) => {
    expect(small.agree((k) => k.digest(address, bytes, 60_001))).toBe(0);
    return small.moduleBytes.readBigUInt64LE(60_001);
  };

  test('agrees with the twin on ranges of any length and alignment, also where they do not exist', () => {
    const tally = new Tally();
    const stripes = fc.integer({ min: 0, max: 8 }).map((count) => count * 64);
    const length = fc.oneof(
      fc.integer({ min: 0, max: 400 }),
      fc.integer({ min: 0, max: 5000 }),
      stripes,
      anyWord,
    );
    const result = fc.oneof(
      { weight: 3, arbitrary: fc.integer({ min: 0, max: 5000 }) },
      { weight: 1, arbitrary: anyWord },
    );
    const start = fc.oneof(fc.integer({ min: 0, max: 5000 }), anyWord);
    const property = fc.property(start, length, result, (address, bytes, at) => {
      small.reset();
      const code = small.agree((k) => k.digest(address, bytes, at));
      tally.add('refused', code === REFUSED);
      tally.add('whole stripes', code === 0 && bytes > 0 && bytes % 64 === 0);
      tally.add('part of a stripe', code === 0 && bytes % 64 !== 0);
      tally.add('nothing', code === 0 && bytes === 0);
      tally.add('result inside the range', code === 0 && at >= address && at < address + bytes);
    });
    fc.assert(property, { seed: 42, numRuns: 3000 });
    tally.expectEach(
      ['refused', 'whole stripes', 'part of a stripe', 'nothing', 'result inside the range'],
      50,
    );
  });

  test('tells lengths of zeros, each flipped bit and each pair of swapped pieces apart', () => {
    small.reset();
    small.moduleBytes.fill(0, 0, 1024);
    small.twinBytes.fill(0, 0, 1024);
    const seen = new Set<bigint>();
    for (let bytes = 0; bytes <= 300; bytes++) seen.add(digestAt(0, bytes));
    expect(seen.size).toBe(301);
    for (let bit = 0; bit < 300 * 8; bit += 7) {
      const word = (bit >> 5) * 4;
      small.put(word, [1 << (bit & 31)]);
      seen.add(digestAt(0, 300));
      small.put(word, [0]);
    }
    expect(seen.size).toBe(301 + Math.ceil(2400 / 7));
    for (const bytes of [16, 32, 64, 128]) {
      small.reset();
      const before = digestAt(0, 512);
      const first = Array.from({ length: bytes / 4 }, (_, i) => small.word(i * 4));
      const second = Array.from({ length: bytes / 4 }, (_, i) => small.word(bytes + i * 4));
      small.put(0, [...second, ...first]);
      expect(digestAt(0, 512)).not.toBe(before);
    }
  });

  test('flips about half of its bits for each flipped bit', () => {
    small.reset();
    const before = digestAt(0, 200);
    let flipped = 0;
    for (let bit = 0; bit < 1600; bit++) {
      const word = (bit >> 5) * 4;
      const old = small.word(word);
      small.put(word, [old ^ (1 << (bit & 31))]);
      const change = (digestAt(0, 200) ^ before).toString(2).replaceAll('0', '').length;
      expect(change).toBeGreaterThan(10);
      flipped += change;
      small.put(word, [old]);
    }
    expect(flipped / 1600).toBeGreaterThan(31);
    expect(flipped / 1600).toBeLessThan(33);
  });
});

test('an attend result names its words in the order the kernel writes them', () => {
  expect(Object.values(ATTEND)).toEqual([0, 1, 2, 3, 4, 5, 6]);
});

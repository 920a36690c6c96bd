import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  ALL_FINE,
  ATTEND,
  CELL_VIEW,
  type CellView,
  HEADS_MAX,
  type Kernels,
  OUTSIDE_REGION,
  REFUSED,
} from '../../src/kv/kernels.ts';
import { stampOf } from '../../src/kv/stamps.ts';
import { anyWord, PAGE_BYTES, type Pair, SETTINGS, small, Tally, U32_MAX } from './pair.ts';

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

describe('the edges of cells', () => {
  const END = PAGE_BYTES;

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

test('an attend result names its words in the order the kernel writes them', () => {
  expect(Object.values(ATTEND)).toEqual([0, 1, 2, 3, 4, 5, 6]);
});

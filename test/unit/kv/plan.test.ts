import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { UsageError } from '../../../src/base/failure.ts';
import { createKernelTwin } from '../../../src/kv/kernel-twin.ts';
import { ALL_FINE, CELL_VIEW_BYTES, writeCellView } from '../../../src/kv/kernels.ts';
import { planRuns, refusalOf } from '../../../src/kv/plan.ts';
import {
  type AxisOrder,
  type CacheView,
  headsOfRank,
  layView,
  ORDERS,
  sourceRanks,
  targetRanks,
} from '../../../src/kv/view.ts';

// One memory for what the plan does and one for what it should have done.

const MEMORY_BYTES = 1 << 19;
const VIEW_AT = 64;
const TABLE_AT = 256;
const LINEAGE_AT = 1024;
const RUNS_AT = 2048;
const REGIONS_AT = 1 << 15;

function newSide() {
  const buffer = new ArrayBuffer(MEMORY_BYTES);
  const bytes = new Uint8Array(buffer);
  return { bytes, words: new Uint32Array(buffer), kernels: createKernelTwin({ buffer }) };
}

const actual = newSide();
const wanted = newSide();

/** One rank's cache within one of the memories. */
interface Rank {
  readonly view: CacheView;
  readonly from: number;
  readonly to: number;
}

function stamp(
  side: ReturnType<typeof newSide>,
  rank: Rank,
  table: readonly number[],
  from: number,
  to: number,
): void {
  const { view } = rank;
  writeCellView(side.words, VIEW_AT, {
    base: rank.from + view.base,
    blockStride: view.blockStride,
    kvStride: view.partStride,
    tokenStride: view.tokenStride,
    headStride: view.headStride,
    cellBytes: view.cellBytes,
    cellsPerBlock: view.slots,
    kvCount: view.parts,
    headCount: view.headCount,
    headFirst: view.headFirst,
    layer: view.layer,
    regionStart: rank.from,
    regionEnd: rank.to,
  });
  expect(VIEW_AT + CELL_VIEW_BYTES).toBeLessThan(TABLE_AT);
  side.words.set(table, TABLE_AT / 4);
  for (let i = 0; i < to; i++) side.words[LINEAGE_AT / 4 + i] = 0x1000 + i * 7919;
  expect(side.kernels.fillStamps(VIEW_AT, TABLE_AT, LINEAGE_AT, from, to)).toBe(ALL_FINE);
}

const five: readonly AxisOrder[] = ORDERS.filter((order) => order !== 'BN');

interface Engine {
  readonly order: AxisOrder;
  readonly tp: number;
  readonly slots: number;
  readonly spareBlocks: number;
  readonly base: number;
  readonly shuffle: number;
  /** Blocks of the list's front that the span leaves out. */
  readonly skipBlocks: number;
}

const engine = fc.record<Engine>({
  order: fc.constantFrom(...five),
  tp: fc.integer({ min: 1, max: 4 }),
  slots: fc.constantFrom(1, 2, 3, 4, 6),
  spareBlocks: fc.integer({ min: 0, max: 4 }),
  base: fc.integer({ min: 0, max: 8 }).map((words) => words * 4),
  shuffle: fc.integer({ min: 0, max: 1 << 30 }),
  skipBlocks: fc.integer({ min: 0, max: 2 }),
});

const pairing = fc
  .record({
    source: engine,
    target: engine,
    heads: fc.constantFrom(1, 2, 4, 8),
    latent: fc.integer({ min: 0, max: 4 }).map((value) => value === 0),
    sameSlots: fc.boolean(),
    cellBytes: fc.constantFrom(4, 8, 12, 16),
    layer: fc.integer({ min: 0, max: 3 }),
    tokens: fc.integer({ min: 0, max: 24 }),
    fromShare: fc.integer({ min: 0, max: 100 }),
    pull: fc.boolean(),
  })
  .map((drawn) => ({
    ...drawn,
    heads: drawn.latent ? 1 : drawn.heads,
    source: { ...drawn.source, order: drawn.latent ? ('BN' as const) : drawn.source.order },
    target: {
      ...drawn.target,
      order: drawn.latent ? ('BN' as const) : drawn.target.order,
      slots: drawn.sameSlots ? drawn.source.slots : drawn.target.slots,
    },
  }))
  .filter(({ heads, source, target }) => divides(heads, source.tp) && divides(heads, target.tp));

function divides(heads: number, tp: number): boolean {
  return heads % tp === 0 || tp % heads === 0;
}

function shuffled(count: number, seed: number): number[] {
  const list = Array.from({ length: count }, (_, index) => index);
  let state = seed >>> 0;
  for (let i = count - 1; i > 0; i--) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const j = state % (i + 1);
    [list[i], list[j]] = [list[j]!, list[i]!];
  }
  return list;
}

test('every rank pair together writes each wanted cell once with its own stamp and changes no other byte', () => {
  const seen = {
    cells: 0,
    merged: 0,
    replicated: 0,
    unequalTp: 0,
    unequalSlots: 0,
    indivisibleSlots: 0,
    skipped: 0,
    latent: 0,
  };
  fc.assert(
    fc.property(pairing, ({ source, target, heads, cellBytes, layer, tokens, fromShare, pull }) => {
      const from = Math.floor((tokens * fromShare) / 101);
      let top = REGIONS_AT;
      const build = (spec: Engine) => {
        const listed = Math.ceil(tokens / spec.slots) + 1;
        const blockCount = listed + spec.spareBlocks;
        const ranks = Array.from({ length: spec.tp }, (_, tpRank): Rank => {
          const held = headsOfRank(heads, spec.tp, tpRank);
          const shape = {
            order: spec.order,
            blockCount,
            slots: spec.slots,
            cellBytes,
            headFirst: held.first,
            headCount: held.count,
          };
          const view = layView(layer, spec.base, shape);
          const rank = { view, from: top, to: top + spec.base + view.bytes };
          top = (rank.to + 16) & ~3;
          return rank;
        });
        expect(top).toBeLessThan(MEMORY_BYTES);
        const table = shuffled(blockCount, spec.shuffle).slice(0, listed);
        // A span may begin at any block border at or before the first token wanted.
        const skip = Math.min(spec.skipBlocks, Math.floor(from / spec.slots));
        seen.skipped += skip > 0 ? 1 : 0;
        return { ranks, table, span: { blocks: table.slice(skip), firstToken: skip * spec.slots } };
      };
      const here = build(source);
      const there = build(target);
      for (let i = REGIONS_AT; i < top; i++) actual.bytes[i] = (i * 31) & 0xff;
      for (const rank of here.ranks) stamp(actual, rank, here.table, 0, tokens);
      wanted.bytes.set(actual.bytes);
      for (const rank of there.ranks) stamp(wanted, rank, there.table, from, tokens);

      const writes = new Uint8Array(MEMORY_BYTES);
      there.ranks.forEach((to, targetRank) => {
        for (const sourceRank of sourceRanks(heads, source.tp, target.tp, targetRank)) {
          expect(targetRanks(heads, source.tp, target.tp, sourceRank)).toContain(targetRank);
          const fromRank = here.ranks[sourceRank]!;
          const runs: number[] = [];
          if (pull) planRuns(to.view, there.span, fromRank.view, here.span, from, tokens, runs);
          else planRuns(fromRank.view, here.span, to.view, there.span, from, tokens, runs);
          for (let i = 0; i < runs.length; i += 3) {
            const [sourceAt, targetAt] = pull ? [runs[i + 1]!, runs[i]!] : [runs[i]!, runs[i + 1]!];
            actual.words.set([sourceAt, targetAt, runs[i + 2]!], RUNS_AT / 4 + i);
            for (let byte = 0; byte < runs[i + 2]!; byte++) writes[to.from + targetAt + byte]!++;
            seen.merged += runs[i + 2]! > cellBytes ? 1 : 0;
          }
          expect(RUNS_AT + runs.length * 4).toBeLessThanOrEqual(REGIONS_AT);
          const outcome = actual.kernels.copyRuns(
            RUNS_AT,
            runs.length / 3,
            fromRank.from,
            fromRank.to,
            to.from,
            to.to,
          );
          expect(outcome).toBe(ALL_FINE);
        }
      });

      const differs = firstDifference(actual.bytes, wanted.bytes, REGIONS_AT, top);
      expect(differs).toBe(-1);
      const parts = source.order === 'BN' ? 1 : 2;
      const cells = there.ranks.reduce((sum, { view }) => sum + view.headCount * parts * (tokens - from), 0);
      expect(writes.reduce((sum, count) => sum + count, 0)).toBe(cells * cellBytes);
      expect(Math.max(...writes.subarray(REGIONS_AT, top + 1))).toBe(cells > 0 ? 1 : 0);

      seen.cells += cells;
      seen.replicated += heads < source.tp || heads < target.tp ? 1 : 0;
      seen.unequalTp += source.tp !== target.tp ? 1 : 0;
      seen.unequalSlots += source.slots !== target.slots ? 1 : 0;
      seen.indivisibleSlots += source.slots % target.slots !== 0 && target.slots % source.slots !== 0 ? 1 : 0;
      seen.latent += source.order === 'BN' ? 1 : 0;
    }),
    { seed: 42, numRuns: 600 },
  );
  for (const [what, count] of Object.entries(seen)) expect([what, count > 30]).toEqual([what, true]);
});

function firstDifference(left: Uint8Array, right: Uint8Array, from: number, to: number): number {
  for (let i = from; i < to; i++) if (left[i] !== right[i]) return i;
  return -1;
}

describe('runs of equal layouts', () => {
  const N = 4;
  const H = 4;
  const BLOCKS = 8;
  const view = (order: AxisOrder, headFirst = 0, headCount = order === 'BN' ? 1 : H): CacheView =>
    layView(0, 0, { order, blockCount: BLOCKS, slots: N, cellBytes: 16, headFirst, headCount });
  const runsOf = (
    local: CacheView,
    remote: CacheView,
    blocks: readonly number[],
    tokens = blocks.length * N,
  ): number => {
    const runs: number[] = [];
    planRuns(local, { blocks, firstToken: 0 }, remote, { blocks, firstToken: 0 }, 0, tokens, runs);
    return runs.length / 3;
  };

  // layouts.md 7.2, per layer: one block, then two blocks that do not touch.
  test.each([
    ['KBNH', 2],
    ['KBHN', 2],
    ['BKNH', 1],
    ['BKHN', 1],
    ['BN', 1],
  ] as const)('%s takes %i for one block', (order, count) => {
    expect(runsOf(view(order), view(order), [5])).toBe(count);
    expect(runsOf(view(order), view(order), [5, 2])).toBe(2 * count);
  });

  test('BHNK, the packed form, takes 1 for one block', () => {
    expect(runsOf(view('BHNK'), view('BHNK'), [5])).toBe(1);
  });

  test.each([
    ['KBNH', 2 * N],
    ['KBHN', 2],
    ['BKNH', 2 * N],
    ['BKHN', 2],
  ] as const)('%s takes %i for two of four heads of one block', (order, count) => {
    expect(runsOf(view(order, 1, 2), view(order), [5])).toBe(count);
    expect(runsOf(view(order), view(order, 1, 2), [5])).toBe(count);
  });

  test.each([
    ['BKNH', 1],
    ['BKHN', 1],
    ['BN', 1],
  ] as const)('%s takes %i for three blocks that touch', (order, count) => {
    expect(runsOf(view(order), view(order), [2, 3, 4])).toBe(count);
  });

  test.each([
    ['KBNH', 2],
    ['KBHN', 2],
  ] as const)('%s takes %i for three blocks that touch: all of K, all of V', (order, count) => {
    expect(runsOf(view(order), view(order), [2, 3, 4])).toBe(count);
  });

  test.each([
    ['KBNH', 'BKNH', 2],
    ['KBHN', 'BKHN', 2],
    ['KBNH', 'KBHN', 2 * N * H],
    ['BKHN', 'BKNH', 2 * N * H - 1],
  ] as const)('%s to %s takes %i for one block', (local, remote, count) => {
    expect(runsOf(view(local), view(remote), [5])).toBe(count);
  });

  test('a part of a block takes as many as its rows', () => {
    expect(runsOf(view('BKNH'), view('BKNH'), [5], 3)).toBe(2);
    expect(runsOf(view('BKHN'), view('BKHN'), [5], 3)).toBe(2 * H);
  });

  test('the remote side has its own block count: V lies after its own K', () => {
    const remote = layView(0, 0, {
      order: 'KBNH',
      blockCount: 3,
      slots: N,
      cellBytes: 16,
      headFirst: 0,
      headCount: H,
    });
    const runs: number[] = [];
    planRuns(
      view('KBNH'),
      { blocks: [7], firstToken: 0 },
      remote,
      { blocks: [1], firstToken: 0 },
      0,
      N,
      runs,
    );
    const block = N * H * 16;
    expect(runs).toEqual([7 * block, block, block, (BLOCKS + 7) * block, (3 + 1) * block, block]);
  });

  test('an empty range takes none, and heads that do not meet take none', () => {
    expect(runsOf(view('BKNH'), view('BKNH'), [5], 0)).toBe(0);
    expect(runsOf(view('BKNH', 0, 2), view('BKNH', 2, 2), [5])).toBe(0);
  });
});

function codeOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (error instanceof UsageError) return error.code;
    throw error;
  }
  return 'accepted';
}

describe('refusals', () => {
  const view = layView(2, 0, {
    order: 'BKNH',
    blockCount: 4,
    slots: 4,
    cellBytes: 16,
    headFirst: 0,
    headCount: 2,
  });
  const span = (blocks: readonly number[], firstToken = 0) => ({ blocks, firstToken });

  test.each([
    ['a local list that is too short', span([0]), span([0, 1]), 0, 5, 'PLAN-RANGE'],
    ['a remote list that is too short', span([0, 1]), span([0]), 0, 5, 'PLAN-RANGE'],
    ['a block past the local cache', span([4]), span([0]), 0, 1, 'PLAN-RANGE'],
    ['a block past the remote cache', span([0]), span([4]), 0, 1, 'PLAN-RANGE'],
    ['a negative block', span([0]), span([-1]), 0, 1, 'PLAN-RANGE'],
    ['a token before the local list', span([0], 4), span([0, 1]), 3, 5, 'PLAN-RANGE'],
    ['a token before the remote list', span([0, 1]), span([0], 4), 3, 5, 'PLAN-RANGE'],
    ['nothing at the end of the lists', span([0]), span([0]), 0, 4, 'accepted'],
    ['nothing at the start of shifted lists', span([0], 4), span([1], 4), 4, 8, 'accepted'],
    ['nothing for no token and no list', span([]), span([]), 3, 3, 'accepted'],
  ])('a plan refuses %s', (_, local, remote, from, to, code) => {
    const runs: number[] = [];
    expect(codeOf(() => planRuns(view, local, view, remote, from, to, runs))).toBe(code);
  });

  test('views of unequal cells or parts are refused by name, others not', () => {
    const shape = {
      order: 'BKNH',
      blockCount: 4,
      slots: 4,
      cellBytes: 16,
      headFirst: 0,
      headCount: 1,
    } as const;
    const other = (change: object) => layView(2, 0, { ...shape, ...change });
    expect(refusalOf(view, other({ cellBytes: 32 }))).toBe(
      'layer 2: a cell has 16 bytes here and 32 bytes at the peer',
    );
    expect(refusalOf(view, other({ order: 'BN' }))).toBe('layer 2: 2 parts here, 1 at the peer');
    expect(refusalOf(view, other({ order: 'KBHN', blockCount: 9, slots: 2 }))).toBe('');
  });
});

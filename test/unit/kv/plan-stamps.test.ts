import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ALL_FINE, CELL_VIEW_BYTES, writeCellView } from '../../../src/kv/kernels.ts';
import { planUnits } from '../../../src/kv/plan.ts';
import {
  type AxisOrder,
  headsOfRank,
  type LayerView,
  layView,
  ORDERS,
  sourceRanks,
  targetRanks,
} from '../../../src/kv/view.ts';
import { cellViewOf } from '../../../src/serving/model.ts';
import { createKernelTwin } from '../../reference/kernel-twin.ts';

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
  readonly view: LayerView;
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
  writeCellView(side.words, VIEW_AT, cellViewOf(view, view.layer, rank.from, rank.to));
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
            blockUnits: spec.slots,
            unitTokens: 1,
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
        return { ranks, table, span: { blocks: table.slice(skip), firstUnit: skip * spec.slots } };
      };
      const here = build(source);
      const there = build(target);
      for (let i = REGIONS_AT; i < top; i++) actual.bytes[i] = (i * 31) & 0xff;
      for (const rank of here.ranks) stamp(actual, rank, here.table, 0, tokens);
      wanted.bytes.set(actual.bytes);
      for (const rank of there.ranks) stamp(wanted, rank, there.table, from, tokens);

      const writes = new Uint8Array(MEMORY_BYTES);
      const given = ({ view }: Rank, { span }: typeof here) => ({ layer: view, ...span });
      there.ranks.forEach((to, targetRank) => {
        for (const sourceRank of sourceRanks(heads, source.tp, target.tp, targetRank)) {
          expect(targetRanks(heads, source.tp, target.tp, sourceRank)).toContain(targetRank);
          const fromRank = here.ranks[sourceRank]!;
          const runs: number[] = [];
          if (pull) planUnits(given(to, there), given(fromRank, here), { from, to: tokens }, runs);
          else planUnits(given(fromRank, here), given(to, there), { from, to: tokens }, runs);
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

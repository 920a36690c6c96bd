import { type LayerView, listedTokensOf } from '../../base/cache-view.ts';
import { UsageError } from '../../base/failure.ts';
import { greatest } from '../../base/lists.ts';
import type { Range } from '../../report/plan-report.ts';
import type { LayerPair, PartPair } from './row-planner.ts';

/**
 * How large a plan will be, from shapes alone: known before a block list, a view or a row is made. A plan within these
 * bounds takes seconds and less than two gigabytes.
 */

/** Rows of one batch: the planner has room for as many, 64 bytes each. */
const ROWS_MAX = 8_000_000;
/** Blocks of the request on one side. */
const BLOCKS_MAX = 4_000_000;
/** Rows that the kernels walk over, for all batches of a plan. */
const WALKED_MAX = 40_000_000;
/** What a batch takes besides its rows, told in rows. */
const WALKED_BY_A_BATCH = 2_000;
/** What it takes to count the runs of one piece of a block, told in rows. */
const WALKED_BY_A_PIECE = 500;
/** Ways in which a block of one side may lie to those of the other. */
const KINDS_MAX = WALKED_MAX / WALKED_BY_A_PIECE;
/** Layers that are compared, over all pairs of ranks that talk. */
const COMPARED_MAX = 1_000_000;

export function tooLarge(what: string): UsageError {
  return new UsageError('PLAN-SIZE', `${what}: give fewer --tokens, larger blocks or fewer ranks`);
}

/** @throws UsageError PLAN-SIZE when the request's block list would be too long to plan with. */
export function refuseLongList(flag: string, blocks: number): void {
  if (blocks > BLOCKS_MAX)
    throw tooLarge(`${flag}: the request has ${blocks} blocks, at most ${BLOCKS_MAX} are planned`);
}

/** @throws UsageError PLAN-SIZE */
export function refuseManyPairs(pairs: number, layers: number): void {
  if (pairs * layers > COMPARED_MAX)
    throw tooLarge(
      `${pairs} pairs of ranks with ${layers} layers, at most ${COMPARED_MAX} layers are compared`,
    );
}

/** What the planner meets in one batch. */
export interface BatchBounds {
  /** Rows that stay apart, whatever blocks lie behind one another. */
  readonly fewest: number;
  /** Rows that are walked over, each of which may stay. */
  readonly most: number;
  /** Pieces of blocks whose runs are counted one by one. */
  readonly counted: number;
}

/** Bounds of what one batch makes. `scattered`: no two blocks of a list lie behind one another. */
export function boundsOf(batch: readonly LayerPair[], scattered: boolean, cutsOf: CutsOf): BatchBounds {
  let [fewest, most, counted] = [0, 0, 0];
  for (const { prefill, decode, tokens } of batch) {
    let apart = 0;
    const isSplit = prefill.context.ranks > 1 || decode.context.ranks > 1;
    const blocks = cutsOf(listedTokensOf(prefill), listedTokensOf(decode), tokens);
    counted += blocks.kinds;
    for (const part of prefill.parts) {
      const peer = decode.parts.find(({ name }) => name === part.name)!;
      const cuts = cutsOf(part.pageUnits, peer.pageUnits, unitsOf(prefill, tokens));
      const parts = { prefill, decode, part, peer };
      const rows = isSplit ? unitsHeld(parts, unitsOf(prefill, tokens)) : rowsIn(cuts, parts);
      most += rows;
      // A piece may join the one before it, unless it begins a block; rows of two parts may join, so one part counts.
      apart = Math.max(apart, rows - cuts.pieces + (scattered ? blocks.pieces : 0));
    }
    // Of a context group a rank holds some of the tokens; how few rows that makes is not known from here.
    if (!isSplit) fewest += apart;
  }
  return { fewest, most, counted };
}

/** @throws UsageError PLAN-SIZE when a plan of these batches would be too large. */
export function refuseLargePlan(batches: readonly BatchBounds[]): void {
  let walked = 0;
  for (const { fewest, most, counted } of batches) {
    if (fewest > ROWS_MAX)
      throw tooLarge(`one batch has at least ${fewest} runs, at most ${ROWS_MAX} are planned`);
    walked += most + counted * WALKED_BY_A_PIECE + WALKED_BY_A_BATCH;
  }
  if (walked > WALKED_MAX)
    throw tooLarge(`the plan takes the work of ${walked} runs, at most ${WALKED_MAX} are planned`);
}

/** Room for the rows of the largest batch; what does not fit is too large. */
export function roomFor(batches: readonly BatchBounds[]): number {
  return Math.min(
    ROWS_MAX,
    greatest(
      batches.map(({ most }) => most),
      1,
    ),
  );
}

export function unitsOf({ unitTokens }: LayerView, [from, to]: Range): Range {
  return [Math.floor(from / unitTokens), Math.ceil(to / unitTokens)];
}

/** How a range is cut at multiples of either of two sizes. */
export interface Cuts {
  readonly pieces: number;
  /** Pieces that are told apart: those of one round of cuts, and those before and behind the rounds. */
  readonly kinds: number;
  /** How many pieces have which length. */
  readonly bySize: ReadonlyMap<number, number>;
}

export type CutsOf = (left: number, right: number, range: Range) => Cuts;

/** Many layers and pairs of ranks are cut alike. @throws UsageError PLAN-SIZE when a range has too many kinds of pieces. */
export function rememberingCuts(): CutsOf {
  const known = new Map<string, Cuts>();
  return (left, right, range) => {
    const key = `${left}/${right}/${range[0]}/${range[1]}`;
    const cuts = known.get(key) ?? countCuts(left, right, range);
    known.set(key, cuts);
    return cuts;
  };
}

function countCuts(left: number, right: number, range: Range): Cuts {
  const bySize = new Map<number, number>();
  let [pieces, kinds] = [0, 0];
  for (const { from, to, times } of piecesOf(left, right, range)) {
    bySize.set(to - from, (bySize.get(to - from) ?? 0) + times);
    pieces += times;
    if (++kinds > KINDS_MAX)
      throw tooLarge(`blocks of ${left} and ${right} meet in more than ${KINDS_MAX} ways`);
  }
  return { pieces, kinds, bySize };
}

function rowsIn({ bySize }: Cuts, parts: PartPair): number {
  const heads = headsInCommon(parts);
  let rows = 0;
  for (const [units, times] of bySize) rows += heads > 0 ? times * rowsOfPiece(parts, heads, units) : 0;
  return rows;
}

/** No more rows than this where context groups split the tokens: each unit that both ranks hold, for each head. */
function unitsHeld(parts: PartPair, [from, to]: Range): number {
  const held = ({ context }: LayerView): number =>
    Math.ceil((to - from) / context.ranks) + context.interleaveUnits;
  return Math.max(0, headsInCommon(parts)) * Math.min(to - from, held(parts.prefill), held(parts.decode));
}

function headsInCommon({ prefill, decode }: PartPair): number {
  const from = Math.max(prefill.headFirst, decode.headFirst);
  return Math.min(prefill.headFirst + prefill.headCount, decode.headFirst + decode.headCount) - from;
}

/** Rows of one piece: an axis is one row where its steps are as long as what lies within them, on both sides. */
function rowsOfPiece({ part, peer }: PartPair, heads: number, units: number): number {
  const unitsOutside = part.unitStride >= part.headStride;
  const byUnit = { count: units, local: part.unitStride, remote: peer.unitStride };
  const byHead = { count: heads, local: part.headStride, remote: peer.headStride };
  const [outer, inner] = unitsOutside ? [byUnit, byHead] : [byHead, byUnit];
  if (!isOneRow(inner, part.bytes)) return inner.count * outer.count;
  return isOneRow(outer, part.bytes * inner.count) ? 1 : outer.count;
}

interface Axis {
  readonly count: number;
  readonly local: number;
  readonly remote: number;
}

function isOneRow({ count, local, remote }: Axis, bytes: number): boolean {
  return count === 1 || (local === bytes && remote === bytes);
}

export interface Piece {
  readonly from: number;
  readonly to: number;
  /** How many pieces lie alike: one round of cuts stands for all. */
  readonly times: number;
}

/** The pieces of a range, cut at multiples of either size. The cuts repeat after the sizes' least common multiple. */
export function* piecesOf(left: number, right: number, [from, to]: Range): Generator<Piece> {
  const round = (left / greatestDivisor(left, right)) * right;
  const start = Math.min(to, Math.ceil(from / round) * round);
  const rounds = Math.floor((to - start) / round);
  const spans = [
    { from, to: start, times: 1 },
    { from: start, to: start + Math.min(rounds, 1) * round, times: rounds },
    { from: start + rounds * round, to, times: 1 },
  ];
  for (const span of spans) {
    for (let at = span.from; at < span.to; ) {
      const next = Math.min(nextMultiple(at, left), nextMultiple(at, right), span.to);
      yield { from: at, to: next, times: span.times };
      at = next;
    }
  }
}

function nextMultiple(at: number, size: number): number {
  return (Math.floor(at / size) + 1) * size;
}

export function greatestDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestDivisor(b, a % b);
}

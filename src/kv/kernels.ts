import { believe } from '../base/failure.ts';
import type { RowKernels } from './row-kernels.ts';

/** No complaint. Every other negative result is a refusal; results from 0 on name an index or a position. */
export const ALL_FINE = -1;
/** A list, region or result lies outside the memory, or a struct makes no sense. Nothing was written. */
export const REFUSED = -2;
/** A cell lies outside its region. Of `attend` only; `fillStamps` returns the position. */
export const OUTSIDE_REGION = -3;

/**
 * Byte work over one linear memory. Every address is an unsigned 32-bit byte address in it, of any alignment;
 * every other number is an unsigned 32-bit integer, and one that is none becomes one as WebAssembly does it (1.5 is 1,
 * NaN is 0): whoever plans checks before (plan.ts). A kernel keeps nothing between calls and never throws: a
 * bad address gives a negative result. Specification: test/reference/kernel-twin.ts; the fast form: assembly/.
 */
export interface Kernels extends RowKernels {
  /**
   * Copies `count` runs, triples of words (source offset, target offset, bytes) at `runs`, in order, each
   * like memmove. Offsets are relative to the two bases. Returns ALL_FINE; or the index of the first run that
   * leaves a region, nothing copied; or REFUSED, also when the list shares bytes with the target region.
   */
  copyRuns(
    runs: number,
    count: number,
    sourceBase: number,
    sourceEnd: number,
    targetBase: number,
    targetEnd: number,
  ): number;
  /**
   * Merges, in place and in the given order, each run into its predecessor when it continues it on both sides
   * and the sum of bytes stays below 2^32. Drops runs of no bytes. Returns the new count, or REFUSED.
   */
  mergeRuns(runs: number, count: number): number;
  /**
   * Stamps the cells of the positions [from, to). `view` is a CellView, `table` the request's block ids from
   * position 0 on, `lineage` one word for each position from 0 on. Returns ALL_FINE; or the position of the
   * first cell that leaves the region, the cells before it written; or REFUSED.
   */
  fillStamps(view: number, table: number, lineage: number, from: number, to: number): number;
  /**
   * Reads the cells of the positions [0, to) and compares every word with its stamp. Writes the ATTEND words
   * at `result`. Returns ALL_FINE; or the position of the first mismatch; or OUTSIDE_REGION at the first cell
   * out of its region, which the result then names, with the sum of the cells before it; or REFUSED.
   */
  attend(view: number, table: number, lineage: number, to: number, result: number): number;
  /** Writes the 64-bit digest of a byte range as two words, low first, at `result`. Returns 0, or REFUSED. */
  digest(address: number, bytes: number, result: number): number;
}

/** Words of one run, and its bytes. */
export const RUN_WORDS = 3;
export const RUN_BYTES = 12;

/** Word offsets of a CellView. Strides and `cellBytes` are bytes, base and region absolute addresses. */
export const CELL_VIEW = {
  base: 0,
  blockStride: 1,
  kvStride: 2,
  tokenStride: 3,
  headStride: 4,
  /** A multiple of 4, not 0. */
  cellBytes: 5,
  /** Not 0. */
  cellsPerBlock: 6,
  /** 1 or 2. */
  kvCount: 7,
  /** 1 to HEADS_MAX. */
  headCount: 8,
  /** The model's number of head 0 of this view. */
  headFirst: 9,
  layer: 10,
  regionStart: 11,
  regionEnd: 12,
} as const;
export const CELL_VIEW_WORDS = 13;
export const CELL_VIEW_BYTES = 52;
/** Heads of one view at most; a bound, so that no view can make a kernel run for minutes. */
export const HEADS_MAX = 65_536;

/** Word offsets of the result of `attend`. All but `sum` are 0 when every cell matches. */
export const ATTEND = {
  /** The wrapped sum of the first words of all cells, as they are in memory. */
  sum: 0,
  position: 1,
  kv: 2,
  /** Counted from the view's first head. */
  head: 3,
  /** The stamp the cell should have. */
  expected: 4,
  /** The first word that differs, as it is in memory. */
  actual: 5,
  /** The index of that word in its cell. */
  word: 6,
} as const;
export const ATTEND_WORDS = 8;
export const ATTEND_BYTES = 32;

/** What a CellView says, by name. */
export type CellView = { readonly [field in keyof typeof CELL_VIEW]: number };

/**
 * Lays a view down at byte `address` of the memory that `words` covers from its start. The address is a
 * multiple of 4 and the view fits: a store outside a typed array would be lost in silence.
 */
export function writeCellView(words: Int32Array | Uint32Array, address: number, view: CellView): void {
  const first = address >>> 2;
  believe(address === first * 4, 'INV-KERNEL-1', `a cell view cannot lie at ${address}: not a multiple of 4`);
  believe(
    first + CELL_VIEW_WORDS <= words.length,
    'INV-KERNEL-1',
    `a cell view at ${address} leaves the memory`,
  );
  for (const field of FIELDS) words[first + CELL_VIEW[field]] = view[field];
}

const FIELDS = Object.keys(CELL_VIEW) as (keyof CellView)[];

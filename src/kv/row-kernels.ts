/** A block list does not cover the range, or names a block outside its cache. Nothing was written. */
export const NOT_COVERED = -4;
/** More rows than the list has room for. Rows that were there before are as they were; the others are undefined. */
export const NO_ROOM = -5;

/**
 * Kernels over rows of a transfer list: which bytes here, which there, and how many. Offsets reach many terabytes, hence
 * rows are doubles, exact below 2^53, in three columns of `capacity` each, of which `count` are in use:
 *
 *   out              out + 8 * capacity      out + 16 * capacity
 *   | local offsets  | remote offsets        | bytes             |
 *
 * Addresses are unsigned 32-bit byte addresses of any alignment. REFUSED means that a list lies outside the memory, that
 * what is read and what is written overlap, or that a number makes no sense; nothing was written then.
 * Specification: test/reference/rows-twin.ts; the fast form: assembly/.
 */
export interface RowKernels {
  /**
   * Joins, in place and in the order given, each row to the one before it when it continues it on both sides. Rows of no
   * bytes stay. Returns the new count, or REFUSED.
   */
  joinRows(out: number, count: number, capacity: number): number;
  /**
   * The same after a stable sort by local offset. Local offsets are whole and lie between -2^53 and 2^53, or the list is
   * REFUSED. `scratch` has `scratchBytes(count)` bytes.
   */
  mergeRows(out: number, count: number, capacity: number, scratch: number): number;
  /**
   * Appends to `count` rows those of a PARTS_JOB: what moves the units [from, to) of `partCount` pairs of PART structs, one pair
   * after the other, for every head and unit that both sides hold. Block lists are words; entry i stands for the units from firstUnit +
   * i * blockUnits * contextRanks on, and covers them whichever of them lie here. Pieces are cut at each page border of
   * either side and where a unit that one side lacks lies between; units and heads are walked in local order and heads that lie
   * further apart than blocks outside the list; a row that continues the one before it on both sides, whoever appended
   * that, is joined to it. Returns the new count, REFUSED, NOT_COVERED or NO_ROOM.
   */
  planParts(job: number): number;
  /**
   * Writes the rows of a BLOCKS_JOB: what moves `count` whole blocks of each of `layers` layers, block `localIds[i]` and
   * `remoteIds[i]`, words, from the layer's two bases, doubles. In each layer the rows are in the order of local ids, ties as they came,
   * and joined when `blockBytes` is the stride of both sides; layers are not joined. `scratch` has `scratchBytes(count)`
   * bytes. Returns the count, REFUSED, NOT_COVERED for the id 2^32 - 1, or NO_ROOM.
   */
  planWholeBlocks(job: number): number;
}

/** Bytes of a row over all columns. */
export const ROW_BYTES = 24;

/** Bytes of scratch for this many rows or blocks. */
export function scratchBytes(count: number): number {
  return count * 40 + 16_384;
}

/**
 * Word offsets, of eight bytes, of a PART: one part of one layer on one side. Byte of (block b, unit u of it, head h):
 *
 *   base + (b * (blockUnits / pageUnits) + floor(u / pageUnits)) * blockStride
 *        + (u % pageUnits) * unitStride + (h - headFirst) * headStride
 *
 * Unit d of a list lies with context rank floor(d / interleaveUnits) % contextRanks; b and u count those that lie here. All
 * fields are whole and not negative, and no byte lies at 2^53 or beyond.
 */
export const PART = {
  base: 0,
  /** From one page to the next. */
  blockStride: 1,
  unitStride: 2,
  headStride: 3,
  /** Contiguous content of one (unit, head), at least 1; the same on both sides. */
  bytes: 4,
  /** Units of a listed block that lie here, at least 1; with those of all context ranks below 2^32. */
  blockUnits: 5,
  /** Units of a page; divides `blockUnits`. */
  pageUnits: 6,
  headFirst: 7,
  headCount: 8,
  /** Blocks that a list may name. */
  blockCount: 9,
  /** Ranks of the context group, at least 1. */
  contextRanks: 11,
  /** Below `contextRanks`. */
  contextRank: 12,
  /** Divides `blockUnits`. */
  interleaveUnits: 13,
} as const;
export const PART_WORDS = 14;
export const PART_BYTES = 112;

/** What a PART says, by name. */
export type PartFields = { readonly [field in keyof typeof PART]: number };

/** Lays a part down as number `index` of the array of parts that `words` begins with. Allocates nothing. */
export function writePart(words: Float64Array, index: number, part: PartFields): void {
  const first = index * PART_WORDS;
  words[first + PART.base] = part.base;
  words[first + PART.blockStride] = part.blockStride;
  words[first + PART.unitStride] = part.unitStride;
  words[first + PART.headStride] = part.headStride;
  words[first + PART.bytes] = part.bytes;
  words[first + PART.blockUnits] = part.blockUnits;
  words[first + PART.pageUnits] = part.pageUnits;
  words[first + PART.headFirst] = part.headFirst;
  words[first + PART.headCount] = part.headCount;
  words[first + PART.blockCount] = part.blockCount;
  words[first + PART.contextRanks] = part.contextRanks;
  words[first + PART.contextRank] = part.contextRank;
  words[first + PART.interleaveUnits] = part.interleaveUnits;
}

/** Word offsets of a PARTS_JOB. `out` has `capacity` rows, of which `count` are in use; the others are addresses and counts. */
export const PARTS_JOB = {
  localParts: 0,
  remoteParts: 1,
  partCount: 2,
  localBlocks: 3,
  localCount: 4,
  /** The unit that the list of blocks begins with. */
  localFirstUnit: 5,
  remoteBlocks: 6,
  remoteCount: 7,
  remoteFirstUnit: 8,
  from: 9,
  to: 10,
  out: 11,
  count: 12,
  capacity: 13,
} as const;
export const PARTS_JOB_BYTES = 56;

export type PartsJob = { readonly [field in keyof typeof PARTS_JOB]: number };

/** Lays a job down at a byte address that is a multiple of 4. */
export function writePartsJob(words: Uint32Array, address: number, job: PartsJob): void {
  const first = address >>> 2;
  for (const field of PARTS_FIELDS) words[first + PARTS_JOB[field]] = job[field];
}

/** Offsets of a BLOCKS_JOB: of the first three fields in doubles, of the others in words. Strides and `blockBytes` are bytes. */
export const BLOCKS_JOB = {
  localStride: 0,
  remoteStride: 1,
  blockBytes: 2,
  localIds: 6,
  remoteIds: 7,
  count: 8,
  localBases: 9,
  remoteBases: 10,
  layers: 11,
  out: 12,
  capacity: 13,
  scratch: 14,
} as const;
export const BLOCKS_JOB_BYTES = 64;

export type BlocksJob = { readonly [field in keyof typeof BLOCKS_JOB]: number };

/** Lays a job down at a byte address that is a multiple of 8, in words and doubles over the same memory. */
export function writeBlocksJob(
  { words, doubles }: { readonly words: Uint32Array; readonly doubles: Float64Array },
  address: number,
  job: BlocksJob,
): void {
  for (const field of BLOCKS_FIELDS) {
    const column = BLOCKS_JOB[field];
    if (column < BLOCKS_JOB.localIds) doubles[(address >>> 3) + column] = job[field];
    else words[(address >>> 2) + column] = job[field];
  }
}

const PARTS_FIELDS = Object.keys(PARTS_JOB) as (keyof PartsJob)[];
const BLOCKS_FIELDS = Object.keys(BLOCKS_JOB) as (keyof BlocksJob)[];

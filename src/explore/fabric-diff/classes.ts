import { finish, mix } from '../../base/mix.ts';

/** What a fabric is tried with: the classes of a work request, and the draws that pick within a class. */

export interface Range {
  readonly name: string;
  readonly least: number;
  readonly most: number;
}

export interface SizeClass extends Range {
  /** Bytes at which something is known to change: lines, pages, MTUs, what a provider sends inline, buffers or shares. */
  readonly borders: readonly number[];
}

const KIB = 1024;
const MIB = 1024 * 1024;

/** Bytes of one work request. */
export const SIZES: readonly SizeClass[] = [
  { name: '1 to 64 B', least: 1, most: 64, borders: [1, 2, 3, 7, 8, 31, 63, 64] },
  {
    name: '65 B to 4 KiB',
    least: 65,
    most: 4 * KIB,
    borders: [65, 127, 128, 129, 191, 192, 193, 255, 256, 257, 512, 1023, 1024, 2048, 4063, 4095, 4096],
  },
  {
    name: 'to 16 KiB',
    least: 4 * KIB + 1,
    most: 16 * KIB,
    borders: [4097, 8191, 8192, 8193, 12_288, 16_319, 16_320, 16_383, 16_384],
  },
  {
    name: 'to 64 KiB',
    least: 16 * KIB + 1,
    most: 64 * KIB,
    borders: [16_385, 32_767, 32_768, 32_769, 65_535, 65_536],
  },
  {
    name: 'to 1 MiB',
    least: 64 * KIB + 1,
    most: MIB,
    borders: [65_537, 131_071, 131_072, 262_143, 262_144, 262_145, MIB - 1, MIB],
  },
  {
    name: 'above 1 MiB',
    least: MIB + 1,
    most: 4 * MIB + 1,
    borders: [MIB + 1, MIB + 2, MIB + 4097, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 4 * MIB, 4 * MIB + 1],
  },
];

/** Work requests of one chain: a batch of the fabric. */
export const CHAINS: readonly Range[] = [
  { name: '1', least: 1, most: 1 },
  { name: '2 to 8', least: 2, most: 8 },
  { name: '9 to 64', least: 9, most: 64 },
  { name: '65 and more', least: 65, most: 400 },
];

export const DIRECTIONS = ['write', 'read'] as const;
export type Direction = (typeof DIRECTIONS)[number];

export const QUEUE_PAIRS = 4;

/**
 * Windows of so many seeds, anywhere, have each combination of the classes twice: once with an odd number of bytes at the
 * end of the chain and an even one at its beginning, and once the other way round; once as a longer and once as a shorter
 * chain.
 */
export const WINDOW = 20;
const PERIOD = WINDOW / 2;

/** What one transfer of a seed is to show. */
export interface Cell {
  readonly direction: Direction;
  readonly queuePair: number;
  readonly isChunked: boolean;
  /** Index into CHAINS. */
  readonly chain: number;
  /** Index into SIZES. */
  readonly size: number;
  /** 0 or 1, in turn from one time that the combination comes to the next. */
  readonly turn: number;
}

/** The cells of one seed: each combination comes once in every PERIOD neighbouring seeds. */
export function cellsOf(seed: number): Cell[] {
  const cells: Cell[] = [];
  const period = Math.floor(seed / PERIOD);
  const groups = DIRECTIONS.length * QUEUE_PAIRS * 2 * CHAINS.length;
  for (let group = 0; group < groups; group++) {
    for (let size = 0; size < SIZES.length; size++) {
      // Multiplied by what has no factor in common with PERIOD, so that no seed has all that is large.
      if ((group * 3 + size + (seed % PERIOD)) % PERIOD !== 0) continue;
      cells.push({
        direction: DIRECTIONS[group % 2]!,
        queuePair: (group >> 1) % QUEUE_PAIRS,
        isChunked: ((group >> 3) & 1) === 1,
        chain: group >> 4,
        size,
        turn: (period + group) % 2,
      });
    }
  }
  return cells;
}

/** Which of the ranges holds a value. What is below the first counts as the first, above the last as the last. */
export function classOf(ranges: readonly Range[], value: number): number {
  const found = ranges.findIndex(({ most }) => value <= most);
  return found < 0 ? ranges.length - 1 : found;
}

/** Keyed draws of one seed, as a tape's: one more draw moves no other. */
export interface Pick {
  /** A number from 0 to `bound` - 1 for what the key says it is about. */
  (bound: number, ...key: readonly number[]): number;
  readonly hash: number;
}

const HIGH = 2 ** 32;

export function picksOf(seed: number): Pick {
  return pickFrom(fold(mix(0x0d1f_f000, Math.floor(seed / HIGH)), [seed >>> 0]));
}

/** The draws about one thing: their keys begin with its own. */
export function about(pick: Pick, ...key: readonly number[]): Pick {
  return pickFrom(fold(pick.hash, key));
}

function pickFrom(hash: number): Pick {
  const pick = (bound: number, ...key: readonly number[]): number => finish(fold(hash, key)) % bound;
  return Object.assign(pick, { hash });
}

function fold(hash: number, key: readonly number[]): number {
  return key.reduce((folded, value) => mix(folded, value), hash);
}

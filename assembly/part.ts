// One part of one layer on one side, and what must hold of it before anything is planned.
//
//   byte of (block b, unit u of the block, head h)
//     = base + (b * (blockUnits / pageUnits) + u / pageUnits) * blockStride
//            + (u % pageUnits) * unitStride + (h - headFirst) * headStride
//
// Unit d of a block list lies with context rank (d / interleaveUnits) % contextRanks. All sums stay below 2^53
// (`makesSense` sees to that), so doubles hold them exactly and nothing is converted.

import { largestWord } from './bounds';
import { EXACT_END } from './rows';

@unmanaged
export class Part {
  base: f64;
  blockStride: f64;
  unitStride: f64;
  headStride: f64;
  bytes: f64;
  blockUnits: f64;
  pageUnits: f64;
  headFirst: f64;
  headCount: f64;
  blockCount: f64;
  spare: f64;
  contextRanks: f64;
  contextRank: f64;
  interleaveUnits: f64;
}

/** The fields before the spare one, and those behind it. */
const PART_FIELDS: u32 = 10;
const CONTEXT_OFFSET: usize = 88;
const CONTEXT_END: usize = 112;
const U32_END: f64 = 4294967296.0;

/** Whether two parts differ in nothing but the base: the fields behind it are the same bits. */
// @ts-ignore: decorator
@inline
export function liesAlike(part: Part, other: Part): bool {
  const a = changetype<usize>(part);
  const b = changetype<usize>(other);
  const first = v128.xor(v128.load(a, 8), v128.load(b, 8));
  const second = v128.xor(v128.load(a, 24), v128.load(b, 24));
  const third = v128.xor(v128.load(a, 40), v128.load(b, 40));
  const fourth = v128.xor(v128.load(a, 56), v128.load(b, 56));
  const context = v128.xor(v128.load(a, 88), v128.load(b, 88));
  const differing = v128.or(v128.or(v128.or(first, second), v128.or(third, fourth)), context);
  return !v128.any_true(differing) && load<u64>(a, 72) == load<u64>(b, 72) && load<u64>(a, 104) == load<u64>(b, 104);
}

// @ts-ignore: decorator
@inline
export function headsInCommon(local: Part, remote: Part): f64 {
  const to = min(local.headFirst + local.headCount, remote.headFirst + remote.headCount);
  return to - max(local.headFirst, remote.headFirst);
}

/** Whether every field is a whole number of its range and the part ends in time. */
export function makesSense(part: Part): bool {
  for (let i: usize = 0; i < PART_FIELDS; i++) {
    const value = load<f64>(changetype<usize>(part) + i * 8);
    if (!(value >= 0 && value < EXACT_END && value == floor(value))) return false;
  }
  for (let at = CONTEXT_OFFSET; at < CONTEXT_END; at += 8) {
    const value = load<f64>(changetype<usize>(part) + at);
    if (!(value >= 0 && value < EXACT_END && value == floor(value))) return false;
  }
  if (part.bytes < 1 || part.blockUnits < 1 || part.pageUnits < 1 || part.interleaveUnits < 1) return false;
  if (part.contextRank >= part.contextRanks) return false;
  if (part.blockUnits * part.contextRanks >= U32_END || part.pageUnits >= U32_END || part.blockCount > U32_END) return false;
  if (part.headFirst >= U32_END || part.headCount >= U32_END) return false;
  if (part.interleaveUnits > part.blockUnits) return false;
  if (<u32>part.blockUnits % <u32>part.interleaveUnits != 0) return false;
  return <u32>part.blockUnits % <u32>part.pageUnits == 0 && endsInTime(part);
}

/** Whether the base is whole and no byte of the cache lies at 2^53 or beyond. */
export function endsInTime(part: Part): bool {
  const base = part.base;
  if (!(base >= 0 && base < EXACT_END && base == floor(base))) return false;
  const pages = part.blockCount * (part.blockUnits / part.pageUnits);
  const end = base + pages * part.blockStride + part.pageUnits * part.unitStride;
  return end + part.headCount * part.headStride + part.bytes < EXACT_END;
}

/** Whether a list holds the units [from, to), of which there is one, and names blocks of the cache only. */
export function covers(part: Part, blocks: u32, count: u32, firstUnit: u32, from: u32, to: u32): bool {
  const listed = <u32>(part.blockUnits * part.contextRanks);
  if (from < firstUnit || to - firstUnit > <u64>count * listed) return false;
  const first = (from - firstUnit) / listed;
  const entries = (to - 1 - firstUnit) / listed - first + 1;
  return <f64>largestWord(blocks + first * 4, entries) < part.blockCount;
}

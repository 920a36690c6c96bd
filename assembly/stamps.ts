// Stamps: every cell of a KV cache says whose it is. Twin: test/reference/kernel-twin.ts.
//
//   cell (position p, kv, head h)
//     = base + table[p / cellsPerBlock] * blockStride + kv * kvStride
//            + (p % cellsPerBlock) * tokenStride + h * headStride
//   word i of the cell = stamp + i * GOLDEN, the stamp from lineage[p], layer, kv and the global head number

import { ALL_FINE, OUTSIDE_REGION, REFUSED, inMemory, regionInMemory } from './bounds';

@unmanaged
class CellView {
  base: u32;
  blockStride: u32;
  kvStride: u32;
  tokenStride: u32;
  headStride: u32;
  cellBytes: u32;
  cellsPerBlock: u32;
  kvCount: u32;
  headCount: u32;
  headFirst: u32;
  layer: u32;
  regionStart: u32;
  regionEnd: u32;
}

@unmanaged
class AttendResult {
  sum: u32;
  position: u32;
  kv: u32;
  head: u32;
  expected: u32;
  actual: u32;
  word: u32;
  unused: u32;
}

const GOLDEN: u32 = 0x9e3779b9;
/** Heads of one view at most: bounds the loops, also when all heads of a malformed view share one address. */
const HEADS_MAX: u32 = 65536;
/** Past every address. A block starting further out is drawn back to here, so that no later sum wraps. */
const FAR: u64 = 1 << 40;

/**
 * Writes the stamps of all cells with from <= position < to; returns -1. Stops before the first cell that
 * leaves the region and returns its position; cells before it stay written. Returns -2, nothing written, when
 * a list or the region leaves the memory or the view is malformed.
 */
export function fillStamps(viewAddress: u32, table: u32, lineage: u32, from: u32, to: u32): i32 {
  if (!accepts(viewAddress, table, lineage, to)) return REFUSED;
  const view = changetype<CellView>(viewAddress);
  const base = view.base;
  const blockStride = view.blockStride;
  const kvStride = view.kvStride;
  const tokenStride = view.tokenStride;
  const headStride = view.headStride;
  const cellBytes = view.cellBytes;
  const cellsPerBlock = view.cellsPerBlock;
  const kvCount = view.kvCount;
  const headCount = view.headCount;
  const headFirst = view.headFirst;
  const layer = view.layer;
  const regionStart = view.regionStart;
  const regionEnd = view.regionEnd;

  let position = from;
  while (position < to) {
    const token = position % cellsPerBlock;
    const stop = position + min(to - position, cellsPerBlock - token);
    const block = load<u32>(table + (position / cellsPerBlock) * 4);
    let tokenAddress = blockAddress(base, block, blockStride) + <u64>token * tokenStride;
    for (; position < stop; position++, tokenAddress += tokenStride) {
      const owner = load<u32>(lineage + position * 4);
      for (let kv: u32 = 0; kv < kvCount; kv++) {
        const hash = mix(owner, layer * 2 + kv);
        let address = tokenAddress + <u64>kv * kvStride;
        for (let head: u32 = 0; head < headCount; head++, address += headStride) {
          if (address < regionStart || address + cellBytes > regionEnd) return position;
          writeCell(<usize>address, finish(mix(hash, headFirst + head)), cellBytes);
        }
      }
    }
  }
  return ALL_FINE;
}

/**
 * Reads all cells of the positions below `to`, compares every word with its stamp and writes an AttendResult.
 * Returns -1 when all match, else the position of the first mismatch (the sum still covers all cells).
 * Returns -3 at the first cell that leaves the region; the result then names that cell, with the sum of the
 * cells before it. Returns -2, nothing written, when a list, the region or the result leaves the memory or
 * the view is malformed.
 */
export function attend(viewAddress: u32, table: u32, lineage: u32, to: u32, result: u32): i32 {
  if (!accepts(viewAddress, table, lineage, to)) return REFUSED;
  if (!inMemory(result, offsetof<AttendResult>())) return REFUSED;
  const view = changetype<CellView>(viewAddress);
  const base = view.base;
  const blockStride = view.blockStride;
  const kvStride = view.kvStride;
  const tokenStride = view.tokenStride;
  const headStride = view.headStride;
  const cellBytes = view.cellBytes;
  const cellsPerBlock = view.cellsPerBlock;
  const kvCount = view.kvCount;
  const headCount = view.headCount;
  const headFirst = view.headFirst;
  const layer = view.layer;
  const regionStart = view.regionStart;
  const regionEnd = view.regionEnd;

  let sum: u32 = 0;
  let badPosition: i32 = ALL_FINE;
  let badKv: u32 = 0;
  let badHead: u32 = 0;
  let badStamp: u32 = 0;
  let badAddress: usize = 0;
  let position: u32 = 0;
  for (let entry: usize = table; position < to; entry += 4) {
    const stop = position + min(to - position, cellsPerBlock);
    let tokenAddress = blockAddress(base, load<u32>(entry), blockStride);
    for (; position < stop; position++, tokenAddress += tokenStride) {
      const owner = load<u32>(lineage + position * 4);
      for (let kv: u32 = 0; kv < kvCount; kv++) {
        const hash = mix(owner, layer * 2 + kv);
        let address = tokenAddress + <u64>kv * kvStride;
        for (let head: u32 = 0; head < headCount; head++, address += headStride) {
          if (address < regionStart || address + cellBytes > regionEnd) {
            report(changetype<AttendResult>(result), sum, position, kv, head);
            return OUTSIDE_REGION;
          }
          sum += load<u32>(<usize>address);
          if (badPosition != ALL_FINE) continue;
          const stamp = finish(mix(hash, headFirst + head));
          if (cellHolds(<usize>address, stamp, cellBytes)) continue;
          badPosition = position;
          badKv = kv;
          badHead = head;
          badStamp = stamp;
          badAddress = <usize>address;
        }
      }
    }
  }
  const out = changetype<AttendResult>(result);
  if (badPosition == ALL_FINE) report(out, sum, 0, 0, 0);
  else reportMismatch(out, sum, badPosition, badKv, badHead, badStamp, badAddress);
  return badPosition;
}

/** Whether the view makes sense, and it, its lists up to `to` and its region exist. Bounds `to` by 2^30. */
function accepts(viewAddress: u32, table: u32, lineage: u32, to: u32): bool {
  if (!inMemory(viewAddress, offsetof<CellView>()) || !inMemory(lineage, <u64>to * 4)) return false;
  const view = changetype<CellView>(viewAddress);
  if (view.cellBytes == 0 || view.cellBytes % 4 != 0 || view.kvCount - 1 > 1) return false;
  if (view.cellsPerBlock == 0 || view.headCount - 1 >= HEADS_MAX) return false;
  const blocks = (<u64>to + view.cellsPerBlock - 1) / view.cellsPerBlock;
  return inMemory(table, blocks * 4) && regionInMemory(view.regionStart, view.regionEnd);
}

// @ts-ignore: decorator
@inline
function blockAddress(base: u32, block: u32, blockStride: u32): u64 {
  return min(base + <u64>block * blockStride, FAR);
}

/** As in src/base/mix.ts. */
// @ts-ignore: decorator
@inline
function mix(hash: u32, value: u32): u32 {
  let h: u32 = (hash ^ value) * 0x9e3779b1;
  h = (h ^ (h >>> 15)) * 0x85ebca6b;
  return h ^ (h >>> 13);
}

/** As in src/base/mix.ts. */
// @ts-ignore: decorator
@inline
function finish(hash: u32): u32 {
  let h: u32 = (hash ^ (hash >>> 16)) * 0x21f0aaad;
  h = (h ^ (h >>> 15)) * 0x735a2d97;
  return h ^ (h >>> 15);
}

/** The first four words of a cell: stamp + (0, 1, 2, 3) * GOLDEN. */
// @ts-ignore: decorator
@inline
function firstWords(stamp: u32): v128 {
  return i32x4.add(i32x4.splat(stamp), i32x4(0, 0x9e3779b9, 0x3c6ef372, 0xdaa66d2b));
}

/** The four words after those. */
// @ts-ignore: decorator
@inline
function nextWords(words: v128): v128 {
  return i32x4.add(words, i32x4.splat(GOLDEN * 4));
}

// @ts-ignore: decorator
@inline
function writeCell(address: usize, stamp: u32, bytes: u32): void {
  const vectorsEnd = address + (bytes & ~15);
  const end = address + bytes;
  let words = firstWords(stamp);
  let at = address;
  for (; at < vectorsEnd; at += 16, words = nextWords(words)) v128.store(at, words);
  let word: u32 = i32x4.extract_lane(words, 0);
  for (; at < end; at += 4, word += GOLDEN) store<u32>(at, word);
}

/**
 * Whether every word of the cell is as stamped. Gathers all differences and branches once: mismatches are
 * rare.
 */
// @ts-ignore: decorator
@inline
function cellHolds(address: usize, stamp: u32, bytes: u32): bool {
  const vectorsEnd = address + (bytes & ~15);
  const end = address + bytes;
  let words = firstWords(stamp);
  let differences = i32x4.splat(0);
  let at = address;
  for (; at < vectorsEnd; at += 16, words = nextWords(words)) {
    differences = v128.or(differences, v128.xor(v128.load(at), words));
  }
  let word: u32 = i32x4.extract_lane(words, 0);
  let tail: u32 = 0;
  for (; at < end; at += 4, word += GOLDEN) tail |= load<u32>(at) ^ word;
  return tail == 0 && !v128.any_true(differences);
}

function report(result: AttendResult, sum: u32, position: u32, kv: u32, head: u32): void {
  result.sum = sum;
  result.position = position;
  result.kv = kv;
  result.head = head;
  result.expected = 0;
  result.actual = 0;
  result.word = 0;
  result.unused = 0;
}

/**
 * Finds the differing word of a cell known to hold one. Reads before it writes: the result may lie in the
 * cell.
 */
function reportMismatch(
  result: AttendResult,
  sum: u32,
  position: u32,
  kv: u32,
  head: u32,
  stamp: u32,
  address: usize,
): void {
  let word: u32 = 0;
  while (load<u32>(address + word * 4) == stamp + word * GOLDEN) word++;
  const actual = load<u32>(address + word * 4);
  report(result, sum, position, kv, head);
  result.expected = stamp;
  result.actual = actual;
  result.word = word;
}

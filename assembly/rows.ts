// Rows of a transfer list, in three columns of f64, exact below 2^53. Twin: test/reference/rows-twin.ts.
//
//   out              out + 8 * capacity      out + 16 * capacity
//   | local offsets  | remote offsets        | bytes             |       `count` of `capacity` are in use

import { REFUSED, apart, inMemory } from './bounds';
import { COUNTER_BYTES, sortPairs } from './sort';

/** Bytes of one row over all columns. */
export const ROW_BYTES: u64 = 24;
/** Fewer rows than this are not worth a call for a column. */
const COPY_ROWS_MIN: u32 = 16;
/** The first integer that has a neighbour no double can hold. */
export const EXACT_END: f64 = 9007199254740992.0;

/** Scratch for `count` rows or blocks: two lists of pairs, three columns, the counters. */
// @ts-ignore: decorator
@inline
export function scratchBytes(count: u32): u64 {
  return <u64>count * 40 + COUNTER_BYTES;
}

/** Whether a list of this capacity exists and holds that many rows. */
// @ts-ignore: decorator
@inline
export function rowsInMemory(out: u32, count: u32, capacity: u32): bool {
  return count <= capacity && inMemory(out, <u64>capacity * ROW_BYTES);
}

/** Joins each row to the one before it when it continues it on both sides. In the order given; see kernels.ts. */
export function joinRows(out: u32, count: u32, capacity: u32): i32 {
  if (!rowsInMemory(out, count, capacity)) return REFUSED;
  return joinFrom(out, <usize>capacity << 3, count, out, <usize>capacity << 3);
}

/** Sorts rows by local offset, stably, and joins them; see kernels.ts. */
export function mergeRows(out: u32, count: u32, capacity: u32, scratch: u32): i32 {
  const needed = scratchBytes(count);
  if (!rowsInMemory(out, count, capacity) || !inMemory(scratch, needed)) return REFUSED;
  if (!apart(out, <u64>capacity * ROW_BYTES, scratch, needed)) return REFUSED;
  let last: i64 = i64.MIN_VALUE;
  let first: i64 = i64.MAX_VALUE;
  let inOrder = true;
  const end: usize = out + (count << 3);
  for (let at: usize = out; at < end; at += 8) {
    const value = load<f64>(at);
    if (!(abs(value) < EXACT_END)) return REFUSED;
    const offset = <i64>value;
    if (<f64>offset != value) return REFUSED;
    inOrder = inOrder && offset >= last;
    last = offset;
    first = min(first, offset);
  }
  const stride = <usize>capacity << 3;
  if (inOrder) return joinFrom(out, stride, count, out, stride);
  return mergeUnsorted(out, stride, count, first, scratch);
}

/**
 * Sorts places by key, then reads the rows in that order from a copy. The key is the distance to the smallest
 * offset without the zero bits that all distances end with: mostly 32 bits are enough.
 */
function mergeUnsorted(out: usize, stride: usize, count: u32, first: i64, scratch: usize): i32 {
  const column = <usize>count << 3;
  const pairs = scratch;
  const spare = scratch + column;
  const counters = scratch + column * 5;
  const copy = spare + column;
  for (let i: usize = 0; i < 3; i++) memory.copy(copy + column * i, out + stride * i, column);

  let varying: u64 = 0;
  for (let at: usize = 0; at < column; at += 8) varying |= <u64>(<i64>load<f64>(copy + at) - first);
  const shift = ctz<u64>(varying);
  varying >>>= shift;
  for (let i: u32 = 0; i < count; i++) {
    store<u64>(pairs + (<usize>i << 3), (keyAt(copy, i, first, shift) << 32) | i);
  }
  let sorted = sortPairs(pairs, spare, counters, count, <u32>varying);
  const upper = <u32>(varying >>> 32);
  if (upper != 0) {
    // Too far apart for one key: sorted by the lower half, they are now sorted by the upper one, stably.
    const other = sorted == pairs ? spare : pairs;
    for (let at: usize = 0; at < column; at += 8) {
      const i = <u32>load<u64>(sorted + at);
      store<u64>(sorted + at, (keyAt(copy, i, first, shift) & 0xffffffff00000000) | i);
    }
    sorted = sortPairs(sorted, other, counters, count, upper);
  }
  return joinInOrder(copy, column, count, sorted, out, stride);
}

// @ts-ignore: decorator
@inline
function keyAt(locals: usize, index: u32, first: i64, shift: u64): u64 {
  return <u64>(<i64>load<f64>(locals + (<usize>index << 3)) - first) >>> shift;
}

/** Reads rows one after the other; `to` may be `from`. */
function joinFrom(from: usize, fromStride: usize, count: u32, to: usize, toStride: usize): i32 {
  let localStart: f64 = NaN;
  let remoteStart: f64 = NaN;
  let bytes: f64 = 0;
  let slot = to - 8;
  for (let i: u32 = 0, at = from; i < count; i++, at += 8) {
    const local = load<f64>(at);
    const remote = load<f64>(at + fromStride);
    const more = load<f64>(at + fromStride * 2);
    if (local == localStart + bytes && remote == remoteStart + bytes) {
      bytes += more;
    } else {
      slot += 8;
      localStart = local;
      remoteStart = remote;
      bytes = more;
      store<f64>(slot, local);
      store<f64>(slot + toStride, remote);
    }
    store<f64>(slot + toStride * 2, bytes);
  }
  return <i32>((slot + 8 - to) >> 3);
}

/** Reads rows in the order of the lower halves of `pairs`. */
function joinInOrder(from: usize, fromStride: usize, count: u32, pairs: usize, to: usize, toStride: usize): i32 {
  let localStart: f64 = NaN;
  let remoteStart: f64 = NaN;
  let bytes: f64 = 0;
  let slot = to - 8;
  for (let i: u32 = 0; i < count; i++, pairs += 8) {
    const at = from + (<usize>load<u32>(pairs) << 3);
    const local = load<f64>(at);
    const remote = load<f64>(at + fromStride);
    const more = load<f64>(at + fromStride * 2);
    if (local == localStart + bytes && remote == remoteStart + bytes) {
      bytes += more;
    } else {
      slot += 8;
      localStart = local;
      remoteStart = remote;
      bytes = more;
      store<f64>(slot, local);
      store<f64>(slot + toStride, remote);
    }
    store<f64>(slot + toStride * 2, bytes);
  }
  return <i32>((slot + 8 - to) >> 3);
}

/** Copies rows with these distances added to their offsets. */
export function shiftRows(
  from: usize,
  fromStride: usize,
  count: u32,
  local: f64,
  remote: f64,
  to: usize,
  toStride: usize,
): void {
  const column = <usize>count << 3;
  addToColumn(from, column, local, to);
  addToColumn(from + fromStride, column, remote, to + toStride);
  const sizes = from + fromStride * 2;
  const sizesTo = to + toStride * 2;
  if (count >= COPY_ROWS_MIN) memory.copy(sizesTo, sizes, column);
  else for (let at: usize = 0; at < column; at += 8) store<f64>(sizesTo + at, load<f64>(sizes + at));
}

// @ts-ignore: decorator
@inline
function addToColumn(from: usize, bytes: usize, distance: f64, to: usize): void {
  const distances = f64x2.splat(distance);
  let at: usize = 0;
  for (; at + 64 <= bytes; at += 64) {
    v128.store(to + at, f64x2.add(v128.load(from + at), distances));
    v128.store(to + at, f64x2.add(v128.load(from + at, 16), distances), 16);
    v128.store(to + at, f64x2.add(v128.load(from + at, 32), distances), 32);
    v128.store(to + at, f64x2.add(v128.load(from + at, 48), distances), 48);
  }
  for (; at < bytes; at += 8) store<f64>(to + at, load<f64>(from + at) + distance);
}

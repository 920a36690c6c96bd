// A 64-bit digest of a byte range, fast rather than secret. Twin: test/reference/kernel-twin.ts.
//
// The range is read as stripes of 64 bytes, the last one padded with zeros; the length enters at the end. A
// stripe is four vectors a b c d of four words. Each vector has a key, which moves on with every stripe, so
// that swapped stripes count as different. With x = vector ^ key, eight lanes of 64 bits gather, modulo 2^64:
//
//   lanes 0 1   xa0*xb0  xa1*xb1   + c        lanes 4 5   xc0*xd0  xc1*xd1   + a
//   lanes 2 3   xa2*xb2  xa3*xb3   + d        lanes 6 7   xc2*xd2  xc3*xd3   + b
//
// The plain sums on the right keep a word visible when its partner in the product happens to be zero.

import { REFUSED, inMemory } from './bounds';

const DONE: i32 = 0;
const STRIPE_BYTES: u32 = 64;
const KEY_STEP: u32 = 0x9e3779b9;
const LENGTH_FACTOR: u64 = 0x9e3779b97f4a7c15;
const FOLD_FACTOR: u64 = 0xd1b54a32d192ed03;

/**
 * Writes the digest of the `bytes` bytes at `address` as two words, low first, to `result`; returns 0, or -2.
 */
export function digest(address: u32, bytes: u32, result: u32): i32 {
  if (!inMemory(address, bytes) || !inMemory(result, 8)) return REFUSED;
  const step = i32x4.splat(KEY_STEP);
  let keyA = i32x4(0xa43560c7, 0x63ae0d70, 0xb563d270, 0xc57f5293);
  let keyB = i32x4(0x8a8bf092, 0x11b6e39a, 0x3ebb2364, 0x5646989f);
  let keyC = i32x4(0xdd57c8b5, 0x0b9f3d7e, 0x4d78ded5, 0x6015ad0f);
  let keyD = i32x4(0x74360224, 0x3cbcc746, 0x1128ce9c, 0xc75ca9a2);
  let lanes01 = i64x2.splat(0);
  let lanes23 = i64x2.splat(0);
  let lanes45 = i64x2.splat(0);
  let lanes67 = i64x2.splat(0);
  let at: usize = address;
  for (let left = bytes; left > 0; ) {
    const whole = left >= STRIPE_BYTES;
    const a = whole ? v128.load(at) : padded(at, left, 0);
    const b = whole ? v128.load(at, 16) : padded(at, left, 16);
    const c = whole ? v128.load(at, 32) : padded(at, left, 32);
    const d = whole ? v128.load(at, 48) : padded(at, left, 48);
    const xa = v128.xor(a, keyA);
    const xb = v128.xor(b, keyB);
    const xc = v128.xor(c, keyC);
    const xd = v128.xor(d, keyD);
    lanes01 = i64x2.add(lanes01, i64x2.add(i64x2.extmul_low_i32x4_u(xa, xb), c));
    lanes23 = i64x2.add(lanes23, i64x2.add(i64x2.extmul_high_i32x4_u(xa, xb), d));
    lanes45 = i64x2.add(lanes45, i64x2.add(i64x2.extmul_low_i32x4_u(xc, xd), a));
    lanes67 = i64x2.add(lanes67, i64x2.add(i64x2.extmul_high_i32x4_u(xc, xd), b));
    keyA = i32x4.add(keyA, step);
    keyB = i32x4.add(keyB, step);
    keyC = i32x4.add(keyC, step);
    keyD = i32x4.add(keyD, step);
    at += STRIPE_BYTES;
    left -= min(left, STRIPE_BYTES);
  }
  let hash = <u64>bytes * LENGTH_FACTOR + FOLD_FACTOR;
  hash = fold(hash, lanes01);
  hash = fold(hash, lanes23);
  hash = fold(hash, lanes45);
  hash = fold(hash, lanes67);
  hash = (hash ^ (hash >>> 29)) * LENGTH_FACTOR;
  store<u64>(result, hash ^ (hash >>> 32));
  return DONE;
}

/** Vector at `offset` of the last stripe, of which only `bytes` bytes exist; the others read as zero. */
function padded(stripe: usize, bytes: u32, offset: u32): v128 {
  if (bytes >= offset + 16) return v128.load(stripe + offset);
  let low: u64 = 0;
  let high: u64 = 0;
  for (let i = bytes; i > offset; ) {
    i--;
    high = (high << 8) | (low >>> 56);
    low = (low << 8) | load<u8>(stripe + i);
  }
  return i64x2.replace_lane(i64x2.splat(low), 1, high);
}

/**
 * Takes two lanes into the hash. Each step is a bijection of the hash, so no lane can cancel an earlier one.
 */
// @ts-ignore: decorator
@inline
function fold(hash: u64, lanes: v128): u64 {
  let h: u64 = (hash ^ i64x2.extract_lane(lanes, 0)) * FOLD_FACTOR;
  h ^= h >>> 32;
  h = (h ^ i64x2.extract_lane(lanes, 1)) * FOLD_FACTOR;
  return h ^ (h >>> 32);
}

// Bounds of the one linear memory, and the result codes of src/kv/kernels.ts.

/** No complaint. */
export const ALL_FINE: i32 = -1;
/** A list or region lies outside the memory, or a struct makes no sense. Nothing was written. */
export const REFUSED: i32 = -2;
/** A cell lies outside its region. */
export const OUTSIDE_REGION: i32 = -3;
/** A block list does not cover the range, or names a block outside its cache. */
export const NOT_COVERED: i32 = -4;
/** There are more rows than the list has room for. */
export const NO_ROOM: i32 = -5;

/**
 * Whether `bytes` bytes from `address` on exist. In 64 bits, so that no sum wraps; `bytes` stays below 2^38
 * here.
 */
// @ts-ignore: decorator
@inline
export function inMemory(address: u32, bytes: u64): bool {
  return <u64>address + bytes <= (<u64>memory.size()) << 16;
}

/** Whether [start, end) is a region that exists. */
// @ts-ignore: decorator
@inline
export function regionInMemory(start: u32, end: u32): bool {
  return start <= end && inMemory(end, 0);
}

/** Whether two ranges share no byte. */
// @ts-ignore: decorator
@inline
export function apart(a: u32, aBytes: u64, b: u32, bBytes: u64): bool {
  return max<u64>(a, b) >= min<u64>(a + aBytes, b + bBytes);
}

/** The largest of at least one word. By index: a list may end with the address space. */
export function largestWord(words: usize, count: u32): u32 {
  let most = i32x4.splat(load<u32>(words));
  let i: u32 = 0;
  for (; i + 4 <= count; i += 4) most = i32x4.max_u(most, v128.load(words + (<usize>i << 2)));
  for (; i < count; i++) most = i32x4.max_u(most, i32x4.splat(load<u32>(words + (<usize>i << 2))));
  const a = max<u32>(i32x4.extract_lane(most, 0), i32x4.extract_lane(most, 1));
  const b = max<u32>(i32x4.extract_lane(most, 2), i32x4.extract_lane(most, 3));
  return max<u32>(a, b);
}

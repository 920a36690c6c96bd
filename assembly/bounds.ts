// Bounds of the one linear memory, and the result codes of src/kv/kernels.ts.

/** No complaint. */
export const ALL_FINE: i32 = -1;
/** A list or region lies outside the memory, or a struct makes no sense. Nothing was written. */
export const REFUSED: i32 = -2;
/** A cell lies outside its region. */
export const OUTSIDE_REGION: i32 = -3;

/**
 * Whether `bytes` bytes from `address` on exist. In 64 bits, so that no sum wraps; `bytes` stays below 2^36
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

// Runs of bytes to copy: gather, scatter and merge. Twin: test/reference/kernel-twin.ts.
//
//   runs                                  runs + 12 * count
//   v                                     v
//   | sourceOffset | targetOffset | bytes |  ...           u32 each, offsets relative to the two regions

import { ALL_FINE, REFUSED, inMemory, regionInMemory } from './bounds';

@unmanaged
class Run {
  sourceOffset: u32;
  targetOffset: u32;
  bytes: u32;
}

/** At most this many bytes go inline: calling memory.copy costs 6 ns, as much as copying 256 bytes. */
const INLINE_BYTES_MAX: u32 = 128;
/**
 * From here on a plain vector loop. By measure against the C library with cold memory: on one machine a third
 * faster from 1 MiB on, on another as fast from 1 MiB on and a fifth slower below; `moriarty bench kv` tells.
 */
const LOOP_BYTES_MIN: u32 = 2 * 1024 * 1024;

/**
 * Copies all runs in order, each with the meaning of memmove; returns -1. Returns the index of the first run
 * that leaves a region, or -2 when the list or a region leaves the memory or the list lies in the target
 * region (the copy would rewrite runs that were already checked); nothing is copied then.
 */
export function copyRuns(
  runs: u32,
  count: u32,
  sourceBase: u32,
  sourceEnd: u32,
  targetBase: u32,
  targetEnd: u32,
): i32 {
  const listBytes = <u64>count * offsetof<Run>();
  if (!inMemory(runs, listBytes)) return REFUSED;
  if (!regionInMemory(sourceBase, sourceEnd) || !regionInMemory(targetBase, targetEnd)) return REFUSED;
  if (max<u64>(runs, targetBase) < min<u64>(runs + listBytes, targetEnd)) return REFUSED;
  const bad = firstBadRun(runs, count, sourceEnd - sourceBase, targetEnd - targetBase);
  if (bad != ALL_FINE) return bad;
  for (let i: u32 = 0; i < count; i++) {
    const run = changetype<Run>(runs + i * offsetof<Run>());
    copyBytes(targetBase + run.targetOffset, sourceBase + run.sourceOffset, run.bytes);
  }
  return ALL_FINE;
}

/** The index of the first run that does not fit in regions of these sizes, or -1. */
function firstBadRun(runs: u32, count: u32, sourceBytes: u32, targetBytes: u32): i32 {
  for (let i: u32 = 0; i < count; i++) {
    const run = changetype<Run>(runs + i * offsetof<Run>());
    const bytes = <u64>run.bytes;
    if (run.sourceOffset + bytes > sourceBytes || run.targetOffset + bytes > targetBytes) return i;
  }
  return ALL_FINE;
}

/** memmove, by size. Inline pieces load everything before they store anything, hence overlap is harmless. */
// @ts-ignore: decorator
@inline
function copyBytes(target: usize, source: usize, bytes: u32): void {
  if (bytes > INLINE_BYTES_MAX) {
    if (bytes >= LOOP_BYTES_MIN && disjoint(target, source, bytes)) copyLarge(target, source, bytes);
    else memory.copy(target, source, bytes);
  } else if (bytes >= 16) copyVectors(target, source, bytes);
  else copySmall(target, source, bytes);
}

/** Whether two ranges of `bytes` bytes share none. */
function disjoint(a: usize, b: usize, bytes: u32): bool {
  return (a < b ? b - a : a - b) >= bytes;
}

/** 16 to 128 bytes: vectors from both ends inwards; they meet or overlap in the middle. */
// @ts-ignore: decorator
@inline
function copyVectors(target: usize, source: usize, bytes: u32): void {
  const sourceLast = source + bytes - 16;
  const targetLast = target + bytes - 16;
  const head0 = v128.load(source);
  const tail0 = v128.load(sourceLast);
  if (bytes > 32) {
    const head1 = v128.load(source, 16);
    const tail1 = v128.load(sourceLast - 16);
    if (bytes > 64) {
      const head2 = v128.load(source, 32);
      const head3 = v128.load(source, 48);
      const tail2 = v128.load(sourceLast - 32);
      const tail3 = v128.load(sourceLast - 48);
      v128.store(target, head2, 32);
      v128.store(target, head3, 48);
      v128.store(targetLast - 32, tail2);
      v128.store(targetLast - 48, tail3);
    }
    v128.store(target, head1, 16);
    v128.store(targetLast - 16, tail1);
  }
  v128.store(target, head0);
  v128.store(targetLast, tail0);
}

/** 0 to 15 bytes, likewise from both ends. */
function copySmall(target: usize, source: usize, bytes: u32): void {
  if (bytes >= 8) {
    const head = load<u64>(source);
    const tail = load<u64>(source + bytes - 8);
    store<u64>(target, head);
    store<u64>(target + bytes - 8, tail);
  } else if (bytes >= 4) {
    const head = load<u32>(source);
    const tail = load<u32>(source + bytes - 4);
    store<u32>(target, head);
    store<u32>(target + bytes - 4, tail);
  } else if (bytes > 0) {
    const first = load<u8>(source);
    const middle = load<u8>(source + (bytes >> 1));
    const last = load<u8>(source + bytes - 1);
    store<u8>(target, first);
    store<u8>(target + (bytes >> 1), middle);
    store<u8>(target + bytes - 1, last);
  }
}

/** Disjoint pieces of at least 64 bytes: 64 bytes a turn, the last turn drawn back to end with the piece. */
function copyLarge(target: usize, source: usize, bytes: u32): void {
  const last = <usize>bytes - 64;
  for (let at: usize = 0; at < last; at += 64) copyLine(target + at, source + at);
  copyLine(target + last, source + last);
}

// @ts-ignore: decorator
@inline
function copyLine(target: usize, source: usize): void {
  const a = v128.load(source);
  const b = v128.load(source, 16);
  const c = v128.load(source, 32);
  const d = v128.load(source, 48);
  v128.store(target, a);
  v128.store(target, b, 16);
  v128.store(target, c, 32);
  v128.store(target, d, 48);
}

/**
 * Merges each run into its predecessor when it continues it on both sides and the sum of bytes fits in 32
 * bits; drops runs of no bytes. Keeps the order. Returns the new count, or -2 when the list leaves the
 * memory. Entries past the new count are left as they are.
 */
export function mergeRuns(runs: u32, count: u32): i32 {
  if (!inMemory(runs, <u64>count * offsetof<Run>())) return REFUSED;
  let kept: u32 = 0;
  for (let i: u32 = 0; i < count; i++) {
    const run = changetype<Run>(runs + i * offsetof<Run>());
    if (run.bytes == 0) continue;
    const previous = changetype<Run>(runs + (kept - 1) * offsetof<Run>());
    if (kept > 0 && continues(run, previous)) {
      previous.bytes += run.bytes;
      continue;
    }
    const slot = changetype<Run>(runs + kept * offsetof<Run>());
    slot.sourceOffset = run.sourceOffset;
    slot.targetOffset = run.targetOffset;
    slot.bytes = run.bytes;
    kept++;
  }
  return kept;
}

// @ts-ignore: decorator
@inline
function continues(run: Run, previous: Run): bool {
  const bytes = <u64>previous.bytes;
  return (
    previous.sourceOffset + bytes == run.sourceOffset &&
    previous.targetOffset + bytes == run.targetOffset &&
    bytes + run.bytes <= u32.MAX_VALUE
  );
}

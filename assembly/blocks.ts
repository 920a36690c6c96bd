// Rows that move whole blocks of many layers with the same two lists. Twin: test/reference/rows-twin.ts.
//
// The pairs of ids are sorted and joined once; each layer is then that template with its two bases added.

import { NOT_COVERED, NO_ROOM, REFUSED, apart, inMemory, largestWord } from './bounds';
import { EXACT_END, ROW_BYTES, rowsInMemory, scratchBytes, shiftRows } from './rows';
import { sortPairs } from './sort';

/** What a pair grows by from one block to the next on both sides. No id is 2^32 - 1, so nothing is carried. */
const NEXT_PAIR: u64 = (1 << 32) | 1;
const NO_ID: u32 = 0xffffffff;

@unmanaged
class BlocksJob {
  localStride: f64;
  remoteStride: f64;
  blockBytes: f64;
  localIds: u32;
  remoteIds: u32;
  count: u32;
  localBases: u32;
  remoteBases: u32;
  layers: u32;
  out: u32;
  capacity: u32;
  scratch: u32;
  unused: u32;
}

/** See kernels.ts. */
export function planWholeBlocks(at: u32): i32 {
  if (!inMemory(at, offsetof<BlocksJob>())) return REFUSED;
  // Read before anything is written: the rows may lie over the job.
  const job = changetype<BlocksJob>(at);
  const localStride = job.localStride;
  const remoteStride = job.remoteStride;
  const blockBytes = job.blockBytes;
  const localIds = job.localIds;
  const remoteIds = job.remoteIds;
  const count = job.count;
  const localBases = job.localBases;
  const remoteBases = job.remoteBases;
  const layers = job.layers;
  const out = job.out;
  const capacity = job.capacity;
  const scratch = job.scratch;
  const idBytes = <u64>count * 4;
  const baseBytes = <u64>layers * 8;
  if (!rowsInMemory(out, 0, capacity)) return REFUSED;
  if (!inMemory(scratch, scratchBytes(count))) return REFUSED;
  if (!apart(out, <u64>capacity * ROW_BYTES, scratch, scratchBytes(count))) return REFUSED;
  if (!usable(localIds, idBytes, out, capacity, scratch, count)) return REFUSED;
  if (!usable(remoteIds, idBytes, out, capacity, scratch, count)) return REFUSED;
  if (!usable(localBases, baseBytes, out, capacity, scratch, count)) return REFUSED;
  if (!usable(remoteBases, baseBytes, out, capacity, scratch, count)) return REFUSED;
  if (!isWhole(localStride) || !isWhole(remoteStride) || !isWhole(blockBytes) || blockBytes < 1) return REFUSED;
  if (count == 0 || layers == 0) return 0;

  const pairs: usize = scratch;
  const spare = pairs + (<usize>count << 3);
  const template = spare + (<usize>count << 3);
  const counters = template + <usize>count * <usize>ROW_BYTES;
  const localMax = largestWord(localIds, count);
  const remoteMax = largestWord(remoteIds, count);
  if (localMax == NO_ID || remoteMax == NO_ID) return NOT_COVERED;
  if (!endsInTime(localBases, layers, <f64>localMax * localStride + blockBytes)) return REFUSED;
  if (!endsInTime(remoteBases, layers, <f64>remoteMax * remoteStride + blockBytes)) return REFUSED;

  const varying = makePairs(localIds, remoteIds, count, pairs);
  const sorted = sortPairs(pairs, spare, counters, count, varying);
  const joins = blockBytes == localStride && blockBytes == remoteStride;
  const rows = joins ? findRuns(sorted, count, sorted == pairs ? spare : pairs) : count;
  if (<u64>rows * layers > capacity) return NO_ROOM;
  if (joins) fillTemplate(sorted, count, sorted == pairs ? spare : pairs, rows, blockBytes, template);
  else fillTemplatePlain(sorted, count, localStride, remoteStride, blockBytes, template);
  for (let layer: u32 = 0; layer < layers; layer++) {
    const local = load<f64>(localBases + layer * 8);
    const remote = load<f64>(remoteBases + layer * 8);
    shiftRows(template, <usize>rows << 3, rows, local, remote, out + layer * rows * 8, <usize>capacity << 3);
  }
  return <i32>(rows * layers);
}

/** Whether an input exists and is not written to. */
function usable(at: u32, bytes: u64, out: u32, capacity: u32, scratch: u32, count: u32): bool {
  if (!inMemory(at, bytes)) return false;
  return apart(at, bytes, out, <u64>capacity * ROW_BYTES) && apart(at, bytes, scratch, scratchBytes(count));
}

// @ts-ignore: decorator
@inline
function isWhole(value: f64): bool {
  return value >= 0 && value < EXACT_END && value == floor(value);
}

/** Whether all bases are whole and no block ends at 2^53 or beyond. */
function endsInTime(bases: usize, layers: u32, reach: f64): bool {
  for (let i: u32 = 0; i < layers; i++) {
    const base = load<f64>(bases + (<usize>i << 3));
    if (!isWhole(base) || !(base + reach < EXACT_END)) return false;
  }
  return true;
}

/** Zips the lists. Returns the bits in which local ids differ, 0 when they are in order already. */
function makePairs(localIds: usize, remoteIds: usize, count: u32, pairs: usize): u32 {
  const first = i32x4.splat(load<u32>(localIds));
  let differing = i32x4.splat(0);
  let falling = i32x4.splat(0);
  let i: u32 = 0;
  for (; i + 5 <= count; i += 4) {
    const at = <usize>i << 2;
    const local = v128.load(localIds + at);
    const remote = v128.load(remoteIds + at);
    const to = pairs + (<usize>i << 3);
    v128.store(to, v128.shuffle<u32>(remote, local, 0, 4, 1, 5));
    v128.store(to, v128.shuffle<u32>(remote, local, 2, 6, 3, 7), 16);
    differing = v128.or(differing, v128.xor(local, first));
    falling = v128.or(falling, i32x4.gt_u(local, v128.load(localIds + at, 4)));
  }
  let varying: u32 = i32x4.extract_lane(differing, 0) | i32x4.extract_lane(differing, 1);
  varying |= i32x4.extract_lane(differing, 2) | i32x4.extract_lane(differing, 3);
  let inOrder = !v128.any_true(falling);
  for (; i < count; i++) {
    const at = <usize>i << 2;
    const local = load<u32>(localIds + at);
    store<u64>(pairs + (<usize>i << 3), (<u64>local << 32) | load<u32>(remoteIds + at));
    varying |= local ^ load<u32>(localIds);
    inOrder = inOrder && (i + 1 == count || local <= load<u32>(localIds + at, 4));
  }
  return inOrder ? 0 : varying;
}

/** Writes the index of the first pair of each run, without a branch; returns how many there are. */
function findRuns(sorted: usize, count: u32, starts: usize): u32 {
  let slot = starts;
  let expected: u64 = ~load<u64>(sorted);
  for (let i: u32 = 0; i < count; i++) {
    const pair = load<u64>(sorted + (<usize>i << 3));
    store<u32>(slot, i);
    slot += <usize>(pair != expected) << 2;
    expected = pair + NEXT_PAIR;
  }
  return <u32>((slot - starts) >> 2);
}

function fillTemplate(
  sorted: usize,
  count: u32,
  starts: usize,
  rows: u32,
  blockBytes: f64,
  template: usize,
): void {
  const column = <usize>rows << 3;
  for (let row: u32 = 0, to = template; row < rows; row++, to += 8) {
    const start = load<u32>(starts + (<usize>row << 2));
    const next = row + 1 < rows ? load<u32>(starts + (<usize>row << 2), 4) : count;
    const pair = sorted + (<usize>start << 3);
    store<f64>(to, <f64>load<u32>(pair, 4) * blockBytes);
    store<f64>(to + column, <f64>load<u32>(pair) * blockBytes);
    store<f64>(to + column * 2, <f64>(next - start) * blockBytes);
  }
}

function fillTemplatePlain(
  sorted: usize,
  rows: u32,
  localStride: f64,
  remoteStride: f64,
  blockBytes: f64,
  template: usize,
): void {
  const column = <usize>rows << 3;
  for (let row: u32 = 0, to = template; row < rows; row++, to += 8) {
    const pair = sorted + (<usize>row << 3);
    store<f64>(to, <f64>load<u32>(pair, 4) * localStride);
    store<f64>(to + column, <f64>load<u32>(pair) * remoteStride);
    store<f64>(to + column * 2, blockBytes);
  }
}

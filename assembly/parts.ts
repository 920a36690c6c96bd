// Rows that move a range of units between two caches of unequal shape. Specification: src/kv/plan.ts, by way of
// src/kv/rows-twin.ts.
//
//   byte of (block b, unit u of the block, head h)
//     = base + (b * (blockUnits / pageUnits) + u / pageUnits) * blockStride
//            + (u % pageUnits) * unitStride + (h - headFirst) * headStride
//
// All sums stay below 2^53 (`makesSense` sees to that), so doubles hold them exactly and nothing is converted.

import { NOT_COVERED, NO_ROOM, REFUSED, apart, inMemory, largestWord } from './bounds';
import { EXACT_END, ROW_BYTES, rowsInMemory, shiftRows } from './rows';

@unmanaged
class Part {
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
  spare0: f64;
  spare1: f64;
}

const PART_FIELDS: u32 = 10;
const U32_END: f64 = 4294967296.0;

/** Appends the rows of all parts, one after the other; see kernels.ts. */
export function planParts(
  localParts: u32,
  remoteParts: u32,
  partCount: u32,
  localBlocks: u32,
  localCount: u32,
  localFirstUnit: u32,
  remoteBlocks: u32,
  remoteCount: u32,
  remoteFirstUnit: u32,
  from: u32,
  to: u32,
  out: u32,
  count: u32,
  capacity: u32,
): i32 {
  const partBytes = <u64>partCount * offsetof<Part>();
  const outBytes = <u64>capacity * ROW_BYTES;
  const localBytes = <u64>localCount * 4;
  const remoteBytes = <u64>remoteCount * 4;
  if (!rowsInMemory(out, count, capacity)) return REFUSED;
  if (!inMemory(localParts, partBytes) || !apart(localParts, partBytes, out, outBytes)) return REFUSED;
  if (!inMemory(remoteParts, partBytes) || !apart(remoteParts, partBytes, out, outBytes)) return REFUSED;
  if (!inMemory(localBlocks, localBytes) || !apart(localBlocks, localBytes, out, outBytes)) return REFUSED;
  if (!inMemory(remoteBlocks, remoteBytes) || !apart(remoteBlocks, remoteBytes, out, outBytes)) return REFUSED;

  let checked = changetype<Part>(localParts);
  let checkedPeer = changetype<Part>(remoteParts);
  for (let i: u32 = 0; i < partCount; i++) {
    const local = changetype<Part>(localParts + i * offsetof<Part>());
    const remote = changetype<Part>(remoteParts + i * offsetof<Part>());
    if (i > 0 && liesAlike(local, checked) && liesAlike(remote, checkedPeer)) {
      if (!endsInTime(local) || !endsInTime(remote)) return REFUSED;
      continue;
    }
    checked = local;
    checkedPeer = remote;
    if (!makesSense(local) || !makesSense(remote) || local.bytes != remote.bytes) return REFUSED;
    if (from >= to || headsInCommon(local, remote) <= 0) continue;
    if (!covers(local, localBlocks, localCount, localFirstUnit, from, to)) return NOT_COVERED;
    if (!covers(remote, remoteBlocks, remoteCount, remoteFirstUnit, from, to)) return NOT_COVERED;
  }
  if (from >= to) return count;

  const lastBytes = out + (capacity << 4) + (count << 3) - 8;
  const bytesBefore: f64 = count > 0 ? load<f64>(lastBytes) : 0;
  let rows: i32 = count;
  // Parts that lie alike give the same rows at another place: the rows of the first such part are the pattern.
  let pattern = changetype<Part>(localParts);
  let patternPeer = changetype<Part>(remoteParts);
  let patternRow: u32 = 0;
  let patternRows: u32 = 0;
  for (let i: u32 = 0; i < partCount && rows >= 0; i++) {
    const local = changetype<Part>(localParts + i * offsetof<Part>());
    const remote = changetype<Part>(remoteParts + i * offsetof<Part>());
    if (headsInCommon(local, remote) <= 0) continue;
    if (patternRows > 0 && liesAlike(local, pattern) && liesAlike(remote, patternPeer)) {
      const localStep = local.base - pattern.base;
      const remoteStep = remote.base - patternPeer.base;
      const from = out + (patternRow << 3);
      if (!goesOn(out, rows, capacity, from, localStep, remoteStep)) {
        if (patternRows > capacity - rows) {
          rows = NO_ROOM;
          break;
        }
        const stride = <usize>capacity << 3;
        shiftRows(from, stride, patternRows, localStep, remoteStep, out + (rows << 3), stride);
        rows += patternRows;
        continue;
      }
    }
    const before: u32 = rows;
    const beforeBytes = out + (capacity << 4) + (before << 3) - 8;
    const bytes: f64 = before > 0 ? load<f64>(beforeBytes) : 0;
    rows = planHeads(
      local,
      remote,
      localBlocks,
      from - localFirstUnit,
      remoteBlocks,
      from - remoteFirstUnit,
      to - from,
      out,
      before,
      capacity,
    );
    // A part whose first row was joined to the row before it is no pattern.
    const grew = before > 0 && load<f64>(beforeBytes) != bytes;
    pattern = local;
    patternPeer = remote;
    patternRow = before;
    patternRows = grew || rows < 0 ? 0 : rows - before;
  }
  if (rows < 0 && count > 0) store<f64>(lastBytes, bytesBefore);
  return rows;
}

/** Whether two parts differ in nothing but the base: the fields behind it are the same bits. */
// @ts-ignore: decorator
@inline
function liesAlike(part: Part, other: Part): bool {
  const a = changetype<usize>(part);
  const b = changetype<usize>(other);
  const first = v128.xor(v128.load(a, 8), v128.load(b, 8));
  const second = v128.xor(v128.load(a, 24), v128.load(b, 24));
  const third = v128.xor(v128.load(a, 40), v128.load(b, 40));
  const fourth = v128.xor(v128.load(a, 56), v128.load(b, 56));
  const differing = v128.or(v128.or(first, second), v128.or(third, fourth));
  return !v128.any_true(differing) && load<u64>(a, 72) == load<u64>(b, 72);
}

/** Whether the row at `from`, put so much further, continues the last of `count` rows, of which there is one. */
function goesOn(out: usize, count: u32, capacity: u32, from: usize, localStep: f64, remoteStep: f64): bool {
  const stride = <usize>capacity << 3;
  const last = out + (<usize>count << 3) - 8;
  const bytes = load<f64>(last + stride * 2);
  if (load<f64>(last) + bytes != load<f64>(from) + localStep) return false;
  return load<f64>(last + stride) + bytes == load<f64>(from + stride) + remoteStep;
}

/** The rows of one part for all heads that both sides hold. Returns the new count of rows, or NO_ROOM. */
function planHeads(
  local: Part,
  remote: Part,
  localBlocks: usize,
  localUnit: u32,
  remoteBlocks: usize,
  remoteUnit: u32,
  units: u32,
  out: usize,
  count: u32,
  capacity: u32,
): i32 {
  const heads = headsInCommon(local, remote);
  const headFrom = max(local.headFirst, remote.headFirst);
  // Heads further apart than blocks are walked outside the list, one at a time.
  const outside = heads > 1 && local.headStride > local.blockStride;
  const walks: f64 = outside ? heads : 1;
  let rows: i32 = count;
  for (let head: f64 = 0; head < walks && rows >= 0; head++) {
    rows = planPart(
      local,
      remote,
      (headFrom + head - local.headFirst) * local.headStride + local.base,
      (headFrom + head - remote.headFirst) * remote.headStride + remote.base,
      outside ? 1 : <u32>heads,
      localBlocks,
      localUnit,
      remoteBlocks,
      remoteUnit,
      units,
      out,
      rows,
      capacity,
    );
  }
  return rows;
}

// @ts-ignore: decorator
@inline
function headsInCommon(local: Part, remote: Part): f64 {
  const to = min(local.headFirst + local.headCount, remote.headFirst + remote.headCount);
  return to - max(local.headFirst, remote.headFirst);
}

/** Whether every field is a whole number of its range and the part ends in time. */
function makesSense(part: Part): bool {
  for (let i: usize = 0; i < PART_FIELDS; i++) {
    const value = load<f64>(changetype<usize>(part) + i * 8);
    if (!(value >= 0 && value < EXACT_END && value == floor(value))) return false;
  }
  if (part.bytes < 1 || part.blockUnits < 1 || part.pageUnits < 1) return false;
  if (part.blockUnits >= U32_END || part.pageUnits >= U32_END || part.blockCount > U32_END) return false;
  if (part.headFirst >= U32_END || part.headCount >= U32_END) return false;
  return <u32>part.blockUnits % <u32>part.pageUnits == 0 && endsInTime(part);
}

/** Whether the base is whole and no byte of the cache lies at 2^53 or beyond. */
function endsInTime(part: Part): bool {
  const base = part.base;
  if (!(base >= 0 && base < EXACT_END && base == floor(base))) return false;
  const pages = part.blockCount * (part.blockUnits / part.pageUnits);
  const end = base + pages * part.blockStride + part.pageUnits * part.unitStride;
  return end + part.headCount * part.headStride + part.bytes < EXACT_END;
}

/** Whether a list holds the units [from, to), of which there is one, and names blocks of the cache only. */
function covers(part: Part, blocks: u32, count: u32, firstUnit: u32, from: u32, to: u32): bool {
  const blockUnits = <u32>part.blockUnits;
  if (from < firstUnit || to - firstUnit > <u64>count * blockUnits) return false;
  const first = (from - firstUnit) / blockUnits;
  const entries = (to - 1 - firstUnit) / blockUnits - first + 1;
  return <f64>largestWord(blocks + first * 4, entries) < part.blockCount;
}

/**
 * The rows of one part for `heads` heads, the first of which lies at the two base offsets. `localUnit` and
 * `remoteUnit` count from the first unit of each list. Pieces end with the pages of either side; in a piece,
 * units and heads are walked in their order on the local side. Returns the new count of rows, or NO_ROOM.
 */
function planPart(
  local: Part,
  remote: Part,
  localBase: f64,
  remoteBase: f64,
  heads: u32,
  localBlocks: usize,
  localUnit: u32,
  remoteBlocks: usize,
  remoteUnit: u32,
  units: u32,
  out: usize,
  count: u32,
  capacity: u32,
): i32 {
  const bytes = local.bytes;
  const localUnitStride = local.unitStride;
  const remoteUnitStride = remote.unitStride;
  const localHeadStride = local.headStride;
  const remoteHeadStride = remote.headStride;
  const localBlockStride = local.blockStride;
  const remoteBlockStride = remote.blockStride;
  const unitsOutside = localUnitStride >= localHeadStride;
  const localOuter = unitsOutside ? localUnitStride : localHeadStride;
  const remoteOuter = unitsOutside ? remoteUnitStride : remoteHeadStride;

  // The shape of a piece of `shapeUnits` units: `outer` times `inner` rows of `size` bytes.
  let shapeUnits: u32 = 0;
  let size: f64 = 0;
  let inner: u32 = 0;
  let outer: u32 = 0;
  let localInner: f64 = 0;
  let remoteInner: f64 = 0;

  const localPageUnits = <u32>local.pageUnits;
  const localPages = <u32>local.blockUnits / localPageUnits;
  let localEntry = localBlocks + (localUnit / <u32>local.blockUnits) * 4;
  let localPage = (localUnit % <u32>local.blockUnits) / localPageUnits;
  let localSlot = localUnit % localPageUnits;
  const remotePageUnits = <u32>remote.pageUnits;
  const remotePages = <u32>remote.blockUnits / remotePageUnits;
  let remoteEntry = remoteBlocks + (remoteUnit / <u32>remote.blockUnits) * 4;
  let remotePage = (remoteUnit % <u32>remote.blockUnits) / remotePageUnits;
  let remoteSlot = remoteUnit % remotePageUnits;

  const column = <usize>capacity << 3;
  const end = out + column;
  let slot = out + (<usize>count << 3);
  let localEnd: f64 = NaN;
  let remoteEnd: f64 = NaN;
  let rowBytes: f64 = 0;
  if (count > 0) {
    rowBytes = load<f64>(slot + column * 2 - 8);
    localEnd = load<f64>(slot - 8) + rowBytes;
    remoteEnd = load<f64>(slot + column - 8) + rowBytes;
  }

  while (units > 0) {
    const pieceUnits = min(units, min(localPageUnits - localSlot, remotePageUnits - remoteSlot));
    let localAt = localBase + (<f64>load<u32>(localEntry) * localPages + localPage) * localBlockStride;
    let remoteAt = remoteBase + (<f64>load<u32>(remoteEntry) * remotePages + remotePage) * remoteBlockStride;
    localAt += <f64>localSlot * localUnitStride;
    remoteAt += <f64>remoteSlot * remoteUnitStride;

    if (pieceUnits != shapeUnits) {
      shapeUnits = pieceUnits;
      size = bytes;
      inner = unitsOutside ? heads : pieceUnits;
      localInner = unitsOutside ? localHeadStride : localUnitStride;
      remoteInner = unitsOutside ? remoteHeadStride : remoteUnitStride;
      outer = unitsOutside ? pieceUnits : heads;
      if (inner == 1 || (localInner == size && remoteInner == size)) {
        // The inner axis is one row; what is left is the outer one, perhaps one row as well.
        size *= inner;
        inner = outer;
        localInner = localOuter;
        remoteInner = remoteOuter;
        outer = 1;
        if (inner == 1 || (localInner == size && remoteInner == size)) {
          size *= inner;
          inner = 1;
        }
      }
    }
    for (let i: u32 = 0; i < outer; i++, localAt += localOuter, remoteAt += remoteOuter) {
      let left = inner;
      let localRow = localAt;
      let remoteRow = remoteAt;
      if (localRow == localEnd && remoteRow == remoteEnd) {
        rowBytes += size;
        store<f64>(slot + column * 2 - 8, rowBytes);
        localEnd += size;
        remoteEnd += size;
        left--;
        if (left == 0) continue;
        localRow += localInner;
        remoteRow += remoteInner;
      }
      // No row continues the one before it from here on: the steps are not as large as a row.
      if (left > <u32>((end - slot) >> 3)) return NO_ROOM;
      const stop = slot + (<usize>left << 3);
      if (left >= 4) {
        let locals = f64x2.replace_lane(f64x2.splat(localRow), 1, localRow + localInner);
        let remotes = f64x2.replace_lane(f64x2.splat(remoteRow), 1, remoteRow + remoteInner);
        const sizes = f64x2.splat(size);
        const localStep = f64x2.splat(localInner * 2);
        const remoteStep = f64x2.splat(remoteInner * 2);
        for (; slot + 8 < stop; slot += 16) {
          v128.store(slot, locals);
          v128.store(slot + column, remotes);
          v128.store(slot + column * 2, sizes);
          locals = f64x2.add(locals, localStep);
          remotes = f64x2.add(remotes, remoteStep);
        }
        localRow = f64x2.extract_lane(locals, 0);
        remoteRow = f64x2.extract_lane(remotes, 0);
      }
      for (; slot < stop; slot += 8) {
        store<f64>(slot, localRow);
        store<f64>(slot + column, remoteRow);
        store<f64>(slot + column * 2, size);
        localRow += localInner;
        remoteRow += remoteInner;
      }
      rowBytes = size;
      localEnd = localRow - localInner + size;
      remoteEnd = remoteRow - remoteInner + size;
    }

    units -= pieceUnits;
    localSlot += pieceUnits;
    if (localSlot == localPageUnits) {
      localSlot = 0;
      localPage++;
      if (localPage == localPages) {
        localPage = 0;
        localEntry += 4;
      }
    }
    remoteSlot += pieceUnits;
    if (remoteSlot == remotePageUnits) {
      remoteSlot = 0;
      remotePage++;
      if (remotePage == remotePages) {
        remotePage = 0;
        remoteEntry += 4;
      }
    }
  }
  return <i32>((slot - out) >> 3);
}

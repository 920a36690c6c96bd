// The rows of one part: the walk over two block lists, page by page. Specification: src/kv/plan.ts and shares.ts.

import { NO_ROOM } from './bounds';
import { Part } from './part';

/** A rank that no other one shares with holds one share without end. */
const ENDLESS: u32 = 0xffffffff;

/**
 * As planUnits, where context groups split the units on one side or both: `localUnit` and `remoteUnit` count all units of
 * the lists, whoever holds them. Units that follow one another on both sides are walked together.
 */
export function planShares(
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
  const localShare = shareOf(local);
  const localRound = roundOf(local);
  const localStart = <u32>local.contextRank * localShare;
  const remoteShare = shareOf(remote);
  const remoteRound = roundOf(remote);
  const remoteStart = <u32>remote.contextRank * remoteShare;

  let rows: i32 = count;
  // What is open: units that follow one another on both sides, counted among those that lie there.
  let localOpen: u32 = 0;
  let remoteOpen: u32 = 0;
  let open: u32 = 0;
  let done: u64 = 0;
  while (done < units) {
    const localAt = localUnit + <u32>done;
    const remoteAt = remoteUnit + <u32>done;
    const localInRound = localAt % localRound;
    const remoteInRound = remoteAt % remoteRound;
    const absent = max(
      absentUnits(localInRound, localStart, localShare, localRound),
      absentUnits(remoteInRound, remoteStart, remoteShare, remoteRound),
    );
    if (absent > 0) {
      done += absent;
      continue;
    }
    const localInShare = localInRound - localStart;
    const remoteInShare = remoteInRound - remoteStart;
    const held = min(units - <u32>done, min(localShare - localInShare, remoteShare - remoteInShare));
    const localHeld = (localAt / localRound) * localShare + localInShare;
    const remoteHeld = (remoteAt / remoteRound) * remoteShare + remoteInShare;
    if (localOpen + open == localHeld && remoteOpen + open == remoteHeld) open += held;
    else {
      if (open > 0) {
        rows = planUnits(local, remote, localBase, remoteBase, heads, localBlocks, localOpen, remoteBlocks, remoteOpen, open, out, rows, capacity);
        if (rows < 0) return rows;
      }
      localOpen = localHeld;
      remoteOpen = remoteHeld;
      open = held;
    }
    done += held;
  }
  if (open == 0) return rows;
  return planUnits(local, remote, localBase, remoteBase, heads, localBlocks, localOpen, remoteBlocks, remoteOpen, open, out, rows, capacity);
}

// @ts-ignore: decorator
@inline
function shareOf(part: Part): u32 {
  return part.contextRanks == 1 ? ENDLESS : <u32>part.interleaveUnits;
}

// @ts-ignore: decorator
@inline
function roundOf(part: Part): u32 {
  return part.contextRanks == 1 ? ENDLESS : <u32>(part.contextRanks * part.interleaveUnits);
}

/** Units from one on until the rank's share begins; 0 within it. */
// @ts-ignore: decorator
@inline
function absentUnits(inRound: u32, start: u32, share: u32, round: u32): u32 {
  if (inRound < start) return start - inRound;
  return inRound - start < share ? 0 : round - inRound + start;
}

/**
 * The rows of one part for `heads` heads, the first of which lies at the two base offsets. `localUnit` and
 * `remoteUnit` count the units of each list that lie there. Pieces end with the pages of either side; in a piece,
 * units and heads are walked in their order on the local side. Returns the new count of rows, or NO_ROOM.
 */
export function planUnits(
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

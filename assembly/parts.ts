// Rows that move a range of units between two caches of unequal shape. Specification: src/kv/plan.ts, by way of
// test/reference/rows-twin.ts.

import { NOT_COVERED, NO_ROOM, REFUSED, apart, inMemory } from './bounds';
import { Part, covers, endsInTime, headsInCommon, liesAlike, makesSense } from './part';
import { planShares, planUnits } from './part-rows';
import { ROW_BYTES, rowsInMemory, shiftRows } from './rows';

@unmanaged
class PartsJob {
  localParts: u32;
  remoteParts: u32;
  partCount: u32;
  localBlocks: u32;
  localCount: u32;
  localFirstUnit: u32;
  remoteBlocks: u32;
  remoteCount: u32;
  remoteFirstUnit: u32;
  from: u32;
  to: u32;
  out: u32;
  count: u32;
  capacity: u32;
}

/** Appends the rows of all parts, one after the other; see kernels.ts. */
export function planParts(at: u32): i32 {
  if (!inMemory(at, offsetof<PartsJob>())) return REFUSED;
  // Read before anything is written: the rows may lie over the job.
  const job = changetype<PartsJob>(at);
  const localParts = job.localParts;
  const remoteParts = job.remoteParts;
  const partCount = job.partCount;
  const localBlocks = job.localBlocks;
  const localCount = job.localCount;
  const localFirstUnit = job.localFirstUnit;
  const remoteBlocks = job.remoteBlocks;
  const remoteCount = job.remoteCount;
  const remoteFirstUnit = job.remoteFirstUnit;
  const from = job.from;
  const to = job.to;
  const out = job.out;
  const count = job.count;
  const capacity = job.capacity;
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
  const whole = local.contextRanks == 1 && remote.contextRanks == 1;
  const walks: f64 = outside ? heads : 1;
  let rows: i32 = count;
  for (let head: f64 = 0; head < walks && rows >= 0; head++) {
    const localBase = (headFrom + head - local.headFirst) * local.headStride + local.base;
    const remoteBase = (headFrom + head - remote.headFirst) * remote.headStride + remote.base;
    const walked = outside ? 1 : <u32>heads;
    rows = whole
      ? planUnits(local, remote, localBase, remoteBase, walked, localBlocks, localUnit, remoteBlocks, remoteUnit, units, out, rows, capacity)
      : planShares(local, remote, localBase, remoteBase, walked, localBlocks, localUnit, remoteBlocks, remoteUnit, units, out, rows, capacity);
  }
  return rows;
}

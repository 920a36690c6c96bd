import { UsageError } from '../base/failure.ts';
import type { CacheView } from './view.ts';

/** A request's blocks on one side: `blocks[0]` holds the token slots from `firstToken` (a block border) on. */
export interface BlockSpan {
  readonly blocks: readonly number[];
  readonly firstToken: number;
}

/** A cause why two views cannot be joined, or '' when they can. Checked once for each session, at the handshake. */
export function refusalOf(local: CacheView, remote: CacheView): string {
  if (local.cellBytes !== remote.cellBytes) {
    return `layer ${local.layer}: a cell has ${local.cellBytes} bytes here and ${remote.cellBytes} bytes at the peer`;
  }
  if (local.parts !== remote.parts)
    return `layer ${local.layer}: ${local.parts} parts here, ${remote.parts} at the peer`;
  return '';
}

/**
 * Adds to `runs` the triples (local offset, remote offset, bytes) that move slots [from, to) of every head both views hold.
 * Pieces are cut at each block border of either side; neighbours that touch on both sides are joined as they are made.
 * The inner axis is the one with the smaller stride on the local side, so that dense rows join in either order.
 * @throws UsageError PLAN-RANGE when a block list does not cover the range or names a block outside its cache.
 */
export function planRuns(
  local: CacheView,
  localSpan: BlockSpan,
  remote: CacheView,
  remoteSpan: BlockSpan,
  from: number,
  to: number,
  runs: number[],
): void {
  const headFrom = Math.max(local.headFirst, remote.headFirst);
  const headTo = Math.min(local.headFirst + local.headCount, remote.headFirst + remote.headCount);
  for (let token = from; token < to; ) {
    const here = placeOf(local, localSpan, token);
    const there = placeOf(remote, remoteSpan, token);
    const count = Math.min(to - token, local.slots - here.slot, remote.slots - there.slot);
    for (let part = 0; part < local.parts; part++) {
      const localAt = here.offset + part * local.partStride - local.headFirst * local.headStride;
      const remoteAt = there.offset + part * remote.partStride - remote.headFirst * remote.headStride;
      if (local.tokenStride >= local.headStride) {
        for (let n = 0; n < count; n++) {
          for (let h = headFrom; h < headTo; h++) addCell(local, localAt, remote, remoteAt, n, h, runs);
        }
      } else {
        for (let h = headFrom; h < headTo; h++) {
          for (let n = 0; n < count; n++) addCell(local, localAt, remote, remoteAt, n, h, runs);
        }
      }
    }
    token += count;
  }
}

function placeOf(view: CacheView, span: BlockSpan, token: number): { slot: number; offset: number } {
  const distance = token - span.firstToken;
  const index = Math.floor(distance / view.slots);
  const block = span.blocks[index];
  if (block === undefined || block < 0 || block >= view.blockCount) {
    throw new UsageError(
      'PLAN-RANGE',
      `token ${token} lies in entry ${index} of a list of ${span.blocks.length} blocks, block ${block} of ${view.blockCount}`,
    );
  }
  const slot = distance - index * view.slots;
  return { slot, offset: view.base + block * view.blockStride + slot * view.tokenStride };
}

function addCell(
  local: CacheView,
  localAt: number,
  remote: CacheView,
  remoteAt: number,
  n: number,
  h: number,
  runs: number[],
): void {
  const localOffset = localAt + n * local.tokenStride + h * local.headStride;
  const remoteOffset = remoteAt + n * remote.tokenStride + h * remote.headStride;
  const last = runs.length - 3;
  if (
    last >= 0 &&
    runs[last]! + runs[last + 2]! === localOffset &&
    runs[last + 1]! + runs[last + 2]! === remoteOffset
  ) {
    runs[last + 2]! += local.cellBytes;
  } else {
    runs.push(localOffset, remoteOffset, local.cellBytes);
  }
}

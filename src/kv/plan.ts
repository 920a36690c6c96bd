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
 * Pieces are cut at each block border of either side. The axes are walked in the order in which they lie on the local
 * side, outermost first, so that whatever touches on both sides is joined as it is met.
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
  const head: Axis = { count: headTo - headFrom, local: local.headStride, remote: remote.headStride };
  const part: Axis = { count: local.parts, local: local.partStride, remote: remote.partStride };
  const localHead = (headFrom - local.headFirst) * local.headStride;
  const remoteHead = (headFrom - remote.headFirst) * remote.headStride;
  // K and V lie further apart than blocks in the K-first forms: there the part is the outermost axis of all.
  const partOutside = part.count > 1 && part.local > local.blockStride;
  for (let outer = 0; outer < (partOutside ? part.count : 1); outer++) {
    for (let token = from; token < to; ) {
      const here = placeOf(local, localSpan, token);
      const there = placeOf(remote, remoteSpan, token);
      const slot: Axis = {
        count: Math.min(to - token, local.slots - here.slot, remote.slots - there.slot),
        local: local.tokenStride,
        remote: remote.tokenStride,
      };
      const localAt = here.offset + localHead + outer * part.local;
      const remoteAt = there.offset + remoteHead + outer * part.remote;
      const [first, second, third] = inLocalOrder(partOutside ? ONE : part, head, slot);
      addCells(first, second, third, localAt, remoteAt, local.cellBytes, runs);
      token += slot.count;
    }
  }
}

/** How often to step along an axis, and how far on either side. */
interface Axis {
  readonly count: number;
  readonly local: number;
  readonly remote: number;
}

const ONE: Axis = { count: 1, local: Number.MAX_SAFE_INTEGER, remote: 0 };

/** Outermost first. Three axes need no more than three comparisons. */
function inLocalOrder(a: Axis, b: Axis, c: Axis): [Axis, Axis, Axis] {
  const [x, y] = a.local >= b.local ? [a, b] : [b, a];
  if (c.local >= x.local) return [c, x, y];
  return c.local >= y.local ? [x, c, y] : [x, y, c];
}

function placeOf(view: CacheView, span: BlockSpan, token: number): { slot: number; offset: number } {
  const distance = token - span.firstToken;
  const index = Math.floor(distance / view.slots);
  const block = span.blocks[index];
  if (block === undefined || block < 0 || block >= view.blockCount) {
    const entry = `entry ${index} of a list of ${span.blocks.length} blocks, block ${block} of ${view.blockCount}`;
    throw new UsageError('PLAN-RANGE', `token ${token} lies in ${entry}`);
  }
  const slot = distance - index * view.slots;
  return { slot, offset: view.base + block * view.blockStride + slot * view.tokenStride };
}

/** Adds the cells of one piece, each joined to the run before it when it continues it on both sides. */
function addCells(
  outer: Axis,
  middle: Axis,
  inner: Axis,
  localAt: number,
  remoteAt: number,
  cellBytes: number,
  runs: number[],
): void {
  for (let i = 0; i < outer.count; i++) {
    for (let j = 0; j < middle.count; j++) {
      let local = localAt + i * outer.local + j * middle.local;
      let remote = remoteAt + i * outer.remote + j * middle.remote;
      for (let k = 0; k < inner.count; k++, local += inner.local, remote += inner.remote) {
        const last = runs.length - 3;
        const isNext =
          last >= 0 &&
          runs[last]! + runs[last + 2]! === local &&
          runs[last + 1]! + runs[last + 2]! === remote;
        if (isNext) runs[last + 2]! += cellBytes;
        else runs.push(local, remote, cellBytes);
      }
    }
  }
}

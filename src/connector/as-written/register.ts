import type { CacheView } from '../../kv/view.ts';
import type { FaultSet } from './faults.ts';

/**
 * Registering the caches: what this worker believes of each layer from here on, and tells its peers.
 *
 * F3: an earlier loop over the layers leaves its size variable behind, and the loop that records each layer uses it.
 */
export function recordLayers(views: readonly CacheView[], faults: FaultSet): CacheView[] {
  let cellBytes = 0;
  for (const view of views) cellBytes = view.cellBytes;
  return views.map((view) => {
    if (!faults.has('F3')) cellBytes = view.cellBytes;
    return withCellBytes(view, cellBytes);
  });
}

/** The same axes with another cell size: all strides are multiples of it. */
function withCellBytes(view: CacheView, cellBytes: number): CacheView {
  const scale = (bytes: number): number => (bytes / view.cellBytes) * cellBytes;
  return {
    ...view,
    cellBytes,
    blockStride: scale(view.blockStride),
    partStride: scale(view.partStride),
    tokenStride: scale(view.tokenStride),
    headStride: scale(view.headStride),
    bytes: scale(view.bytes),
  };
}

import type { LayerView } from '../../base/cache-view.ts';
import type { FaultSet } from './faults.ts';

/**
 * Registering the caches: what this worker believes of each layer from here on, and tells its peers.
 *
 * F3: an earlier loop over the layers leaves its size variable behind, and the loop that records each layer uses it.
 */
export function recordLayers(views: readonly LayerView[], faults: FaultSet): LayerView[] {
  let cellBytes = 0;
  for (const view of views) cellBytes = view.parts[0]!.bytes;
  return views.map((view) => {
    if (!faults.has('F3')) cellBytes = view.parts[0]!.bytes;
    return withCellBytes(view, cellBytes);
  });
}

/** The same axes with another cell size: all strides are multiples of it. */
function withCellBytes(view: LayerView, cellBytes: number): LayerView {
  const { base, bytes } = view.parts[0]!;
  const scale = (distance: number): number => (distance / bytes) * cellBytes;
  return {
    ...view,
    parts: view.parts.map((part) => ({
      ...part,
      base: base + scale(part.base - base),
      blockStride: scale(part.blockStride),
      unitStride: scale(part.unitStride),
      headStride: scale(part.headStride),
      bytes: cellBytes,
    })),
    bytes: scale(view.bytes),
  };
}

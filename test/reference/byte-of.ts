import type { LayerView, PartView } from '../../src/base/cache-view.ts';

/**
 * The byte of (block, unit of the block, head) in a part, as an offset into its region; units count what lies in the block
 * here, whichever share of the request that is. The plan computes the same in strides; this is the definition. Source: layouts.md 7.4, 7.7.
 */
export function byteOf(view: LayerView, part: PartView, block: number, unit: number, head: number): number {
  const page = block * (view.blockUnits / part.pageUnits) + Math.floor(unit / part.pageUnits);
  const inPage = (unit % part.pageUnits) * part.unitStride + (head - view.headFirst) * part.headStride;
  return part.base + page * part.blockStride + inPage;
}

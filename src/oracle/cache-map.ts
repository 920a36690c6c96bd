import type { LayerView } from '../base/cache-view.ts';
import type { BlockId } from '../base/topology.ts';

/**
 * From bytes of a rank's region back to what lies there: which block, which unit of it. Judges go by this and by no list that
 * a connector hands them.
 */
export interface CacheMap {
  readonly layers: readonly LayerMap[];
  /** Bytes of the region. */
  readonly bytes: number;
}

/** One layer's tensor, dense, at bytes [from, to) of the region; a page is a block. */
export interface LayerMap {
  readonly from: number;
  readonly to: number;
  readonly blockStride: number;
  readonly blockCount: number;
  readonly unitStride: number;
  readonly blockUnits: number;
  readonly unitTokens: number;
}

/** `views` lie one behind the other, the first at byte 0. */
export function mapCache(views: readonly LayerView[]): CacheMap {
  let from = 0;
  const layers = views.map((view) => {
    const { blockStride, unitStride } = view.parts[0]!;
    const { blockCount, blockUnits, unitTokens, bytes } = view;
    const layer = { from, to: from + bytes, blockStride, blockCount, unitStride, blockUnits, unitTokens };
    from = layer.to;
    return layer;
  });
  return { layers, bytes: from };
}

/**
 * Visits each unit of a block that the bytes [offset, offset + bytes) touch, in order of the bytes; one that they touch in
 * several stretches more than once. Ends early when `visit` says true.
 */
export function eachUnit(
  { layers }: CacheMap,
  offset: number,
  bytes: number,
  visit: (block: BlockId, unit: number, layer: LayerMap) => boolean,
): boolean {
  const end = offset + bytes;
  for (let index = 0; index < layers.length; index++) {
    const layer = layers[index]!;
    const { from, to, blockStride, blockCount, unitStride, blockUnits } = layer;
    const stop = Math.min(to, end) - from;
    for (let at = Math.max(offset, from) - from; at < stop; ) {
      const stretch = Math.floor(at / unitStride);
      if (visit(Math.floor(at / blockStride) % blockCount, stretch % blockUnits, layer)) return true;
      at = (stretch + 1) * unitStride;
    }
  }
  return false;
}

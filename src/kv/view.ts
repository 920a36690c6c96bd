import { believe, UsageError } from '../base/failure.ts';

/**
 * One layer's KV cache on one rank, as a strided view over named axes. All strides, offsets and sizes are bytes; a
 * *cell* is the contiguous content of one (block, k/v, token slot, head): `cellBytes` long.
 *
 *   offset(block, part, slot, head) = base + block*blockStride + part*partStride + slot*tokenStride + head*headStride
 */
export interface CacheView {
  readonly layer: number;
  /** Offset of the layer's cache within the rank's registered region. */
  readonly base: number;
  readonly blockStride: number;
  readonly partStride: number;
  readonly tokenStride: number;
  readonly headStride: number;
  readonly cellBytes: number;
  readonly blockCount: number;
  /** Token slots of a block, or 1 when a whole block is one cell. */
  readonly slots: number;
  /** 2 for K and V, 1 for a latent (MLA) cache. */
  readonly parts: number;
  /** The model's number of the first KV head held here. */
  readonly headFirst: number;
  readonly headCount: number;
  readonly bytes: number;
}

/**
 * Physical orders, outermost axis first: B block, K key/value, N token slot, H head. `BN` is the three-dimensional MLA
 * cache: one latent head and no K axis. Source: layouts.md 7.1.
 */
export const ORDERS = ['KBNH', 'KBHN', 'BKNH', 'BKHN', 'BHNK', 'BN'] as const;
export type AxisOrder = (typeof ORDERS)[number];

export interface CacheShape {
  readonly order: AxisOrder;
  readonly blockCount: number;
  readonly slots: number;
  readonly cellBytes: number;
  readonly headFirst: number;
  readonly headCount: number;
}

/** Turns an axis order and sizes into strides. The only place that looks at the order. */
export function layView(layer: number, base: number, shape: CacheShape): CacheView {
  const sizes: Record<string, number> = { B: shape.blockCount, K: 2, N: shape.slots, H: shape.headCount };
  const strides: Record<string, number> = { B: 0, K: 0, N: 0, H: 0 };
  let stride = shape.cellBytes;
  for (let i = shape.order.length - 1; i >= 0; i--) {
    const axis = shape.order[i]!;
    strides[axis] = stride;
    stride *= sizes[axis]!;
  }
  believe(
    shape.order.includes('H') || shape.headCount === 1,
    'INV-VIEW-1',
    'a cache without a head axis has one head',
  );
  return {
    layer,
    base,
    blockStride: strides['B']!,
    partStride: strides['K']!,
    tokenStride: strides['N']!,
    headStride: strides['H']!,
    cellBytes: shape.cellBytes,
    blockCount: shape.blockCount,
    slots: shape.slots,
    parts: shape.order.includes('K') ? 2 : 1,
    headFirst: shape.headFirst,
    headCount: shape.headCount,
    bytes: stride,
  };
}

/**
 * The KV heads that TP rank `tpRank` of `tpSize` holds of a model with `heads` heads: a slice when the ranks divide the
 * heads, one replicated head when the heads divide the ranks. Source: layouts.md 7.6.
 * @throws UsageError TP-INDIVISIBLE when neither divides the other.
 */
export function headsOfRank(heads: number, tpSize: number, tpRank: number): { first: number; count: number } {
  if (heads % tpSize === 0) return { first: (tpRank * heads) / tpSize, count: heads / tpSize };
  if (tpSize % heads === 0) return { first: Math.trunc(tpRank / (tpSize / heads)), count: 1 };
  throw new UsageError(
    'TP-INDIVISIBLE',
    `${heads} KV heads cannot be split over or replicated on ${tpSize} TP ranks`,
  );
}

/** Whether this rank is the first holder of its heads; copies of replicated heads count once in a sum over ranks. */
export function isFirstHolder(heads: number, tpSize: number, tpRank: number): boolean {
  return tpSize <= heads || tpRank % (tpSize / heads) === 0;
}

/**
 * The source ranks (TP size `sourceTp`) that rank `targetRank` of `targetTp` gets its heads from: every rank whose heads
 * meet, one for each replica group. Which replica serves is spread by the target's own replica number.
 */
export function sourceRanks(heads: number, sourceTp: number, targetTp: number, targetRank: number): number[] {
  const wanted = headsOfRank(heads, targetTp, targetRank);
  const replicas = sourceTp > heads ? sourceTp / heads : 1;
  const ranks: number[] = [];
  for (let rank = 0; rank < sourceTp; rank++) {
    const held = headsOfRank(heads, sourceTp, rank);
    const meets = held.first < wanted.first + wanted.count && wanted.first < held.first + held.count;
    if (meets && rank % replicas === targetRank % replicas) ranks.push(rank);
  }
  return ranks;
}

/** The inverse of {@link sourceRanks}: the target ranks that rank `sourceRank` serves. */
export function targetRanks(heads: number, sourceTp: number, targetTp: number, sourceRank: number): number[] {
  const ranks: number[] = [];
  for (let rank = 0; rank < targetTp; rank++) {
    if (sourceRanks(heads, sourceTp, targetTp, rank).includes(sourceRank)) ranks.push(rank);
  }
  return ranks;
}

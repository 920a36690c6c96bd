import { type ContextView, type LayerView, type PartView, WHOLE_CONTEXT } from '../base/cache-view.ts';
import { believe, UsageError } from '../base/failure.ts';

export type { ContextView, LayerView, PartView } from '../base/cache-view.ts';

/**
 * The byte of (block, unit of the block, head) in a part, as an offset into its region; units count what lies in the block
 * here, whichever share of the request that is. The plan computes the same in strides; this is the definition. Source: layouts.md 7.4, 7.7.
 */
export function byteOf(view: LayerView, part: PartView, block: number, unit: number, head: number): number {
  const page = block * (view.blockUnits / part.pageUnits) + Math.floor(unit / part.pageUnits);
  const inPage = (unit % part.pageUnits) * part.unitStride + (head - view.headFirst) * part.headStride;
  return part.base + page * part.blockStride + inPage;
}

/** Axes of a cache tensor: L layer, B page, K key/value, H head, N unit. The content of a (unit, head) is innermost. */
export type Axis = 'L' | 'B' | 'K' | 'H' | 'N';

export type AxisSizes = { readonly [axis in Axis]: number };

/** Strides in bytes of a dense tensor, `order` outermost first, over cells of `cellBytes`; and its size. */
export function denseStrides(
  order: string,
  sizes: AxisSizes,
  cellBytes: number,
): AxisSizes & { readonly bytes: number } {
  // Plain branches, because a world lays some dozens of tensors before its first step.
  const strides = { L: 0, B: 0, K: 0, H: 0, N: 0, bytes: cellBytes };
  for (let i = order.length - 1; i >= 0; i--) {
    const stride = strides.bytes;
    switch (order[i] as Axis) {
      case 'L':
        strides.L = stride;
        strides.bytes = stride * sizes.L;
        break;
      case 'B':
        strides.B = stride;
        strides.bytes = stride * sizes.B;
        break;
      case 'K':
        strides.K = stride;
        strides.bytes = stride * sizes.K;
        break;
      case 'H':
        strides.H = stride;
        strides.bytes = stride * sizes.H;
        break;
      case 'N':
        strides.N = stride;
        strides.bytes = stride * sizes.N;
        break;
    }
  }
  return strides;
}

/**
 * Physical orders of the simulator's tensors, outermost axis first, one tensor for each layer. `BHNK` is the packed form;
 * `BN` the latent cache, with one head and no K axis. Source: layouts.md 7.1.
 */
export const ORDERS = ['KBNH', 'KBHN', 'BKNH', 'BKHN', 'BHNK', 'BN'] as const;
export type AxisOrder = (typeof ORDERS)[number];

export interface CacheShape {
  readonly order: AxisOrder;
  readonly blockCount: number;
  readonly blockUnits: number;
  readonly unitTokens: number;
  readonly cellBytes: number;
  readonly headFirst: number;
  readonly headCount: number;
  /** The whole of it when left out. */
  readonly context?: ContextView;
}

/** One layer's tensor in region 0, with parts `k` and `v`, or `latent`. */
export function layView(layer: number, base: number, shape: CacheShape): LayerView {
  const { order, blockCount, blockUnits, unitTokens, cellBytes, headFirst, headCount } = shape;
  const { context = WHOLE_CONTEXT } = shape;
  believe(order.includes('H') || headCount === 1, 'INV-VIEW-1', 'a cache without a head axis has one head');
  const strides = denseStrides(order, { L: 1, B: blockCount, K: 2, H: headCount, N: blockUnits }, cellBytes);
  const hasValues = order.includes('K');
  const parts = hasValues
    ? [partView('k', base, strides, shape), partView('v', base + strides.K, strides, shape)]
    : [partView('latent', base, strides, shape)];
  return {
    layer,
    group: 0,
    parts,
    blockCount,
    blockUnits,
    context,
    unitTokens,
    headFirst,
    headCount,
    form: hasValues ? `k${cellBytes} v${cellBytes}` : `latent${cellBytes}`,
    bytes: strides.bytes,
  };
}

function partView(
  name: string,
  base: number,
  strides: AxisSizes,
  { cellBytes, blockUnits }: CacheShape,
): PartView {
  return {
    name,
    region: 0,
    base,
    blockStride: strides.B,
    unitStride: strides.N,
    headStride: strides.H,
    bytes: cellBytes,
    pageUnits: blockUnits,
  };
}

interface HeadRange {
  readonly first: number;
  readonly count: number;
}

/**
 * The KV heads that TP rank `tpRank` of `tpSize` holds of a model with `heads` heads: a slice when the ranks divide the
 * heads, one replicated head when the heads divide the ranks. Source: layouts.md 7.6.
 * @throws UsageError TP-INDIVISIBLE when neither divides the other.
 */
export function headsOfRank(heads: number, tpSize: number, tpRank: number): HeadRange {
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
  const replicas = sourceTp > heads ? sourceTp / heads : 1;
  const holders = holdersOf(heads, sourceTp, headsOfRank(heads, targetTp, targetRank));
  return holders.filter((rank) => rank % replicas === targetRank % replicas);
}

/** The ranks of `tpSize` that hold some head of `held`. */
function holdersOf(heads: number, tpSize: number, held: HeadRange): number[] {
  const ranks: number[] = [];
  for (let rank = 0; rank < tpSize; rank++) {
    const { first, count } = headsOfRank(heads, tpSize, rank);
    if (first < held.first + held.count && held.first < first + count) ranks.push(rank);
  }
  return ranks;
}

/**
 * The target ranks that end a loan of rank `sourceRank`: all that it serves or, where copies of its heads serve everybody,
 * one of those that hold its heads, which says so in their stead.
 */
export function sealingRanks(
  heads: number,
  sourceTp: number,
  targetTp: number,
  sourceRank: number,
): number[] {
  const served = targetRanks(heads, sourceTp, targetTp, sourceRank);
  if (served.length > 0) return served;
  const holders = holdersOf(heads, targetTp, headsOfRank(heads, sourceTp, sourceRank));
  return [holders[sourceRank % holders.length]!];
}

/** The source ranks that serve nobody and whose loan rank `targetRank` ends. */
export function idleSources(heads: number, sourceTp: number, targetTp: number, targetRank: number): number[] {
  const idle: number[] = [];
  for (let rank = 0; rank < sourceTp; rank++) {
    if (targetRanks(heads, sourceTp, targetTp, rank).length > 0) continue;
    if (sealingRanks(heads, sourceTp, targetTp, rank)[0] === targetRank) idle.push(rank);
  }
  return idle;
}

/** The inverse of {@link sourceRanks}: the target ranks that rank `sourceRank` serves. */
export function targetRanks(heads: number, sourceTp: number, targetTp: number, sourceRank: number): number[] {
  const ranks: number[] = [];
  for (let rank = 0; rank < targetTp; rank++) {
    if (sourceRanks(heads, sourceTp, targetTp, rank).includes(sourceRank)) ranks.push(rank);
  }
  return ranks;
}

import { type ContextView, type LayerView, type PartView, WHOLE_CONTEXT } from '../base/cache-view.ts';
import { requireWhole } from '../base/checks.ts';
import { UsageError } from '../base/failure.ts';

export type { ContextView, LayerView, PartView } from '../base/cache-view.ts';

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

const SHAPE_NUMBERS = [
  'blockCount',
  'blockUnits',
  'unitTokens',
  'cellBytes',
  'headFirst',
  'headCount',
] as const;

/**
 * One layer's tensor in region 0, with parts `k` and `v`, or `latent`.
 * @throws UsageError LAYOUT-SHAPE for a number that is none
 */
export function layView(layer: number, base: number, shape: CacheShape): LayerView {
  const { order, blockCount, blockUnits, unitTokens, cellBytes, headFirst, headCount } = shape;
  const { context = WHOLE_CONTEXT } = shape;
  requireWhole(layer, [0, SIZE_MAX], 'LAYOUT-SHAPE', 'the layer');
  requireWhole(base, [0, Number.MAX_SAFE_INTEGER], 'LAYOUT-SHAPE', 'the base');
  for (const field of SHAPE_NUMBERS) requireWhole(shape[field], [0, SIZE_MAX], 'LAYOUT-SHAPE', field);
  if (!order.includes('H') && headCount !== 1)
    throw new UsageError('LAYOUT-SHAPE', `${order}: one head only, not ${headCount}`);
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

/** No instance has more ranks than a host has ports. */
export const RANKS_MAX = 65_535;
/** No size of a tensor's axis is larger. */
const SIZE_MAX = 2 ** 32;
/** No model has more KV heads. */
const HEADS_MAX = 2 ** 20;

interface HeadRange {
  readonly first: number;
  readonly count: number;
}

/**
 * The KV heads that TP rank `tpRank` of `tpSize` holds of a model with `heads` heads: a slice when the ranks divide the
 * heads, one replicated head when the heads divide the ranks. Source: layouts.md 7.6.
 * @throws UsageError TP-INDIVISIBLE when neither divides the other; TP-HEADS, TP-SIZE or TP-RANK for what is no such number.
 */
export function headsOfRank(heads: number, tpSize: number, tpRank: number): HeadRange {
  requireSplit(heads, tpSize);
  requireRank(tpRank, tpSize);
  if (heads % tpSize === 0) return { first: (tpRank * heads) / tpSize, count: heads / tpSize };
  return { first: Math.trunc(tpRank / (tpSize / heads)), count: 1 };
}

function requireSplit(heads: number, tpSize: number): void {
  requireWhole(heads, [1, HEADS_MAX], 'TP-HEADS', 'the number of KV heads');
  requireWhole(tpSize, [1, RANKS_MAX], 'TP-SIZE', 'the TP size');
  if (heads % tpSize !== 0 && tpSize % heads !== 0)
    throw new UsageError(
      'TP-INDIVISIBLE',
      `${heads} KV heads cannot be split over or replicated on ${tpSize} TP ranks`,
    );
}

function requireRank(tpRank: number, tpSize: number): void {
  requireWhole(tpRank, [0, tpSize - 1], 'TP-RANK', 'the TP rank');
}

/** Whether this rank is the first holder of its heads; copies of replicated heads count once in a sum over ranks. */
export function isFirstHolder(heads: number, tpSize: number, tpRank: number): boolean {
  return tpRank % copiesOf(heads, tpSize) === 0;
}

/** Ranks that hold the same heads. */
function copiesOf(heads: number, tpSize: number): number {
  return Math.max(1, tpSize / heads);
}

/**
 * The source ranks (TP size `sourceTp`) that rank `targetRank` of `targetTp` gets its heads from: every rank whose heads
 * meet, one for each replica group. Which replica serves is spread by the target's own replica number.
 * @throws UsageError as {@link headsOfRank}
 */
export function sourceRanks(heads: number, sourceTp: number, targetTp: number, targetRank: number): number[] {
  const [first, end] = holdersOf(heads, sourceTp, headsOfRank(heads, targetTp, targetRank));
  const copies = copiesOf(heads, sourceTp);
  return Array.from({ length: (end - first) / copies }, (_, group) => {
    return first + group * copies + (targetRank % copies);
  });
}

/** The ranks [first, end) of `tpSize` that hold some head of `held`: whole groups of copies. */
function holdersOf(heads: number, tpSize: number, { first, count }: HeadRange): readonly [number, number] {
  requireSplit(heads, tpSize);
  const copies = copiesOf(heads, tpSize);
  const each = Math.max(1, heads / tpSize);
  return [Math.trunc(first / each) * copies, (Math.trunc((first + count - 1) / each) + 1) * copies];
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
  const [first, end] = holdersOf(heads, targetTp, headsOfRank(heads, sourceTp, sourceRank));
  return [first + (sourceRank % (end - first))];
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
  const [first, end] = holdersOf(heads, targetTp, headsOfRank(heads, sourceTp, sourceRank));
  const copies = copiesOf(heads, sourceTp);
  // Of the ranks that want its heads, those whose turn falls on this copy of them.
  const turn = (((sourceRank - first) % copies) + copies) % copies;
  return Array.from({ length: Math.max(0, Math.ceil((end - first - turn) / copies)) }, (_, round) => {
    return first + turn + round * copies;
  });
}

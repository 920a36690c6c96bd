/**
 * How one layer's KV cache lies in memory, as plain data: what a rank knows of its own caches and tells a peer in the
 * handshake. Every layout of every engine is an instance; docs/LAYOUTS.md says how. Offsets, strides and sizes are bytes.
 *
 * A *unit* is the smallest piece of a layer's tokens that can be moved by itself: one token; or all tokens of a page when
 * they are interleaved (shuffled forms), when the page is one state (Mamba), or when the simulator counts whole blocks.
 * A *page* is a physical block of the tensor (a kernel block); a *block* is what block lists name, one or more pages.
 */

/** One named piece of content of every (unit, head): the K vector, the V vector, a scale. */
export interface PartView {
  /** 'k', 'v', 'latent', 'rope', 'scale', 'kScale', 'vScale', 'index', 'row', 'conv', 'ssm', 'state'. */
  readonly name: string;
  /** Index of the registered region at its rank that holds the part. */
  readonly region: number;
  /** Offset of page 0, unit 0, first head within the region. */
  readonly base: number;
  /** From one page to the next. */
  readonly blockStride: number;
  /** From one unit of a page to the next. */
  readonly unitStride: number;
  readonly headStride: number;
  /** Contiguous content of one (unit, head). */
  readonly bytes: number;
  /** Units of a page, at least 1. */
  readonly pageUnits: number;
}

/**
 * Which share of a request's units a rank holds, where the ranks of a context group have one block list in common (decode
 * context parallelism): of each `ranks * interleaveUnits` units of an entry the `interleaveUnits` that follow the first
 * `rank * interleaveUnits` ones, stored one behind the other. Source: vLLM's `decode_context_parallel_size` and
 * `cp_kv_cache_interleave_size`, which counts in tokens.
 */
export interface ContextView {
  /** Ranks of the group, from 1 to 65,535. */
  readonly ranks: number;
  /** This one's number in it. */
  readonly rank: number;
  /** Neighbouring units that one rank holds; divides `blockUnits`. */
  readonly interleaveUnits: number;
}

/** A rank that holds all units. */
export const WHOLE_CONTEXT: ContextView = { ranks: 1, rank: 0, interleaveUnits: 1 };

export interface LayerView {
  /** The model's number of the layer. */
  readonly layer: number;
  /** Index of the cache group whose block list the layer uses. */
  readonly group: number;
  readonly parts: readonly PartView[];
  /** Blocks that a block list may name: 0 to `blockCount` - 1. */
  readonly blockCount: number;
  /** Units of a block that lie here, a multiple of every part's `pageUnits` and of the interleave. */
  readonly blockUnits: number;
  readonly context: ContextView;
  /** Tokens of a unit. */
  readonly unitTokens: number;
  /** The model's number of the first head held here. */
  readonly headFirst: number;
  readonly headCount: number;
  /** Data type and content; equal on both sides of a transfer, such as 'bf16 k128 v128'. */
  readonly form: string;
  /** Content of all blocks, without padding and without other layers of the same tensor. */
  readonly bytes: number;
}

/** The numbers of each of the two, for checks at a border. */
export const PART_NUMBERS = [
  'region',
  'base',
  'blockStride',
  'unitStride',
  'headStride',
  'bytes',
  'pageUnits',
] as const satisfies readonly (keyof PartView)[];
export const LAYER_NUMBERS = [
  'layer',
  'group',
  'blockCount',
  'blockUnits',
  'unitTokens',
  'headFirst',
  'headCount',
  'bytes',
] as const satisfies readonly (keyof LayerView)[];

export const CONTEXT_NUMBERS = [
  'ranks',
  'rank',
  'interleaveUnits',
] as const satisfies readonly (keyof ContextView)[];

/** Units of a request that one entry of a block list stands for, over all ranks of the context group. */
export function listedUnitsOf({ blockUnits, context }: LayerView): number {
  return blockUnits * context.ranks;
}

/** Tokens of a request that one entry of a block list stands for. */
export function listedTokensOf(view: LayerView): number {
  return listedUnitsOf(view) * view.unitTokens;
}

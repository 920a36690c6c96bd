import { type ContextView, type LayerView, type PartView, WHOLE_CONTEXT } from '../base/cache-view.ts';
import { requireWhole } from '../base/checks.ts';
import { UsageError } from '../base/failure.ts';
import {
  bytesOf,
  type CellShape,
  type Content,
  type Contents,
  fp8Latent,
  keyAndValue,
  latent,
  nvfp4,
  packedKeyAndValue,
  sparseIndex,
  states,
} from './contents.ts';
import { faultOf } from './soundness.ts';
import { layerOf, partsOf, rowBytesOf, tensorLayer } from './tensors.ts';
import { denseStrides } from './view.ts';

/** Layouts by name; docs/LAYOUTS.md has the axes of each. Source: layouts.md 7.1. */
export const LAYOUT_NAMES = [
  'kv-first-nhd',
  'kv-first-hnd',
  'block-first-nhd',
  'block-first-hnd',
  'mla',
  'mla-fp8',
  'packed-hnd',
  'packed-nhd',
  'unified-lbhnc',
  'unified-lbnhc',
  'unified-lhbnc',
  'unified-blhnc',
  'unified-blnhc',
  'unified-bhlnc',
  'cross-layer-nhd',
  'cross-layer-hnd',
  'shuffled',
  'shuffled-v-plain',
  'nvfp4',
  'sparse-index',
  'sglang-mha',
  'sglang-mla',
  'mamba',
] as const;
export type LayoutName = (typeof LAYOUT_NAMES)[number];

/** One rank's caches of one group of layers. */
export interface LayoutShape extends CellShape {
  /** The model's number of the first layer held here. */
  readonly layerFirst: number;
  readonly layerCount: number;
  readonly blockCount: number;
  /** Tokens of a block that lie here. */
  readonly blockTokens: number;
  /** Tokens of a physical page; a divisor of `blockTokens`, which it is when left out. */
  readonly kernelTokens?: number;
  /** The model's number of the first KV head held here; 0 for a latent cache, the TP rank for a Mamba state. */
  readonly headFirst: number;
  /** 1 for a latent cache and a Mamba state. */
  readonly headCount: number;
  /** Which share of a request's units lies here; all of them when left out. */
  readonly context?: ContextView;
  /** An fp32 scale for each K and V vector, in a tensor of its own in the region after the last one. */
  readonly headScales?: boolean;
  /** Mamba: the states of a slot, with this rank's sizes. */
  readonly states?: readonly Content[];
  /** Mamba: bytes from one slot to the next, when padded. */
  readonly slotBytes?: number;
  readonly group?: number;
  readonly region?: number;
  /** Offset of the first tensor in its region, or of every tensor in its own. */
  readonly base?: number;
}

/** Axes of a layout, outermost first, and what its cells hold. Without `L` there is one tensor for each layer. */
interface Layout {
  readonly order: string;
  readonly contents: (shape: LayoutShape) => Contents;
  /** Regions: one for all, one for each layer's tensor, or one for each layer's K and each layer's V. */
  readonly regions?: 'layer' | 'part';
  /** A page is one unit: its tokens are interleaved, in so many words. */
  readonly wholePages?: string;
}

const LAYOUTS: { readonly [N in LayoutName]: Layout } = {
  'kv-first-nhd': { order: 'KBNH', contents: keyAndValue },
  'kv-first-hnd': { order: 'KBHN', contents: keyAndValue },
  'block-first-nhd': { order: 'BKNH', contents: keyAndValue },
  'block-first-hnd': { order: 'BKHN', contents: keyAndValue },
  mla: { order: 'BN', contents: latent },
  'mla-fp8': { order: 'BN', contents: fp8Latent },
  'packed-hnd': { order: 'BHN', contents: packedKeyAndValue },
  'packed-nhd': { order: 'BNH', contents: packedKeyAndValue },
  'unified-lbhnc': { order: 'LBHN', contents: packedKeyAndValue },
  'unified-lbnhc': { order: 'LBNH', contents: packedKeyAndValue },
  'unified-lhbnc': { order: 'LHBN', contents: packedKeyAndValue },
  'unified-blhnc': { order: 'BLHN', contents: packedKeyAndValue },
  'unified-blnhc': { order: 'BLNH', contents: packedKeyAndValue },
  'unified-bhlnc': { order: 'BHLN', contents: packedKeyAndValue },
  'cross-layer-nhd': { order: 'BLKNH', contents: keyAndValue },
  'cross-layer-hnd': { order: 'BLKHN', contents: keyAndValue },
  shuffled: { order: 'KBHN', contents: keyAndValue, wholePages: 'shuffled' },
  'shuffled-v-plain': { order: 'KBHN', contents: keyAndValue, wholePages: 'shuffled with v by dimension' },
  nvfp4: { order: 'BKHN', contents: nvfp4 },
  'sparse-index': { order: 'BN', contents: sparseIndex },
  'sglang-mha': { order: 'KBNH', contents: keyAndValue, regions: 'part' },
  'sglang-mla': { order: 'BN', contents: latent, regions: 'layer' },
  mamba: { order: 'BN', contents: (shape) => states(shape, shape.states ?? []), wholePages: '' },
};

/**
 * The views of all layers of a rank, in order. Tensors without a layer axis lie one after the other in the region.
 * @throws UsageError LAYOUT-SHAPE when the shape does not go with the layout.
 */
export function layoutByName(name: LayoutName, shape: LayoutShape): LayerView[] {
  const layout = LAYOUTS[name];
  const { layerFirst, layerCount, kernelTokens = shape.blockTokens, region = 0, base = 0 } = shape;
  checkShape(name, layout, shape, kernelTokens);
  const { blockCount, blockTokens, headFirst, headCount, group = 0, context = WHOLE_CONTEXT } = shape;
  const pages = blockTokens / kernelTokens;
  // A form of whole pages has one unit in a page, all others one for each token.
  const unitTokens = layout.wholePages === undefined ? 1 : kernelTokens;
  const pageUnits = kernelTokens / unitTokens;
  const contents = pageContents(layout, shape, kernelTokens);
  const sizes = { L: layerCount, B: blockCount * pages, K: 2, H: headCount, N: pageUnits };
  const strides = denseStrides(layout.order, sizes, shape.slotBytes ?? rowBytesOf(contents));
  const tensorStrides = { page: strides.B, unit: strides.N, head: strides.H, value: strides.K };
  const step = layout.order.includes('L') ? strides.L : strides.bytes;
  const frame = {
    group,
    blockCount,
    blockUnits: pages * pageUnits,
    context,
    unitTokens,
    headFirst,
    headCount,
  };
  const views = Array.from({ length: layerCount }, (_, index) => {
    const place = { region, base: base + index * step, pageUnits };
    const view = tensorLayer({ ...frame, layer: layerFirst + index }, contents, tensorStrides, place);
    const parts = view.parts.map((part, at) =>
      inRegion(layout, shape, part, { layer: index, list: at, step }),
    );
    return shape.headScales ? withHeadScales({ ...view, parts }, layout, shape, index) : { ...view, parts };
  });
  // Of all layers the last one lies furthest on.
  const fault = views.length === 0 ? '' : faultOf(views.at(-1)!, 'of this shape');
  if (fault !== '') throw new UsageError('LAYOUT-SHAPE', `${name}: ${fault}`);
  return views;
}

/** No model has more layers; each takes some hundred bytes of views. */
const LAYERS_MAX = 8192;
/** No size of a cache's axis is larger. */
const SIZE_MAX = 2 ** 32;

/** The least and most that each number of a shape may be. */
const SHAPE_NUMBERS: { readonly [field in keyof LayoutShape]?: readonly [number, number] } = {
  layerFirst: [0, SIZE_MAX],
  layerCount: [0, LAYERS_MAX],
  blockCount: [0, SIZE_MAX],
  blockTokens: [1, SIZE_MAX],
  kernelTokens: [1, SIZE_MAX],
  headFirst: [0, SIZE_MAX],
  headCount: [0, SIZE_MAX],
  headSize: [0, SIZE_MAX],
  headSizeV: [0, SIZE_MAX],
  elementBytes: [1, SIZE_MAX],
  slotBytes: [0, SIZE_MAX],
  group: [0, SIZE_MAX],
  region: [0, SIZE_MAX],
  base: [0, Number.MAX_SAFE_INTEGER],
};

/** Whether every number of the shape that is there is one. */
function requireNumbers(name: LayoutName, shape: LayoutShape): void {
  for (const [field, [least, most]] of Object.entries(SHAPE_NUMBERS)) {
    const value = shape[field as keyof LayoutShape];
    if (value !== undefined) requireWhole(value, [least, most], 'LAYOUT-SHAPE', `${name}: ${field}`);
  }
  for (const state of shape.states ?? [])
    requireWhole(state.bytes, [1, SIZE_MAX], 'LAYOUT-SHAPE', `${name}: bytes of ${state.name}`);
}

function checkShape(name: LayoutName, layout: Layout, shape: LayoutShape, kernelTokens: number): void {
  const { blockTokens, headCount, headSize, headSizeV = headSize } = shape;
  const refuse = (cause: string): never => {
    throw new UsageError('LAYOUT-SHAPE', `${name}: ${cause}`);
  };
  requireNumbers(name, shape);
  if (blockTokens % kernelTokens !== 0)
    refuse(`a block of ${blockTokens} tokens is no whole number of pages of ${kernelTokens}`);
  if (!layout.order.includes('H') && headCount !== 1) refuse(`one head only, not ${headCount}`);
  if (layout.order.includes('K') && headSize !== headSizeV)
    refuse(`K and V have one size in this tensor, not ${headSize} and ${headSizeV}`);
  if (name !== 'mamba' && shape.slotBytes !== undefined) refuse('only slots are padded');
  const stateBytes = bytesOf(shape.states ?? []);
  if (shape.slotBytes !== undefined && shape.slotBytes < stateBytes)
    refuse(`a slot of ${shape.slotBytes} bytes cannot hold states of ${stateBytes}`);
  if (name === 'mamba' && (shape.states ?? []).length === 0) refuse('the states have no sizes');
  if (shape.headScales && layout.wholePages !== undefined) refuse('scales for each head have no place in it');
}

/** The contents of a page's units, with all that must be equal on both sides in the form. */
function pageContents(layout: Layout, shape: LayoutShape, kernelTokens: number): Contents {
  const { rows, form } = layout.contents(shape);
  const { wholePages } = layout;
  if (wholePages === undefined) return { rows, form: shape.headScales ? `${form} with fp32 scales` : form };
  if (wholePages === '') return { rows, form };
  const whole = rows.map((row) => row.map(({ name, bytes }) => ({ name, bytes: bytes * kernelTokens })));
  return {
    rows: whole,
    form: `${form} ${wholePages} by ${16 / shape.elementBytes} of ${kernelTokens} tokens`,
  };
}

/** Forms with a region for each tensor: all K tensors, then all V tensors, each from its own start. */
function inRegion(
  { regions }: Layout,
  shape: LayoutShape,
  part: PartView,
  { layer, list, step }: { readonly layer: number; readonly list: number; readonly step: number },
): PartView {
  if (regions === undefined) return part;
  const { region = 0, base = 0, layerCount } = shape;
  const before = regions === 'part' ? list : 0;
  const start = base + layer * step + (before * step) / 2;
  return { ...part, region: region + before * layerCount + layer, base: part.base - start + base };
}

/** The first region that the layout does not use. */
function regionAfter({ regions }: Layout, { region = 0, layerCount }: LayoutShape): number {
  if (regions === undefined) return region + 1;
  return region + (regions === 'part' ? 2 : 1) * layerCount;
}

/** Side tensor: fp32 scales by layer, page, K or V, unit and head, in a region of its own. */
function withHeadScales(view: LayerView, layout: Layout, shape: LayoutShape, index: number): LayerView {
  const { parts } = view;
  const { pageUnits } = parts[0]!;
  const has = (wanted: string): boolean => parts.some(({ name }) => name === wanted);
  // NVFP4 has scales of these names in its rows already.
  const own = has('kScale') ? ['kHeadScale', 'vHeadScale'] : ['kScale', 'vScale'];
  const names = has('k') ? own : ['rowScale'];
  const pages = (view.blockCount * view.blockUnits) / pageUnits;
  const sizes = { L: shape.layerCount, B: pages, K: names.length, H: view.headCount, N: pageUnits };
  const strides = denseStrides('LBKNH', sizes, SCALE_BYTES);
  const rows = names.map((name) => [{ name, bytes: SCALE_BYTES }]);
  const place = { region: regionAfter(layout, shape), base: index * strides.L, pageUnits };
  const side = partsOf(rows, { page: strides.B, unit: strides.N, head: strides.H, value: strides.K }, place);
  return layerOf(view, [...parts, ...side], view.form);
}

const SCALE_BYTES = 4;

import { type ContextView, type LayerView, WHOLE_CONTEXT } from '../base/cache-view.ts';
import { requireWhole } from '../base/checks.ts';
import { UsageError } from '../base/failure.ts';
import {
  type Contents,
  keyAndValue,
  latent,
  opaque,
  opaqueState,
  packedKeyAndValue,
  tiedHeads,
} from './contents.ts';
import { faultOf } from './soundness.ts';
import { type LayerFrame, rowBytesOf, type TensorStrides, tensorLayer } from './tensors.ts';

/** A cache tensor as an engine registers it: sizes and strides in elements, axis by axis. */
export interface CacheTensor {
  readonly shape: readonly number[];
  readonly stride: readonly number[];
  readonly dtype: string;
  readonly elementBytes: number;
}

/** What the engine's cache specification says of the layer. */
export interface CacheSpec {
  readonly latent: boolean;
  /** Tokens of a block of the cache manager that lie here. */
  readonly blockTokens: number;
  /** Tokens of one step along the token axis; 1 when left out, all of a block for a recurrent state. */
  readonly unitTokens?: number;
  /** Bytes of a row whose inside is not described, with all heads of the rank in it. */
  readonly rowBytes?: number;
  /** KV heads on this rank; absent when the specification has no such number. */
  readonly heads?: number;
  readonly headSize?: number;
  readonly headSizeV?: number;
  /** Names of the tensor's axes, of B K H N C, for who knows them. Otherwise they are found by their sizes. */
  readonly axes?: string;
  readonly scale?: string;
}

/** Where the tensor belongs. */
export interface TensorSite {
  readonly layer: number;
  readonly group: number;
  readonly region: number;
  readonly base: number;
  readonly headFirst: number;
  /** Which share of a request's units lies here; all of them when left out. */
  readonly context?: ContextView;
}

export const FIRST_SITE: TensorSite = { layer: 0, group: 0, region: 0, base: 0, headFirst: 0 };

/**
 * The view of one layer's tensor. Sizes name the axes; strides place them, in whatever order. The kinds of tensor are
 * those of layouts.md 7.1 with one tensor for each layer; every other builder goes by names (layouts.ts).
 * @throws UsageError LAYOUT-UNSUPPORTED: a rank or sizes of no kind, or not those of the specification;
 *   LAYOUT-AMBIGUOUS: several ways to name the axes; LAYOUT-INDIVISIBLE: pages do not fill whole blocks;
 *   LAYOUT-SPEC-MISSING; LAYOUT-OVERLAP: two cells share bytes.
 */
export function parseTensor(
  tensor: CacheTensor,
  spec: CacheSpec | undefined,
  site: TensorSite = FIRST_SITE,
): LayerView {
  if (spec === undefined)
    throw new UsageError('LAYOUT-SPEC-MISSING', `layer ${site.layer} has no specification`);
  requireNumbers(tensor, spec);
  const named = spec.axes ?? axesOf(tensor, spec);
  const { unitTokens = 1 } = spec;
  const blockUnits = spec.blockTokens / unitTokens;
  if (named.length !== tensor.shape.length)
    throw new UsageError('LAYOUT-UNSUPPORTED', `axes ${named} for a tensor of ${tensor.shape.length} axes`);
  const tied = named.includes('X');
  const axis = (name: string): Dimension => dimensionOf(tensor, named.indexOf(name));
  const contents = contentsOf(tensor, spec, named, site);
  const tokens = axis(tied ? 'X' : 'N');
  const heads = axis(tied ? 'Y' : 'H');
  const values = axis('K');
  const page = axis('B');
  const pages = blockUnits / tokens.size;
  if (page.size % pages !== 0)
    throw new UsageError('LAYOUT-INDIVISIBLE', `${page.size} pages do not fill blocks of ${pages} pages`);
  refuseOverlap([page, values, heads, tokens], rowBytesOf(contents));
  const strides: TensorStrides = {
    page: page.stride,
    unit: tokens.stride,
    head: heads.stride,
    value: values.stride,
  };
  const { layer, group, headFirst, context = WHOLE_CONTEXT } = site;
  const frame = { layer, group, blockCount: page.size / pages, headFirst, context };
  const view = tied
    ? wholePages(
        { ...frame, blockUnits: pages, unitTokens: tokens.size, headCount: 1 },
        contents,
        { strides, tokens, heads },
        site,
      )
    : tensorLayer({ ...frame, blockUnits, unitTokens, headCount: heads.size }, contents, strides, {
        ...site,
        pageUnits: tokens.size,
      });
  const fault = faultOf(view, 'of this tensor');
  if (fault !== '') throw new UsageError('LAYOUT-UNSUPPORTED', `layer ${layer}: ${fault}`);
  return view;
}

const SPEC_NUMBERS = ['blockTokens', 'unitTokens', 'rowBytes', 'heads', 'headSize', 'headSizeV'] as const;

/** @throws UsageError LAYOUT-UNSUPPORTED when a number is none, or there is not one stride for each size. */
function requireNumbers({ shape, stride, elementBytes }: CacheTensor, spec: CacheSpec): void {
  const check = (value: unknown, least: number, what: string): void => {
    requireWhole(value, [least, Number.MAX_SAFE_INTEGER], 'LAYOUT-UNSUPPORTED', what);
  };
  if (shape.length !== stride.length)
    throw new UsageError('LAYOUT-UNSUPPORTED', `${shape.length} sizes and ${stride.length} strides`);
  for (const size of shape) check(size, 0, 'a size of the tensor');
  for (const step of stride) check(step, 0, 'a stride of the tensor');
  check(elementBytes, 1, 'the size of an element');
  for (const field of SPEC_NUMBERS)
    if (spec[field] !== undefined) check(spec[field], field === 'headSizeV' ? 0 : 1, field);
}

/** Heads that cannot be told from tokens: a page is one unit of one piece, and moves whole. */
function wholePages(
  frame: LayerFrame,
  { rows, form }: Contents,
  { strides, tokens, heads }: Axes,
  site: TensorSite,
): LayerView {
  const cells = tokens.size * heads.size;
  const cellBytes = rowBytesOf({ rows, form });
  const outer = Math.max(tokens.stride * tokens.size, heads.stride * heads.size);
  if (outer !== cells * cellBytes)
    throw new UsageError('LAYOUT-AMBIGUOUS', 'heads cannot be told from tokens, and a page has gaps');
  const whole = rows.map((row) => row.map(({ name, bytes }) => ({ name, bytes: bytes * cells })));
  const contents = { rows: whole, form: form + tiedHeads(site.headFirst, heads.size) };
  return tensorLayer(frame, contents, strides, { ...site, pageUnits: 1 });
}

interface Axes {
  readonly strides: TensorStrides;
  readonly tokens: Dimension;
  readonly heads: Dimension;
}

interface Dimension {
  readonly size: number;
  /** Bytes. */
  readonly stride: number;
}

/** An axis that is not there has one step of no length. */
function dimensionOf(tensor: CacheTensor, index: number): Dimension {
  if (index < 0) return { size: 1, stride: 0 };
  return { size: tensor.shape[index]!, stride: tensor.stride[index]! * tensor.elementBytes };
}

/** The names of the axes, one letter each; X and Y for heads and tokens that cannot be told apart. */
export function axesOf({ shape }: CacheTensor, spec: CacheSpec): string {
  const blockUnits = spec.blockTokens / (spec.unitTokens ?? 1);
  switch (shape.length) {
    case 5:
      if (!spec.latent) return fiveAxes(shape, spec, blockUnits);
      break;
    case 4:
      if (!spec.latent || shape[1] === 1) return fourAxes(shape, spec, blockUnits);
      break;
    case 3:
      if (spec.latent && divides(shape[1]!, blockUnits)) return 'BNC';
      break;
  }
  throw new UsageError(
    'LAYOUT-UNSUPPORTED',
    `no ${spec.latent ? 'latent' : 'K/V'} cache has the shape [${shape.join(', ')}] with blocks of ${spec.blockTokens}`,
  );
}

function fiveAxes(shape: readonly number[], spec: CacheSpec, blockUnits: number): string {
  if (shape[0] === 2 && shape[1] === 2)
    throw new UsageError('LAYOUT-AMBIGUOUS', 'two blocks cannot be told from K and V');
  if (shape[0] !== 2 && shape[1] !== 2)
    throw new UsageError('LAYOUT-UNSUPPORTED', `no axis of K and V in [${shape.join(', ')}]`);
  return (shape[0] === 2 ? 'KB' : 'BK') + innerAxes(shape, spec, blockUnits);
}

/** Axes 2 and 3: tokens and heads. Source of the rules: the golden cases of layout-geometry.json. */
function innerAxes([, , first, second]: readonly number[], { heads }: CacheSpec, blockUnits: number): string {
  const isTokensHeads = divides(first!, blockUnits) && (heads ?? second) === second;
  const isHeadsTokens = divides(second!, blockUnits) && (heads ?? first) === first;
  if (isTokensHeads && isHeadsTokens) {
    if (first === second) return 'XYC';
    if (first === blockUnits) return 'NHC';
    if (second === blockUnits) return 'HNC';
    throw new UsageError('LAYOUT-AMBIGUOUS', `axes of ${first} and ${second} could both be the tokens`);
  }
  if (isTokensHeads) return 'NHC';
  if (isHeadsTokens) return 'HNC';
  throw new UsageError(
    'LAYOUT-UNSUPPORTED',
    `axes of ${first} and ${second} are not ${heads} heads and a part of ${blockUnits} tokens`,
  );
}

function fourAxes(shape: readonly number[], spec: CacheSpec, blockUnits: number): string {
  const [, heads, tokens] = shape;
  const wanted = spec.latent || spec.rowBytes !== undefined ? 1 : spec.heads;
  if (heads === wanted && divides(tokens!, blockUnits)) return 'BHNC';
  throw new UsageError(
    'LAYOUT-UNSUPPORTED',
    `[${shape.join(', ')}] is not ${wanted} heads by a part of ${blockUnits} tokens`,
  );
}

function divides(part: number, whole: number): boolean {
  return part > 0 && whole % part === 0;
}

/** What the innermost axis holds, which must be what the specification says. */
function contentsOf(tensor: CacheTensor, spec: CacheSpec, axes: string, site: TensorSite): Contents {
  const last = tensor.shape.length - 1;
  const size = tensor.shape[last]!;
  const { dtype, elementBytes } = tensor;
  const { scale, headSize, headSizeV = headSize } = spec;
  const cell = { headSize: size, dtype, elementBytes, ...(scale === undefined ? {} : { scale }) };
  const refuse = (wanted: number): never => {
    throw new UsageError('LAYOUT-UNSUPPORTED', `a row of ${size} elements is not one of ${wanted}`);
  };
  if (tensor.stride[last] !== 1 && size > 1)
    throw new UsageError('LAYOUT-UNSUPPORTED', 'the content of a cell is not contiguous');
  if (spec.rowBytes !== undefined || (spec.latent && headSize === undefined)) {
    const bytes = spec.rowBytes ?? size * elementBytes;
    if (bytes !== size * elementBytes) return refuse(bytes / elementBytes);
    if (spec.unitTokens === spec.blockTokens) return opaqueState(cell, bytes);
    return opaque(cell, bytes, site.headFirst, spec.latent ? 1 : (spec.heads ?? 1));
  }
  if (spec.latent) {
    // The fp8 form keeps scales and an unquantised part in its rows: 656 bytes for 576 elements.
    const isInline = elementBytes === 1 && size === 656 && headSize === 576;
    return size === headSize || isInline ? latent(cell) : refuse(headSize!);
  }
  if (axes.includes('K')) return size === (headSize ?? size) ? keyAndValue(cell) : refuse(headSize!);
  const sizeV = headSizeV ?? size / 2;
  const sizeK = headSize ?? size / 2;
  return size === sizeK + sizeV
    ? packedKeyAndValue({ ...cell, headSize: sizeK, headSizeV: sizeV })
    : refuse(sizeK + sizeV);
}

/** Axes may lie in any order and leave gaps; what they must not do is fold cells onto each other. */
function refuseOverlap(axes: readonly Dimension[], cellBytes: number): void {
  if (axes.some(({ size }) => size === 0)) return;
  const stepped = axes.filter(({ size }) => size > 1).sort((a, b) => a.stride - b.stride);
  let extent = cellBytes;
  for (const { size, stride } of stepped) {
    if (stride < extent)
      throw new UsageError('LAYOUT-OVERLAP', `a stride of ${stride} bytes over pieces of ${extent} bytes`);
    extent += stride * (size - 1);
  }
}

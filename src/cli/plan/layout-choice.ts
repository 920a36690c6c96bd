import { UsageError } from '../../base/failure.ts';
import { LAYOUT_NAMES, type LayoutName } from '../../kv/layouts.ts';
import type { CacheDtype, ModelSpec } from './model-spec.ts';

/** Which layouts a model's cache can have. */

/** In these, all layers of a block lie in one tensor. */
const CROSS_LAYER: readonly LayoutName[] = [
  'unified-blhnc',
  'unified-blnhc',
  'unified-bhlnc',
  'cross-layer-nhd',
  'cross-layer-hnd',
];
const UNIFIED = LAYOUT_NAMES.filter((name) => name.startsWith('unified-'));
const ONE_ROW: readonly LayoutName[] = ['mla-fp8', 'mla', 'sglang-mla'];
const FP8_LATENT: readonly LayoutName[] = [...ONE_ROW, ...UNIFIED];
const LATENT = FP8_LATENT.filter((name) => name !== 'mla-fp8');
const NVFP4: readonly LayoutName[] = ['nvfp4'];

/** States and side tensors hold no tokens' K and V. */
const OTHER: readonly LayoutName[] = [...ONE_ROW, ...NVFP4, 'sparse-index', 'mamba'];
const GROUPED = LAYOUT_NAMES.filter((name) => !OTHER.includes(name));

const USUAL: LayoutName = 'kv-first-hnd';

/** Every layout that some model can have. */
export const PLANNED_LAYOUTS: readonly LayoutName[] = [...GROUPED, ...ONE_ROW, ...NVFP4];

export function isCrossLayer(layout: LayoutName): boolean {
  return CROSS_LAYER.includes(layout);
}

/**
 * The layout asked for, or the usual one of such a cache.
 * @throws UsageError SIDE when the cache cannot be laid out so.
 */
export function layoutFor(
  flag: string,
  asked: LayoutName | null,
  model: ModelSpec,
  dtype: CacheDtype,
): LayoutName {
  const possible = layoutsOf(model, dtype);
  if (asked === null) return possible.includes(USUAL) ? USUAL : possible[0]!;
  if (possible.includes(asked)) return asked;
  const cache = `${model.latent === null ? 'a K and V' : 'a latent'} cache in ${dtype}`;
  throw new UsageError(
    'SIDE',
    `${flag} layout=${asked}: ${model.name} has ${cache}; use ${possible.join(', ')}`,
  );
}

function layoutsOf(model: ModelSpec, dtype: CacheDtype): readonly LayoutName[] {
  if (model.latent !== null) return dtype === 'fp8_ds_mla' ? FP8_LATENT : LATENT;
  return dtype === 'nvfp4' ? NVFP4 : GROUPED;
}

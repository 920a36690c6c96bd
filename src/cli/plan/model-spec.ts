import { UsageError } from '../../base/failure.ts';

/** What a transfer plan needs to know of a model. */
export interface ModelSpec {
  readonly name: string;
  readonly layers: number;
  /** KV heads. A latent cache has one, which every TP rank holds whole. */
  readonly heads: number;
  /** Elements of K, and of V, of one head and token; of a latent cache 0. */
  readonly headSize: number;
  /** Elements of one token in one layer of a latent (MLA) cache, or null. */
  readonly latent: { readonly rank: number; readonly rope: number } | null;
  /** Of the weights, and of the cache unless told otherwise; null when the file does not say. */
  readonly dtype: CacheDtype | null;
  /** For each layer, how many tokens back its attention sees; 0 for all of them. */
  readonly windows: readonly number[];
}

/**
 * `fp8_ds_mla` is a form of its own: 512 fp8, 16 bytes of scales and 64 bfloat16 rope elements. `nvfp4` has two elements
 * in a byte and a one-byte scale for each 16 of them.
 */
export const CACHE_DTYPES = ['bfloat16', 'float16', 'float32', 'fp8', 'fp8_ds_mla', 'nvfp4'] as const;
export type CacheDtype = (typeof CACHE_DTYPES)[number];

/** Bytes of one token in an `fp8_ds_mla` cache. Source: layouts.md 7.1. */
export const FP8_DS_MLA_BYTES = 656;

/** Bytes of one element; of `fp8_ds_mla` those of one byte of its row. */
export const ELEMENT_BYTES: Readonly<Record<CacheDtype, number>> = {
  bfloat16: 2,
  float16: 2,
  float32: 4,
  fp8: 1,
  fp8_ds_mla: 1,
  nvfp4: 9 / 16,
};

/**
 * Bytes of one token, one head and one layer: K and V together, or the latent and rope.
 * @throws UsageError KV-DTYPE when the model has no such cache.
 */
export function tokenHeadBytes(model: ModelSpec, dtype: CacheDtype): number {
  const { latent, headSize, name } = model;
  const refuse = (why: string): never => {
    throw new UsageError('KV-DTYPE', `${dtype} is for ${why}; ${name} has none: use another --kv-dtype`);
  };
  if (dtype === 'fp8_ds_mla') {
    if (latent === null || latent.rank !== 512 || latent.rope !== 64)
      refuse('latent caches of 512 + 64 elements');
    return FP8_DS_MLA_BYTES;
  }
  if (dtype === 'nvfp4' && (latent !== null || headSize % 16 !== 0))
    refuse('K and V with heads of a multiple of 16 elements');
  return ELEMENT_BYTES[dtype] * (latent === null ? 2 * headSize : latent.rank + latent.rope);
}

/** KV bytes of one token over all layers, each head counted once. */
export function bytesPerToken(model: ModelSpec, dtype: CacheDtype): number {
  return model.layers * model.heads * tokenHeadBytes(model, dtype);
}

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { UsageError } from '../../../src/base/failure.ts';
import { axesOf, type CacheSpec, type CacheTensor, parseTensor } from '../../../src/kv/parse.ts';
import type { LayerView } from '../../../src/kv/view.ts';
import { spanOf, stretchesOf } from '../../reference/regions.ts';

/** The golden cases of the published layout module, and our views in its terms. */

export type Refused = { readonly ok: false; readonly error: string };

interface GoldenSpec {
  readonly kind: string;
  readonly block_size: number;
  readonly num_kv_heads?: number;
  readonly head_size?: number;
  readonly head_size_v?: number;
  readonly num_head_slots?: number;
  readonly state_content_bytes?: number;
  readonly tokens_per_state?: number;
}

export interface GoldenTensor {
  readonly shape: readonly number[];
  readonly stride: readonly number[];
  readonly dtype: string;
  readonly element_size: number;
  readonly spec: GoldenSpec;
  readonly spec_missing?: boolean;
}

export function readGolden<Case>(file: string): readonly Case[] {
  const text = readFileSync(new URL(`../../golden/${file}`, import.meta.url), 'utf8');
  return (JSON.parse(text) as { cases: Case[] }).cases;
}

/** Our codes for the error classes of the golden files. */
const CODES: { readonly [error: string]: string } = {
  unsupported: 'LAYOUT-UNSUPPORTED',
  ambiguous: 'LAYOUT-AMBIGUOUS',
  not_divisible: 'LAYOUT-INDIVISIBLE',
  missing_spec: 'LAYOUT-SPEC-MISSING',
  length_mismatch: 'PLAN-RANGE',
};

/** The result, or the code of the refusal; `expected` in the same form. */
export function outcomeOf(run: () => unknown): unknown {
  try {
    return run();
  } catch (error) {
    if (error instanceof UsageError) return error.code;
    throw error;
  }
}

export function codeFor({ error }: Refused): string {
  return CODES[error] ?? error;
}

export function tensorOf({ shape, stride, dtype, element_size }: GoldenTensor): CacheTensor {
  return { shape, stride, dtype, elementBytes: element_size };
}

export function specOf({ spec, spec_missing }: GoldenTensor): CacheSpec | undefined {
  if (spec_missing) return undefined;
  const isMamba = spec.kind === 'mamba';
  const isOpaque = spec.num_head_slots !== undefined;
  return {
    latent: isMamba || spec.kind.endsWith('mla'),
    blockTokens: spec.block_size,
    unitTokens: isMamba ? spec.block_size : (spec.tokens_per_state ?? 1),
    ...(isOpaque ? { rowBytes: spec.state_content_bytes! } : {}),
    ...(spec.num_kv_heads === undefined ? {} : { heads: spec.num_kv_heads }),
    ...(spec.head_size === undefined ? {} : { headSize: spec.head_size }),
    ...(spec.head_size_v === undefined ? {} : { headSizeV: spec.head_size_v }),
  };
}

/** The view of the peer's tensor, whose axes are those of ours, whatever its number of blocks may look like. */
export function remoteView(golden: GoldenTensor, blocks: number | null): LayerView {
  const spec = specOf(golden)!;
  return parseTensor(remoteTensor(golden, blocks), { ...spec, axes: axesOf(tensorOf(golden), spec) });
}

/**
 * The peer's tensor: the same layout with another number of blocks. When K lies outside the blocks, the peer's V lies as
 * many of its own blocks further on; the rest stays.
 */
function remoteTensor(golden: GoldenTensor, remoteBlocks: number | null): CacheTensor {
  const tensor = tensorOf(golden);
  const view = parseTensor(tensor, specOf(golden));
  const blocks = remoteBlocks ?? view.blockCount;
  const [kAxis, bAxis] = tensor.shape.length !== 5 ? [-1, 0] : tensor.shape[0] === 2 ? [0, 1] : [1, 0];
  const pages = view.blockCount === 0 ? 1 : tensor.shape[bAxis]! / view.blockCount;
  const shape = tensor.shape.map((size, axis) => (axis === bAxis ? blocks * pages : size));
  const pageStride = tensor.stride[bAxis]!;
  const more = shape[bAxis]! - Math.max(tensor.shape[bAxis]!, 1);
  const isOutside = kAxis >= 0 && tensor.stride[kAxis]! >= pageStride;
  const stride = tensor.stride.map((step, axis) =>
    axis === kAxis && isOutside ? step + more * pageStride : step,
  );
  return { ...tensor, shape, stride };
}

/** How a tensor's K and V lie: no K axis, K outside the pages, K and V in each page. */
export function kindOf(tensor: CacheTensor, view: LayerView): 'one row' | 'kv first' | 'block first' {
  if (tensor.shape.length !== 5) return 'one row';
  const [k, v] = view.parts;
  return v!.base - k!.base >= k!.blockStride ? 'kv first' : 'block first';
}

export function geometryOf(golden: GoldenTensor, view: LayerView, remote: LayerView): object {
  const tensor = tensorOf(golden);
  const kind = kindOf(tensor, view);
  const [k, v] = view.parts;
  const { elementBytes } = tensor;
  const pages = view.blockUnits / k!.pageUnits;
  const blockTokens = view.blockUnits * view.unitTokens;
  const states = blockTokens / specOf(golden)!.unitTokens!;
  // K and V of a block are one piece when a block is several pages that hold both.
  const isWhole = kind === 'one row' || (kind === 'block first' && pages > 1);
  const rowBytes = isWhole ? view.parts.reduce((sum, { bytes }) => sum + bytes, 0) : k!.bytes;
  const blockBytes = view.blockUnits * view.headCount * rowBytes;
  return {
    num_blocks: view.blockCount,
    block_size: blockTokens,
    block_len: blockBytes,
    slot_size_bytes: blockBytes / states,
    block_stride: (pages * k!.blockStride) / elementBytes,
    local_kv_stride: isWhole ? null : (v!.base - k!.base) / elementBytes,
    remote_kv_stride: isWhole ? null : (remote.parts[1]!.base - remote.parts[0]!.base) / elementBytes,
    transfers_per_block: isWhole ? 1 : 2,
    regions_per_block: kind === 'block first' && !isWhole ? 2 : 1,
    split_kv_regions: kind === 'kv first',
  };
}

/** K and V halves apart, everything else as it must be registered. */
export function registeredOf(tensor: CacheTensor, view: LayerView): object[] {
  if (kindOf(tensor, view) === 'kv first')
    return view.parts.map((part) => ({ byte_offset: part.base, length: spanOf(view, part) }));
  return stretchesOf(view).map(({ offset, bytes }) => ({ byte_offset: offset, length: bytes }));
}

export function sha256(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex');
}

/** The cases that docs/LAYOUTS.md names as deliberate differences. */
export function listedDifferences(letter: 'G' | 'T' | 'M'): string[] {
  const page = readFileSync(new URL('../../../docs/LAYOUTS.md', import.meta.url), 'utf8');
  const section = page.slice(page.indexOf('## Where we differ'));
  const rows = section.split('\n').filter((line) => line.startsWith('|'));
  return rows.flatMap((line) => line.match(new RegExp(`\\b${letter}\\d{3}\\b`, 'g')) ?? []).sort();
}

import type { LayerView } from '../../base/cache-view.ts';
import { UsageError } from '../../base/failure.ts';
import { type LayoutName, layoutByName } from '../../kv/layouts.ts';
import { headsOfRank, sourceRanks } from '../../kv/view.ts';
import type { PlanSide, Range } from '../../report/plan-report.ts';
import { isCrossLayer, layoutFor } from './layout-choice.ts';
import {
  type CacheDtype,
  ELEMENT_BYTES,
  FP8_DS_MLA_BYTES,
  type ModelSpec,
  tokenHeadBytes,
} from './model-spec.ts';
import { type SideSpec, stageRanges } from './side-spec.ts';

/** One side of the plan: its ranks, the caches they hold and the blocks that hold the request. */

export interface Side {
  readonly flag: '--prefill' | '--decode';
  readonly plan: PlanSide;
  readonly layout: LayoutName;
  readonly dtype: CacheDtype;
  readonly model: ModelSpec;
  readonly crossLayer: boolean;
  /** Block ids in order of the request's tokens. */
  readonly blocks: readonly number[];
}

export type Placement = 'contiguous' | 'scattered';

/** Fractions of the cache between the ids of two neighbours in a scattered list; unequal, so that P and D never agree. */
const SCATTER = { '--prefill': 0.618, '--decode': 0.727 } as const;

/** @throws UsageError SIDE when the side does not go with the model or does not hold the tokens. */
export function laySide(
  flag: Side['flag'],
  spec: SideSpec,
  model: ModelSpec,
  dtype: CacheDtype,
  tokens: number,
  placement: Placement,
): Side {
  const needed = Math.ceil(tokens / spec.block);
  const blocks = spec.blocks ?? 2 * needed;
  if (blocks < needed)
    throw new UsageError(
      'SIDE',
      `${flag} blocks=${blocks}: ${blocks * spec.block} tokens fit, ${tokens} are wanted, which take ${needed} blocks of ${spec.block}`,
    );
  const ownDtype = spec.dtype ?? dtype;
  tokenHeadBytes(model, ownDtype);
  const layout = layoutFor(flag, spec.layout, model, ownDtype);
  const { tp, pp, block, kernelBlock } = spec;
  const stages: readonly Range[] = stageRanges(flag, spec, model.layers);
  return {
    flag,
    plan: { tp, pp, block, kernelBlock, layout, blocks, dtype: ownDtype, stages },
    layout,
    dtype: ownDtype,
    model,
    crossLayer: isCrossLayer(layout),
    blocks: Array.from(
      { length: needed },
      placement === 'contiguous' ? (_, i) => i : scattered(flag, blocks),
    ),
  };
}

/** A permutation of the cache's blocks in which neighbours lie far apart; the same at every run. */
function scattered(flag: Side['flag'], blocks: number): (_: unknown, index: number) => number {
  let step = Math.max(1, Math.floor(blocks * SCATTER[flag]));
  while (greatestDivisor(step, blocks) !== 1) step++;
  return (_, index) => (index * step) % blocks;
}

function greatestDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestDivisor(b, a % b);
}

export function stageOf(side: Side, rank: number): Range {
  return side.plan.stages[Math.trunc(rank / side.plan.tp)]!;
}

function headsOf(side: Side, rank: number): Range {
  const { first, count } = headsOfRank(side.model.heads, side.plan.tp, rank % side.plan.tp);
  return [first, first + count];
}

/** The caches of one rank, one view for each layer of its stage. @throws UsageError SIDE */
export function cachesOf(side: Side, rank: number): LayerView[] {
  const { model, plan, dtype } = side;
  const [layerFrom, layerTo] = stageOf(side, rank);
  const [headFirst, headTo] = headsOf(side, rank);
  try {
    return layoutByName(side.layout, {
      layerFirst: layerFrom,
      layerCount: layerTo - layerFrom,
      blockCount: plan.blocks,
      blockTokens: plan.block,
      kernelTokens: plan.kernelBlock,
      headFirst,
      headCount: headTo - headFirst,
      dtype,
      ...elementsOf(model, dtype),
    });
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    throw new UsageError('SIDE', `${side.flag} layout=${side.layout}: ${error.message}`);
  }
}

/** A latent cache has one row for each token, which the layouts for K and V take as a K without a V. */
function elementsOf(
  { latent, headSize }: ModelSpec,
  dtype: CacheDtype,
): { headSize: number; headSizeV?: number; elementBytes: number } {
  // What NVFP4 takes is known to its layout; the others go by whole bytes.
  const elementBytes = dtype === 'nvfp4' ? 1 : ELEMENT_BYTES[dtype];
  if (latent === null) return { headSize, elementBytes };
  const row = dtype === 'fp8_ds_mla' ? FP8_DS_MLA_BYTES : latent.rank + latent.rope;
  return { headSize: row, headSizeV: 0, elementBytes };
}

/** Why the heads cannot lie on the ranks of a side, or null: an answer about the deployment, not a wrong input. */
export function tpRefusal(letter: 'P' | 'D', { model, plan }: Side): string | null {
  const { heads } = model;
  if (heads % plan.tp === 0 || plan.tp % heads === 0) return null;
  return `${letter}: ${heads} KV heads cannot be split over or replicated on ${plan.tp} TP ranks`;
}

/** Two ranks that talk, and about what. */
export interface Meeting {
  readonly prefillRank: number;
  readonly decodeRank: number;
  readonly layers: Range;
  readonly heads: Range;
}

/** Every P rank whose heads and layers meet those of a D rank; of replicas, one. In order of P rank, then D rank. */
export function meetingsOf(prefill: Side, decode: Side): Meeting[] {
  const [sourceTp, targetTp] = [prefill.plan.tp, decode.plan.tp];
  const meetings: Meeting[] = [];
  for (let decodeRank = 0; decodeRank < targetTp * decode.plan.pp; decodeRank++) {
    const sources = sourceRanks(prefill.model.heads, sourceTp, targetTp, decodeRank % targetTp);
    for (let stage = 0; stage < prefill.plan.pp; stage++) {
      const layers = common(prefill.plan.stages[stage]!, stageOf(decode, decodeRank));
      if (layers[0] >= layers[1]) continue;
      for (const source of sources) {
        const prefillRank = stage * sourceTp + source;
        const heads = common(headsOf(prefill, prefillRank), headsOf(decode, decodeRank));
        meetings.push({ prefillRank, decodeRank, layers, heads });
      }
    }
  }
  return meetings.sort((a, b) => a.prefillRank - b.prefillRank || a.decodeRank - b.decodeRank);
}

function common(a: Range, b: Range): Range {
  return [Math.max(a[0], b[0]), Math.min(a[1], b[1])];
}

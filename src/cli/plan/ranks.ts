import type { ContextView, LayerView } from '../../base/cache-view.ts';
import { UsageError } from '../../base/failure.ts';
import { type LayoutName, layoutByName } from '../../kv/layouts.ts';
import { contextsMeet } from '../../kv/shares.ts';
import { headsOfRank } from '../../kv/view.ts';
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
import { greatestDivisor, refuseLongList } from './size.ts';

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

/** @throws UsageError SIDE when the side does not go with the model or does not hold the tokens, PLAN-SIZE. */
export function laySide(
  flag: Side['flag'],
  spec: SideSpec,
  model: ModelSpec,
  dtype: CacheDtype,
  tokens: number,
  placement: Placement,
): Side {
  const listed = spec.block * spec.dcp;
  const needed = Math.ceil(tokens / listed);
  const blocks = spec.blocks ?? 2 * needed;
  if (blocks < needed)
    throw new UsageError(
      'SIDE',
      `${flag} blocks=${blocks}: ${blocks * listed} tokens fit, ${tokens} are wanted, which take ${needed} blocks of ${listed}`,
    );
  refuseLongList(flag, needed);
  const ownDtype = spec.dtype ?? dtype;
  tokenHeadBytes(model, ownDtype);
  const layout = layoutFor(flag, spec.layout, model, ownDtype);
  const { tp, pp, dcp, dcpInterleave, block, kernelBlock } = spec;
  const stages: readonly Range[] = stageRanges(flag, spec, model.layers);
  return {
    flag,
    plan: { tp, pp, dcp, dcpInterleave, block, kernelBlock, layout, blocks, dtype: ownDtype, stages },
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

export function stageOf(side: Side, rank: number): Range {
  return side.plan.stages[Math.trunc(rank / side.plan.tp)]!;
}

/** Heads go over the context groups, whose ranks follow one another: all of a group hold the same. */
function headsOf({ model, plan: { tp, dcp } }: Side, rank: number): Range {
  const { first, count } = headsOfRank(model.heads, tp / dcp, Math.trunc((rank % tp) / dcp));
  return [first, first + count];
}

/** In tokens: one is a unit. */
function contextOf({ plan: { tp, dcp, dcpInterleave } }: Side, rank: number): ContextView {
  return { ranks: dcp, rank: (rank % tp) % dcp, interleaveUnits: dcpInterleave };
}

/** The caches of one rank, one view for each layer of its stage. @throws UsageError SIDE */
export function cachesOf(side: Side, rank: number): LayerView[] {
  const { model, plan, dtype } = side;
  const [layerFrom, layerTo] = stageOf(side, rank);
  const [headFirst, headTo] = headsOf(side, rank);
  const context = contextOf(side, rank);
  try {
    const views = layoutByName(side.layout, {
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
    return context.ranks === 1 ? views : views.map((view) => ({ ...view, context: inUnits(context, view) }));
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    throw new UsageError('SIDE', `${side.flag} layout=${side.layout}: ${error.message}`);
  }
}

/** @throws UsageError LAYOUT-SHAPE when tokens that move together would lie on several ranks. */
function inUnits(context: ContextView, { unitTokens }: LayerView): ContextView {
  const interleaveUnits = context.interleaveUnits / unitTokens;
  if (Number.isInteger(interleaveUnits)) return { ...context, interleaveUnits };
  throw new UsageError(
    'LAYOUT-SHAPE',
    `an interleave of ${context.interleaveUnits} tokens parts ${unitTokens} that move together`,
  );
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
  const split = plan.tp / plan.dcp;
  if (heads % split === 0 || split % heads === 0) return null;
  const ranks = plan.dcp === 1 ? 'TP ranks' : 'context groups';
  return `${letter}: ${heads} KV heads cannot be split over or replicated on ${split} ${ranks}`;
}

/** Two ranks that talk, and about what. */
export interface Meeting {
  readonly prefillRank: number;
  readonly decodeRank: number;
  readonly layers: Range;
  readonly heads: Range;
}

/** Every P rank whose heads, tokens and layers meet those of a D rank; of replicas, one. In order of P rank, then D rank. */
export function meetingsOf(prefill: Side, decode: Side): Meeting[] {
  const [sourceTp, targetTp] = [prefill.plan.tp, decode.plan.tp];
  const meetings: Meeting[] = [];
  for (let decodeRank = 0; decodeRank < targetTp * decode.plan.pp; decodeRank++) {
    const sources = sourcesOf(prefill, decode, decodeRank);
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

/** The P ranks of the first stage that a D rank gets its heads and tokens from, whatever its own stage. */
function sourcesOf(prefill: Side, decode: Side, decodeRank: number): number[] {
  const heads = headsOf(decode, decodeRank);
  const context = contextOf(decode, decodeRank);
  const copies = new Map<string, number[]>();
  for (let rank = 0; rank < prefill.plan.tp; rank++) {
    const held = headsOf(prefill, rank);
    const share = contextOf(prefill, rank);
    if (held[0] >= heads[1] || heads[0] >= held[1] || !contextsMeet(share, context)) continue;
    const key = `${held[0]} ${share.rank}`;
    copies.set(key, [...(copies.get(key) ?? []), rank]);
  }
  const turn = decodeRank % decode.plan.tp;
  return [...copies.values()].map((ranks) => ranks[turn % ranks.length]!);
}

function common(a: Range, b: Range): Range {
  return [Math.max(a[0], b[0]), Math.min(a[1], b[1])];
}

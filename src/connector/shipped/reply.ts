import { UsageError } from '../../base/failure.ts';
import type { ActorId } from '../../base/topology.ts';
import { unpackEngineDesc, unpackMemoryDesc } from '../../io/descriptors.ts';
import { refusalOf } from '../../kv/refusal.ts';
import { headsOfRank, type LayerView, type PartView } from '../../kv/view.ts';
import type { Fields } from '../../wire/machine.ts';
import type { WorkerEnv } from '../plug.ts';
import type { ShippedMessage } from './messages.ts';

type MetaReply = ShippedMessage<'metaReply'>;

/** Why a description is not taken: a name, and what it is about. */
export interface Refusal {
  readonly reason: string;
  readonly fields: Fields;
}

function refusal(reason: string, fields: Fields): Refusal {
  return { reason, fields };
}

/**
 * Why a peer's description of itself is not taken, or null. Compared with what the topology and this rank's own caches say,
 * and with itself: a peer may be of another release, another model, or wrong. Source: layouts.md 7.9.
 */
export function refuseReply(env: WorkerEnv, from: ActorId, message: MetaReply): Refusal | null {
  const { name: peer } = env.topology.actors[from]!;
  const regionBytes = describedBytes(peer, message);
  if (typeof regionBytes !== 'number') return regionBytes;
  const identity = identityRefusal(env, from, message.geometry);
  if (identity !== null) return refusal(identity.reason, { ...identity.fields, peer });
  for (let layer = 0; layer < env.views.length; layer++) {
    const theirs = message.geometry.views[layer]!;
    const found = viewRefusal(env, from, env.views[layer]!, theirs) ?? placeRefusal(theirs, regionBytes);
    if (found !== null) return refusal(found.reason, { ...found.fields, layer, peer });
  }
  return null;
}

/** Bytes of the region that the descriptors tell of, or why they are not taken. */
function describedBytes(peer: string, { engineDesc, memoryDesc }: MetaReply): number | Refusal {
  try {
    const { key } = unpackEngineDesc(engineDesc);
    const memory = unpackMemoryDesc(memoryDesc);
    if (key !== peer || memory.engineKey !== peer) return refusal('descriptor-of-another-engine', { peer });
    return Number(memory.size);
  } catch (error) {
    if (error instanceof UsageError) return refusal('descriptor-unreadable', { peer, code: error.code });
    throw error;
  }
}

/** Whether it speaks of the rank that it came from, and counts as we do. */
function identityRefusal(env: WorkerEnv, from: ActorId, geometry: MetaReply['geometry']): Refusal | null {
  const { engine, tpRank } = env.topology.actors[from]!;
  const { role, ranks } = env.topology.engines[engine]!;
  const { blockTokens, views } = geometry;
  if (geometry.engine !== engine || geometry.role !== role || geometry.tpRank !== tpRank)
    return refusal('geometry-of-another-rank', {
      ...{ role: geometry.role, engine: geometry.engine, tpRank: geometry.tpRank },
    });
  if (geometry.tpSize !== ranks.length)
    return refusal('tp-size-differs', { theirs: geometry.tpSize, topology: ranks.length });
  if (blockTokens !== env.blockTokens)
    return refusal('block-size-differs', { ours: env.blockTokens, theirs: blockTokens });
  if (views.length !== env.views.length)
    return refusal('layer-count-differs', { ours: env.views.length, theirs: views.length });
  return null;
}

/** Why a layer of the peer does not go with ours. */
function viewRefusal(env: WorkerEnv, from: ActorId, own: LayerView, theirs: LayerView): Refusal | null {
  const cause = refusalOf(own, theirs);
  if (cause !== '') return refusal('layouts-do-not-fit', { cause });
  // Ranks are paired by heads alone here: what lies with the others of a context group would be missing.
  if (own.context.ranks !== 1 || theirs.context.ranks !== 1)
    return refusal('tokens-are-split', { ours: own.context.ranks, theirs: theirs.context.ranks });
  if (own.layer !== theirs.layer || own.blockUnits !== theirs.blockUnits)
    return refusal('layer-differs', {
      ...{ ours: own.layer, ourUnits: own.blockUnits, theirs: theirs.layer, theirUnits: theirs.blockUnits },
    });
  const { engine, tpRank } = env.topology.actors[from]!;
  const heads = headsOfRank(env.heads, env.topology.engines[engine]!.ranks.length, tpRank);
  if (theirs.headFirst === heads.first && theirs.headCount === heads.count) return null;
  const { headFirst, headCount } = theirs;
  return refusal('heads-differ', { headFirst, headCount, first: heads.first, count: heads.count });
}

/** Why a layer does not lie within the one region that the peer registered for us. */
function placeRefusal(view: LayerView, regionBytes: number): Refusal | null {
  const { parts, blockCount, blockUnits, headCount } = view;
  for (const part of parts) {
    const { name, region } = part;
    if (region !== 0) return refusal('part-not-described', { part: name, region });
    const end = endOf(part, (blockCount * blockUnits) / part.pageUnits, headCount);
    if (!(end <= regionBytes)) return refusal('part-outside-region', { part: name, end, regionBytes });
  }
  return null;
}

/** Where the last cell of a part ends. */
function endOf(part: PartView, pages: number, headCount: number): number {
  const lastPage = Math.max(0, pages - 1) * part.blockStride;
  const lastUnit = (part.pageUnits - 1) * part.unitStride;
  return part.base + lastPage + lastUnit + Math.max(0, headCount - 1) * part.headStride + part.bytes;
}

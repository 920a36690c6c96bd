import { UsageError } from '../../base/failure.ts';
import type { ActorId } from '../../base/topology.ts';
import { unpackEngineDesc, unpackMemoryDesc } from '../../io/descriptors.ts';
import { refusalOf } from '../../kv/refusal.ts';
import { headsOfRank, type LayerView, type PartView } from '../../kv/view.ts';
import type { WorkerEnv } from '../plug.ts';
import type { ShippedMessage } from './messages.ts';

type MetaReply = ShippedMessage<'metaReply'>;

/**
 * Why a peer's description of itself is not taken, or ''. Compared with what the topology and this rank's own caches say,
 * and with itself: a peer may be of another release, another model, or wrong. Source: layouts.md 7.9.
 */
export function refuseReply(env: WorkerEnv, from: ActorId, message: MetaReply): string {
  const { name } = env.topology.actors[from]!;
  const regionBytes = describedBytes(name, message);
  if (typeof regionBytes === 'string') return regionBytes;
  const cause = identityRefusal(env, from, message.geometry);
  if (cause !== '') return `${cause} at ${name}`;
  for (let layer = 0; layer < env.views.length; layer++) {
    const theirs = message.geometry.views[layer]!;
    const cause = viewRefusal(env, from, env.views[layer]!, theirs) || placeRefusal(theirs, regionBytes);
    if (cause !== '') return `${cause} (layer ${layer} of ${name})`;
  }
  return '';
}

/** Bytes of the region that the descriptors tell of, or why they are not taken. */
function describedBytes(name: string, { engineDesc, memoryDesc }: MetaReply): number | string {
  try {
    const { key } = unpackEngineDesc(engineDesc);
    const memory = unpackMemoryDesc(memoryDesc);
    if (key !== name || memory.engineKey !== name) return `descriptor of another engine came from ${name}`;
    return Number(memory.size);
  } catch (error) {
    if (error instanceof UsageError) return `descriptor from ${name}: ${error.code}`;
    throw error;
  }
}

/** Whether it speaks of the rank that it came from, and counts as we do. */
function identityRefusal(env: WorkerEnv, from: ActorId, geometry: MetaReply['geometry']): string {
  const { engine, tpRank } = env.topology.actors[from]!;
  const { role, ranks } = env.topology.engines[engine]!;
  const { blockTokens, views } = geometry;
  if (geometry.engine !== engine || geometry.role !== role || geometry.tpRank !== tpRank)
    return `geometry of ${geometry.role} engine ${geometry.engine}, TP rank ${geometry.tpRank}`;
  if (geometry.tpSize !== ranks.length)
    return `TP size ${geometry.tpSize} where the topology has ${ranks.length}`;
  if (blockTokens !== env.blockTokens)
    return `block of ${env.blockTokens} tokens here, block of ${blockTokens} tokens`;
  if (views.length !== env.views.length) return `${env.views.length} layers here, ${views.length} layers`;
  return '';
}

/** Why a layer of the peer does not go with ours. */
function viewRefusal(env: WorkerEnv, from: ActorId, own: LayerView, theirs: LayerView): string {
  const cause = refusalOf(own, theirs);
  if (cause !== '') return cause;
  // Ranks are paired by heads alone here: what lies with the others of a context group would be missing.
  if (own.context.ranks !== 1 || theirs.context.ranks !== 1)
    return `tokens split over ${own.context.ranks} context ranks here, ${theirs.context.ranks} there`;
  if (own.layer !== theirs.layer || own.blockUnits !== theirs.blockUnits)
    return `layer ${own.layer} with blocks of ${own.blockUnits} units here, layer ${theirs.layer} with ${theirs.blockUnits} there`;
  const { engine, tpRank } = env.topology.actors[from]!;
  const heads = headsOfRank(env.heads, env.topology.engines[engine]!.ranks.length, tpRank);
  if (theirs.headFirst === heads.first && theirs.headCount === heads.count) return '';
  return `${theirs.headCount} heads from ${theirs.headFirst} on where the rank has ${heads.count} from ${heads.first} on`;
}

/** Why a layer does not lie within the one region that the peer registered for us. */
function placeRefusal({ parts, blockCount, blockUnits, headCount }: LayerView, regionBytes: number): string {
  for (const part of parts) {
    if (part.region !== 0) return `part ${part.name} is in region ${part.region}, which is not described`;
    const end = endOf(part, (blockCount * blockUnits) / part.pageUnits, headCount);
    if (!(end <= regionBytes)) return `part ${part.name} ends at byte ${end} of ${regionBytes}`;
  }
  return '';
}

/** Where the last cell of a part ends. */
function endOf(part: PartView, pages: number, headCount: number): number {
  const lastPage = Math.max(0, pages - 1) * part.blockStride;
  const lastUnit = (part.pageUnits - 1) * part.unitStride;
  return part.base + lastPage + lastUnit + Math.max(0, headCount - 1) * part.headStride + part.bytes;
}

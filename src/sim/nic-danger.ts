import type { ActorId, BlockId, EngineId } from '../base/topology.ts';
import type { Slice } from '../io/engine/state.ts';
import type { WorkRequest } from '../io/submission.ts';
import { areKeysGood, canLand } from '../io/verbs-land.ts';
import type { VerbsSim } from '../io/verbs-sim.ts';
import { type CacheMap, eachUnit } from '../oracle/cache-map.ts';
import type { Danger } from '../oracle/court.ts';
import type { Core } from './core.ts';
import { isPosting, type OpenBatch } from './nic-batches.ts';
import type { RankEngine } from './nic-engines.ts';
import type { Lane } from './nic-flights.ts';

/**
 * What can still touch memory, read off the queues, the keys and the engines' unfinished posts whenever somebody asks.
 * Nothing is counted along the way, so nothing can be forgotten when a rank dies, a key is fenced or a queue pair breaks.
 */

export interface Queues {
  readonly core: Core;
  /** By actor; only ranks have one. */
  readonly caches: readonly (CacheMap | undefined)[];
  readonly sim: VerbsSim;
  /** In the order of their first posts. */
  readonly lanes: readonly Lane[];
  /** In the order in which they were made. */
  readonly ranks: readonly RankEngine[];
  /** By actor. */
  readonly rankOf: readonly (RankEngine | undefined)[];
}

/** The work requests [first, end) of a list, all of one batch. */
export interface Pending {
  readonly open: OpenBatch;
  readonly workRequests: readonly WorkRequest[];
  readonly first: number;
  readonly end: number;
}

/** The first of what can still land that `test` holds for; null when there is none. */
export function findPending(queues: Queues, test: (pending: Pending) => boolean): Pending | null {
  return findOnTheWire(queues, test) ?? findUnposted(queues, test);
}

function findOnTheWire({ sim, lanes }: Queues, test: (pending: Pending) => boolean): Pending | null {
  for (const { flights, queuePair } of lanes) {
    for (const { open, chain, workRequests: posted } of flights) {
      if (open === null || chain === null || !canLand(sim, queuePair, chain)) continue;
      const { workRequests, first } = chain;
      const pending = { open, workRequests, first, end: first + posted };
      if (test(pending)) return pending;
    }
  }
  return null;
}

/** Chains that wait for room: only an engine that lives posts them. */
function findUnposted(queues: Queues, test: (pending: Pending) => boolean): Pending | null {
  for (const { actor, open: batches } of queues.ranks) {
    if (queues.core.isDead(actor)) continue;
    for (const open of batches) {
      if (!isPosting(open)) continue;
      for (const slice of open.call!.slices) {
        const pending = findInSlice(queues, open, slice, test);
        if (pending !== null) return pending;
      }
    }
  }
  return null;
}

function findInSlice(
  queues: Queues,
  open: OpenBatch,
  slice: Slice,
  test: (pending: Pending) => boolean,
): Pending | null {
  if (slice.result !== null) return null;
  const { chains, workRequests } = slice;
  for (let next = slice.next; next < chains.length; next += 1) {
    const { endpoint, first, end } = chains[next]!;
    // The slice fails there, and what is behind it is never posted.
    if (slice.endpoints[endpoint]!.degraded) return null;
    const pending = { open, workRequests, first, end };
    if (canBePosted(queues, open, slice, endpoint) && test(pending)) return pending;
  }
  return null;
}

/** Whether a chain of that endpoint would land once it is posted. A queue pair that is made anew needs a peer that lives. */
function canBePosted({ core, sim, rankOf }: Queues, open: OpenBatch, slice: Slice, index: number): boolean {
  const { initiator, batch } = open;
  const { operation, peer } = batch;
  const keys = { operation, lkey: slice.lkeys[index]!, rkey: slice.rkeys[index]! };
  if (rankOf[initiator]!.engine.quirks.brokenForGood) {
    const queuePair = sim.queuePairs.get(slice.endpoints[index]!.local.qpn);
    return queuePair !== undefined && canLand(sim, queuePair, keys);
  }
  const { actors } = core.topology;
  return !core.isDead(peer) && areKeysGood(sim, keys, actors[initiator]!.name, actors[peer]!.name);
}

/** An operation that can still touch one of these blocks of an engine; null when none can. */
export function findDanger(queues: Queues, engine: EngineId, blocks: readonly BlockId[]): Danger | null {
  const { actors } = queues.core.topology;
  // As a rule nothing is under way where blocks are handed out.
  let wanted: ReadonlySet<BlockId> | null = null;
  let danger: Danger | null = null;
  findPending(queues, (pending) => {
    const { initiator, batch } = pending.open;
    const isTarget = actors[batch.peer]!.engine === engine;
    if (!isTarget && actors[initiator]!.engine !== engine) return false;
    wanted ??= new Set(blocks);
    const block = touchedOf(queues, pending, isTarget, wanted);
    if (block === null) return false;
    danger = { block, request: batch.request };
    return true;
  });
  return danger;
}

/** The first of the wanted blocks that the work requests touch at their target, or at their initiator. */
function touchedOf(
  { caches }: Queues,
  { open, workRequests, first, end }: Pending,
  isTarget: boolean,
  wanted: ReadonlySet<BlockId>,
): BlockId | null {
  const cache = caches[isTarget ? open.batch.peer : open.initiator]!;
  let found: BlockId | null = null;
  const visit = (block: BlockId): boolean => {
    if (wanted.has(block)) found = block;
    return found !== null;
  };
  for (let at = first; at < end && found === null; at += 1) {
    const { remoteOffset, bytes, sges } = workRequests[at]!;
    if (isTarget) eachUnit(cache, remoteOffset, bytes, visit);
    else for (const sge of sges) eachUnit(cache, sge.offset, sge.bytes, visit);
  }
  return found;
}

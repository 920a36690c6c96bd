import { SmallMap } from '../../base/small-map.ts';
import type { ActorId, TransferId } from '../../base/topology.ts';
import { refuse } from '../../wire/notes.ts';
import { LIMITS } from './limits.ts';
import type { Early, Grant, Turn, WorkerState } from './state.ts';
import { arm, TIMER } from './timers.ts';

/**
 * What peers said before this rank heard of their request: one entry for each transfer and peer, bounded in number, size
 * and time. A peer that says too much loses its own oldest entries and nobody else's.
 */

/** What is kept of this peer for this transfer, made if there is nothing. */
export function keepEarly(turn: Turn, transfer: TransferId, rank: ActorId): Early {
  const { state, at, emit } = turn;
  let ranks = state.early.get(transfer);
  if (ranks === undefined) {
    ranks = new SmallMap();
    state.early.set(transfer, ranks);
    arm(emit, TIMER.early, transfer, at + LIMITS.earlyMicros);
  }
  const known = ranks.get(rank);
  if (known !== undefined) return known;
  const early: Early = { grant: null, claim: null, release: null, revoked: false };
  ranks.set(rank, early);
  const transfers = earlyOf(state, rank);
  transfers.add(transfer);
  if (transfers.size > LIMITS.earlyMax) dropOldest(turn, rank);
  return early;
}

/** Keeps a grant; the peer's oldest ones go when their block lists are too long together. */
export function keepGrant(turn: Turn, transfer: TransferId, rank: ActorId, grant: Grant): void {
  const { state, emit } = turn;
  if (grant.blocks.length > LIMITS.earlyBlocksMax)
    return refuse(emit, 'early-grant-too-long', { blocks: grant.blocks.length });
  keepEarly(turn, transfer, rank).grant = grant;
  const transfers = earlyOf(state, rank);
  let blocks = 0;
  for (const held of transfers) blocks += state.early.get(held)?.get(rank)?.grant?.blocks.length ?? 0;
  while (blocks > LIMITS.earlyBlocksMax) {
    const [oldest] = transfers;
    blocks -= state.early.get(oldest!)?.get(rank)?.grant?.blocks.length ?? 0;
    dropOldest(turn, rank);
  }
}

/** What all peers said about a transfer, which is heard of now. */
export function takeEarly(turn: Turn, transfer: TransferId): SmallMap<ActorId, Early> | undefined {
  const { state, emit } = turn;
  const ranks = state.early.get(transfer);
  if (ranks === undefined) return undefined;
  emit({ kind: 'stop', timer: TIMER.early, object: transfer });
  forgetEarly(state, transfer);
  return ranks;
}

/** Nobody has spoken of it in time. */
export function forgetEarly(state: WorkerState, transfer: TransferId): void {
  for (const rank of state.early.get(transfer)?.keys() ?? []) earlyOf(state, rank).delete(transfer);
  state.early.delete(transfer);
}

/** Transfers of which something is kept for a peer, oldest first. */
function earlyOf(state: WorkerState, rank: ActorId): Set<TransferId> {
  let transfers = state.earlyOf.get(rank);
  if (transfers === undefined) {
    transfers = new Set();
    state.earlyOf.set(rank, transfers);
  }
  return transfers;
}

function dropOldest(turn: Turn, rank: ActorId): void {
  const { state, emit } = turn;
  const transfers = earlyOf(state, rank);
  const [oldest] = transfers;
  if (oldest === undefined) return;
  refuse(emit, 'too-many-early-messages');
  transfers.delete(oldest);
  const ranks = state.early.get(oldest);
  ranks?.delete(rank);
  if (ranks?.size !== 0) return;
  emit({ kind: 'stop', timer: TIMER.early, object: oldest });
  state.early.delete(oldest);
}

import { move } from '../../base/moves.ts';
import type { ActorId, TransferId } from '../../base/topology.ts';
import { targetRanks } from '../../kv/view.ts';
import type { Emit } from '../../wire/machine.ts';
import type { Message, PeerMessage } from '../../wire/messages.ts';
import { goal, refuse } from '../../wire/notes.ts';
import { decodePeerMessage } from '../../wire/peer-codec.ts';
import { holdEarly } from './early.ts';
import { onGrant, settleHaul, stopHaul } from './haul.ts';
import { onClaim, onSeal } from './lease.ts';
import { LIMITS } from './limits.ts';
import { HAUL_MOVES } from './moves.ts';
import { describe, isPeerRank, onMetaReply, type SessionUser } from './session.ts';
import type { Early, Grant, Haul, WorkerState } from './state.ts';

/** What peers may say to a rank. Whatever it is, it is refused, counted and survived if it does not fit. */

export function onMessage(
  state: WorkerState,
  user: SessionUser,
  from: ActorId,
  message: Message,
  at: number,
  emit: Emit,
): void {
  if (message.kind === 'bytes') {
    const decoded = decodePeerMessage(message.bytes);
    if (typeof decoded === 'string') return refuse(emit, decoded);
    return onMessage(state, user, from, decoded, at, emit);
  }
  if (!isPeerRank(state, from)) return refuse(emit, `${message.kind} from a stranger`);
  switch (message.kind) {
    case 'metaRequest':
      return emit({ kind: 'send', to: from, message: describe(state, from, message.attempt) });
    case 'metaReply':
      return onMetaReply(state, from, message, user, at, emit);
    case 'claim':
      return applyClaim(state, message.transfer, from, message.tpSize, message.attempt, at, emit);
    case 'grant':
      return applyGrant(state, from, message, at, emit);
    case 'seal':
      return applySeal(state, from, message, at, emit);
    case 'sealAck':
      return onSealAck(state, from, message.transfer, at, emit);
    case 'refuse':
      return onRefuse(state, from, message.transfer, at, emit);
    case 'revoke':
      return applyRevoke(state, from, message, at, emit);
    default:
      return refuse(emit, `${message.kind} does not belong on this socket`);
  }
}

/** How many ranks of a TP group of `tpSize` read from this rank; 0 when the claimant is not one of them. */
function readersOf(state: WorkerState, from: ActorId, tpSize: number): number {
  const { env } = state;
  const spec = env.topology.actors[from]!;
  if (env.topology.engines[spec.engine]!.ranks.length !== tpSize) return 0;
  const readers = targetRanks(env.heads, env.spec.ranks.length, tpSize, env.tpRank);
  return readers.includes(spec.tpRank) ? readers.length : 0;
}

export function applyClaim(
  state: WorkerState,
  transfer: TransferId,
  from: ActorId,
  tpSize: number,
  attempt: number,
  at: number,
  emit: Emit,
): void {
  const expected = readersOf(state, from, tpSize);
  const lease = state.leases.get(transfer);
  if (expected === 0 || state.endedLeases.has(transfer)) {
    goal(emit, 'claim-refused');
    return emit({ kind: 'send', to: from, message: { kind: 'refuse', transfer, attempt } });
  }
  if (lease !== undefined) return onClaim(state, lease, from, expected, attempt, emit);
  const early = holdEarly(state, transfer, at, emit);
  if (early !== undefined && !early.claims.some((claim) => claim.rank === from))
    early.claims.push({ rank: from, tpSize, attempt });
}

function applyGrant(
  state: WorkerState,
  from: ActorId,
  message: Extract<PeerMessage, { kind: 'grant' }>,
  at: number,
  emit: Emit,
): void {
  const { transfer } = message;
  const haul = state.hauls.get(transfer);
  const seen = state.grantsSeen.get(from) ?? 0;
  const peer = haul?.peers.find((candidate) => candidate.rank === from);
  const repeated = peer?.grant?.grant === message.grant;
  const held =
    state.early
      .get(transfer)
      ?.grants.some((entry) => entry.rank === from && entry.grant.grant === message.grant) ?? false;
  if (!repeated && !held && message.grant <= seen) {
    // Its blocks may belong to somebody else by now: never touch them.
    goal(emit, 'grant-stale-refused');
    return emit({ kind: 'send', to: from, message: sealFor(state, transfer) });
  }
  if (message.grant > seen) state.grantsSeen.set(from, message.grant);
  const grant: Grant = {
    grant: message.grant,
    blocks: message.blocks,
    epoch: message.epoch,
    firstSlot: message.firstSlot,
    slotFrom: message.slotFrom,
    slotTo: message.slotTo,
  };
  if (haul !== undefined) return onGrant(state, haul, from, grant, at, emit);
  if (state.env.mode === 'read' || state.ended.has(transfer))
    return emit({ kind: 'send', to: from, message: sealFor(state, transfer) });
  const early = held ? undefined : holdEarly(state, transfer, at, emit);
  if (early !== undefined) early.grants.push({ rank: from, grant });
}

/** The answer for a transfer that is over here: whether all of it landed, or no if it is not remembered. */
function sealFor(state: WorkerState, transfer: TransferId): PeerMessage {
  const tpSize = state.env.spec.ranks.length;
  return {
    kind: 'seal',
    transfer,
    ok: state.ended.get(transfer) ?? false,
    tpSize,
    attempt: LIMITS.sealAttemptsMax,
  };
}

function applySeal(
  state: WorkerState,
  from: ActorId,
  message: Extract<PeerMessage, { kind: 'seal' }>,
  at: number,
  emit: Emit,
): void {
  const { transfer, ok, attempt } = message;
  const lease = state.leases.get(transfer);
  if (lease !== undefined) {
    const expected =
      lease.operation === 'read' ? readersOf(state, from, message.tpSize) : lease.peersExpected;
    if (expected > 0) onSeal(state, lease, from, ok, expected, at, emit);
  } else {
    const early = state.early.get(transfer);
    if (early !== undefined) dropClaim(early, from);
  }
  emit({ kind: 'send', to: from, message: { kind: 'sealAck', transfer, attempt } });
}

function dropClaim(early: Early, from: ActorId): void {
  const index = early.claims.findIndex((claim) => claim.rank === from);
  if (index >= 0) early.claims.splice(index, 1);
}

function onSealAck(state: WorkerState, from: ActorId, transfer: TransferId, at: number, emit: Emit): void {
  const haul = state.hauls.get(transfer);
  const peer = haul?.peers.find((candidate) => candidate.rank === from);
  if (haul === undefined || peer === undefined || !move(HAUL_MOVES, peer, 'Acked')) return;
  settleHaul(state, haul, at, emit);
}

function onRefuse(state: WorkerState, from: ActorId, transfer: TransferId, at: number, emit: Emit): void {
  const haul = state.hauls.get(transfer);
  const peer = haul?.peers.find((candidate) => candidate.rank === from);
  if (haul === undefined || peer === undefined || !move(HAUL_MOVES, peer, 'Refused')) return;
  peer.ok = false;
  // The rest of the load is of no use without this part.
  stopHaul(state, haul, at, emit);
}

function applyRevoke(
  state: WorkerState,
  from: ActorId,
  message: Extract<PeerMessage, { kind: 'revoke' }>,
  at: number,
  emit: Emit,
): void {
  const { transfer, grant } = message;
  if (grant > (state.grantsSeen.get(from) ?? 0)) state.grantsSeen.set(from, grant);
  const haul = state.hauls.get(transfer);
  if (haul?.peers.some((peer) => peer.rank === from)) return revokedByPeer(state, haul, from, at, emit);
  const early = state.early.get(transfer);
  if (early !== undefined) {
    const index = early.grants.findIndex((entry) => entry.rank === from);
    if (index >= 0) early.grants.splice(index, 1);
    if (!early.revoked.includes(from)) early.revoked.push(from);
  }
  emit({ kind: 'send', to: from, message: sealFor(state, transfer) });
}

/** One target wants its blocks back; a transfer that cannot reach one of its targets is of no use to the others. */
export function revokedByPeer(state: WorkerState, haul: Haul, from: ActorId, at: number, emit: Emit): void {
  const peer = haul.peers.find((candidate) => candidate.rank === from)!;
  if (peer.phase === 'Closed' || peer.phase === 'Sealed') {
    emit({ kind: 'send', to: from, message: sealFor(state, haul.transfer) });
    return;
  }
  stopHaul(state, haul, at, emit);
}

import { move } from '../../base/moves.ts';
import type { ActorId, TransferId } from '../../base/topology.ts';
import { sealingRanks, targetRanks } from '../../kv/view.ts';
import { type Message, nameOfMessage } from '../../wire/messages.ts';
import { refuse } from '../../wire/notes.ts';
import { decodePeerMessage, oddityOf } from '../../wire/peer-codec.ts';
import { keepEarly, keepGrant } from './early.ts';
import { goal } from './goals.ts';
import { onGrant, partOf, settleHaul, stopHaul } from './haul.ts';
import { onClaim, onSeal } from './lease.ts';
import { LIMITS } from './limits.ts';
import { FORMS, type Half, type ShippedMessage, type ShippedName } from './messages.ts';
import { HAUL_MOVES } from './moves.ts';
import { judgeNumber, raiseWindow, useNumber } from './numbers.ts';
import { describe, isPeerRank, onMetaReply } from './session.ts';
import { type Early, type Grant, grantsSeenFrom, type Haul, type Turn, type WorkerState } from './state.ts';

/** What peers may say to a rank. Whatever it is, it is refused, counted and survived if it does not fit. */

export function onMessage(turn: Turn, from: ActorId, message: Message): void {
  const { state, at, emit, user } = turn;
  if (message.kind === 'bytes') {
    const decoded = decodePeerMessage(message.bytes, FORMS);
    if (typeof decoded === 'string') return refuse(emit, 'undecodable', { cause: decoded });
    return onMessage(turn, from, decoded);
  }
  if (!isPeerRank(state, from)) return refuse(emit, 'from-a-stranger', { message: nameOfMessage(message) });
  const odd = oddityOf(message, FORMS);
  if (odd !== '') return refuse(emit, 'odd-message', { cause: odd });
  const peerMessage = message as ShippedMessage;
  const { name } = peerMessage;
  if (!maySend(state, name)) return refuse(emit, 'never-sent-by-that-rank', { message: name });
  // The table's type says that each handler gets its own message; the compiler cannot follow that through the name.
  (HANDLERS[name] as (turn: Turn, from: ActorId, message: ShippedMessage) => void)(turn, from, peerMessage);
}

/** Whether a peer of this rank plays the half that says such things: the other one than this rank does. */
function maySend({ env }: WorkerState, name: ShippedName): boolean {
  const peer: Half = (env.mode === 'read') === (env.spec.role === 'prefill') ? 'initiator' : 'target';
  const { sender, mode } = FORMS[name];
  return sender === peer && (mode === 'both' || mode === env.mode);
}

const HANDLERS: {
  readonly [N in ShippedName]: (turn: Turn, from: ActorId, message: ShippedMessage<N>) => void;
} = {
  metaRequest: ({ state, emit }, from, { attempt }) =>
    emit({ kind: 'send', to: from, message: describe(state, from, attempt) }),
  metaReply: onMetaReply,
  claim: applyClaim,
  grant: applyGrant,
  seal: applySeal,
  sealAck: (turn, from, { transfer }) => onSealAck(turn, from, transfer),
  refuse: (turn, from, { transfer }) => onRefuse(turn, from, transfer),
  revoke: applyRevoke,
};

type RanksOf = (heads: number, sourceTp: number, targetTp: number, sourceRank: number) => number[];

/** How many ranks of a TP group of `tpSize` are among `ranksOf` this one; 0 when the sender is none of them. */
function peersOf(state: WorkerState, from: ActorId, tpSize: number, ranksOf: RanksOf): number {
  const { env } = state;
  const spec = env.topology.actors[from]!;
  if (env.topology.engines[spec.engine]!.ranks.length !== tpSize) return 0;
  const peers = ranksOf(env.heads, env.spec.ranks.length, tpSize, env.tpRank);
  return peers.includes(spec.tpRank) ? peers.length : 0;
}

/** A claim, heard now or kept until the lease came. */
export function applyClaim(
  turn: Turn,
  from: ActorId,
  { transfer, tpSize, attempt }: Pick<ShippedMessage<'claim'>, 'transfer' | 'tpSize' | 'attempt'>,
): void {
  const { state, emit } = turn;
  const expected = peersOf(state, from, tpSize, targetRanks);
  const lease = state.leases.get(transfer);
  const isReleased = state.early.get(transfer)?.get(from)?.release != null;
  if (expected === 0 || isReleased || state.endedLeases.has(transfer)) {
    goal(emit, 'claim-refused');
    if (expected === 0) refuse(emit, 'claim-of-who-reads-nothing', { transfer });
    return emit({ kind: 'send', to: from, message: { kind: 'peer', name: 'refuse', transfer, attempt } });
  }
  if (lease !== undefined) return onClaim(turn, lease, { rank: from, expected, attempt });
  keepEarly(turn, transfer, from).claim ??= { tpSize, attempt };
}

function applyGrant(turn: Turn, from: ActorId, message: ShippedMessage<'grant'>): void {
  const { state, emit } = turn;
  const { transfer } = message;
  const haul = state.hauls.get(transfer);
  const grant: Grant = {
    grant: message.grant,
    blocks: message.blocks,
    epoch: message.epoch,
    firstSlot: message.firstSlot,
    slotFrom: message.slotFrom,
    slotTo: message.slotTo,
  };
  const early = state.early.get(transfer)?.get(from);
  if (early?.grant?.grant === grant.grant) return;
  if (haul !== undefined) return takeGrant(turn, haul, from, grant);
  const verdict = judgeNumber(grantsSeenFrom(state, from), grant.grant, transfer);
  if (verdict === 'jump') return refuse(emit, 'number-too-far-ahead');
  if (verdict === 'stale' || early?.revoked === true) return onStaleGrant(turn, haul, from, transfer);
  if (state.ended.has(transfer)) return emit({ kind: 'send', to: from, message: sealFor(state, transfer) });
  if (state.env.mode === 'read') return refuse(emit, 'grant-not-claimed', { transfer });
  keepGrant(turn, transfer, from, grant);
}

/** A grant for a transfer that is here: its number counts if the peer waits for one. */
export function takeGrant(turn: Turn, haul: Haul, from: ActorId, grant: Grant): void {
  const { state, emit } = turn;
  const peer = partOf(haul, from, 'grant', emit);
  if (peer === undefined) return;
  if (peer.grant?.grant !== grant.grant) {
    const met = grantsSeenFrom(state, from);
    const verdict = useNumber(met, grant.grant, haul.transfer);
    if (verdict === 'jump') return refuse(emit, 'number-too-far-ahead');
    if (verdict === 'stale') return onStaleGrant(turn, haul, from, haul.transfer);
    if (peer.phase === 'Waiting') raiseWindow(met, grant.grant);
  }
  onGrant(turn, haul, peer, grant);
}

/**
 * Its blocks may belong to somebody else by now: never touch them. A seal answers it only where it is true for any grant:
 * of a transfer that is not over, another one may be on its way.
 */
function onStaleGrant(turn: Turn, haul: Haul | undefined, from: ActorId, transfer: TransferId): void {
  const { state, emit } = turn;
  goal(emit, 'grant-stale-refused');
  refuse(emit, 'grant-number-stale');
  const phase = haul?.peers.find((candidate) => candidate.rank === from)?.phase;
  const isOver = haul === undefined ? state.ended.has(transfer) : phase === 'Sealed' || phase === 'Closed';
  if (isOver) emit({ kind: 'send', to: from, message: sealFor(state, transfer) });
}

/** The answer for a transfer that is over here: whether all of it landed, or no if it is not remembered. */
function sealFor(state: WorkerState, transfer: TransferId): ShippedMessage {
  const tpSize = state.env.spec.ranks.length;
  return {
    kind: 'peer',
    name: 'seal',
    transfer,
    ok: state.ended.get(transfer) ?? false,
    tpSize,
    attempt: LIMITS.sealAttemptsMax,
  };
}

function applySeal(turn: Turn, from: ActorId, message: ShippedMessage<'seal'>): void {
  const { state, emit } = turn;
  const { transfer, ok, tpSize, attempt } = message;
  if (state.leases.has(transfer)) {
    if (!applyRelease(turn, transfer, from, { tpSize, ok })) return;
  } else if (state.env.mode === 'read' && !state.endedLeases.has(transfer)) {
    // The loan may be on its way to this rank: who will not claim it is known by then.
    if (peersOf(state, from, tpSize, sealingRanks) === 0)
      return refuse(emit, 'sender-has-no-part', { message: 'seal', transfer });
    const early = keepEarly(turn, transfer, from);
    early.release = { tpSize, ok };
    early.claim = null;
  }
  emit({ kind: 'send', to: from, message: { kind: 'peer', name: 'sealAck', transfer, attempt } });
}

/** A seal for a lease that is here. Says whether it was one of a rank that has a part in it. */
export function applyRelease(
  turn: Turn,
  transfer: TransferId,
  from: ActorId,
  { tpSize, ok }: NonNullable<Early['release']>,
): boolean {
  const { state, emit } = turn;
  const lease = state.leases.get(transfer);
  if (lease === undefined) return true;
  const isRead = lease.operation === 'read';
  const expected = isRead ? peersOf(state, from, tpSize, sealingRanks) : lease.peersExpected;
  if (expected > 0 && onSeal(turn, lease, { rank: from, expected, ok })) return true;
  refuse(emit, 'sender-has-no-part', { message: 'seal', transfer });
  return false;
}

function onSealAck(turn: Turn, from: ActorId, transfer: TransferId): void {
  const { state, emit } = turn;
  const haul = state.hauls.get(transfer);
  // Late ones are usual: the transfer is over.
  if (haul === undefined) return;
  const peer = partOf(haul, from, 'sealAck', emit);
  if (peer !== undefined && move(HAUL_MOVES, peer, 'Acked')) settleHaul(turn, haul);
}

function onRefuse(turn: Turn, from: ActorId, transfer: TransferId): void {
  const { state, emit } = turn;
  const haul = state.hauls.get(transfer);
  if (haul === undefined) return;
  const peer = partOf(haul, from, 'refuse', emit);
  if (peer === undefined || !move(HAUL_MOVES, peer, 'Refused')) return;
  peer.ok = false;
  // The rest of the load is of no use without this part.
  stopHaul(turn, haul);
}

function applyRevoke(turn: Turn, from: ActorId, message: ShippedMessage<'revoke'>): void {
  const { state, emit } = turn;
  const { transfer, grant } = message;
  const met = grantsSeenFrom(state, from);
  if (judgeNumber(met, grant, transfer) === 'jump') return refuse(emit, 'number-too-far-ahead');
  const haul = state.hauls.get(transfer);
  if (haul !== undefined) {
    const peer = partOf(haul, from, 'revoke', emit);
    if (peer === undefined) return;
    if (peer.grant !== null && peer.grant.grant !== grant)
      return refuse(emit, 'revoke-of-unknown-grant', { transfer });
    useNumber(met, grant, transfer);
    return revokedByPeer(turn, haul, from);
  }
  useNumber(met, grant, transfer);
  if (state.env.mode === 'write' && !state.ended.has(transfer)) {
    // What the seal promises is kept: whatever grant comes after it is not taken.
    const early = keepEarly(turn, transfer, from);
    early.grant = null;
    early.revoked = true;
  }
  emit({ kind: 'send', to: from, message: sealFor(state, transfer) });
}

/** One target wants its blocks back; a transfer that cannot reach one of its targets is of no use to the others. */
export function revokedByPeer(turn: Turn, haul: Haul, from: ActorId): void {
  const { state, emit } = turn;
  const peer = partOf(haul, from, 'revoke', emit);
  if (peer === undefined) return;
  if (peer.phase === 'Closed' || peer.phase === 'Sealed') {
    emit({ kind: 'send', to: from, message: sealFor(state, haul.transfer) });
    return;
  }
  stopHaul(turn, haul);
}

import { move } from '../../base/moves.ts';
import type { ActorId, TransferId } from '../../base/topology.ts';
import { planUnits } from '../../kv/plan.ts';
import type { Emit } from '../../wire/machine.ts';
import { refuse } from '../../wire/notes.ts';
import { goal } from './goals.ts';
import { LIMITS } from './limits.ts';
import { HAUL_MOVES, type HaulPhase } from './moves.ts';
import { dropQueued, enqueueRuns, leaveDoubted, needSession, outdate } from './session.ts';
import {
  type Grant,
  type Haul,
  type HaulPeer,
  type QueuedRuns,
  remember,
  type Session,
  type SessionUser,
  type SlotRange,
  type Turn,
  type WorkerState,
} from './state.ts';
import { arm, TIMER } from './timers.ts';

/**
 * The initiator's half of a transfer: wait for grants, post what is ready, seal when nothing of ours can land any more.
 * The local blocks are safe to free exactly when every peer is Sealed: no operation is in flight and none will be posted.
 */

export function startHaul(turn: Turn, haul: Haul): void {
  const { state, at, emit } = turn;
  state.hauls.set(haul.transfer, haul);
  arm(emit, TIMER.haulDeadline, haul.transfer, at + LIMITS.haulMicros);
  for (const peer of haul.peers) {
    if (peer.phase === 'Sealed') {
      goal(emit, 'idle-rank-released');
      sendSeal(turn, haul, peer);
    } else if (haul.operation === 'read') claim(turn, haul, peer);
  }
  repeatLater(haul, at, emit);
}

function claim(turn: Turn, haul: Haul, peer: HaulPeer): void {
  const { state, emit } = turn;
  const tpSize = state.env.spec.ranks.length;
  emit({
    kind: 'send',
    to: peer.rank,
    message: { kind: 'peer', name: 'claim', transfer: haul.transfer, tpSize, attempt: peer.attempts },
  });
}

function sendSeal(turn: Turn, haul: Haul, peer: HaulPeer): void {
  const { state, emit } = turn;
  const tpSize = state.env.spec.ranks.length;
  const message = {
    kind: 'peer',
    name: 'seal',
    transfer: haul.transfer,
    ok: peer.ok,
    tpSize,
    attempt: peer.attempts,
  } as const;
  emit({ kind: 'send', to: peer.rank, message });
}

/** The first seal of a peer; its repeats are counted from here. */
function seal(turn: Turn, haul: Haul, peer: HaulPeer): void {
  peer.attempts = 0;
  sendSeal(turn, haul, peer);
}

/** Something must be said again until it is answered: claims of a READ, seals of either mode. */
function mustRepeat(haul: Haul): boolean {
  return haul.peers.some(
    (peer) => peer.phase === 'Sealed' || (peer.phase === 'Waiting' && haul.operation === 'read'),
  );
}

function repeatLater(haul: Haul, at: number, emit: Emit): void {
  if (haul.retrying || !mustRepeat(haul)) return;
  haul.retrying = true;
  arm(
    emit,
    TIMER.haulRetry,
    haul.transfer,
    at + LIMITS.retryMicros * 2 ** Math.min(haul.rounds, LIMITS.backoffDoublingsMax),
  );
}

export function onHaulRetry(turn: Turn, transfer: TransferId): void {
  const { state, emit } = turn;
  const haul = state.hauls.get(transfer);
  if (haul === undefined) return;
  haul.retrying = false;
  haul.rounds++;
  for (const peer of haul.peers) {
    if (peer.phase === 'Waiting' && haul.operation === 'read') {
      if (++peer.attempts >= LIMITS.claimAttemptsMax) stopPeer(turn, haul, peer);
      else claim(turn, haul, peer);
    } else if (peer.phase === 'Sealed') {
      // A target that never acknowledged will ask by a revoke, and be answered from the table of ended transfers.
      if (++peer.attempts >= LIMITS.sealAttemptsMax) move(HAUL_MOVES, peer, 'GaveUp');
      else {
        goal(emit, 'seal-repeated');
        sendSeal(turn, haul, peer);
      }
    }
  }
  settleHaul(turn, haul);
}

/** What was given up has not completed: a completion is lost. The queue pairs are reset, which ends every batch. */
export function onHaulDrain(turn: Turn, transfer: TransferId): void {
  const { state, emit } = turn;
  const haul = state.hauls.get(transfer);
  if (haul === undefined) return;
  haul.draining = false;
  for (const peer of haul.peers) {
    if (peer.phase !== 'Draining') continue;
    goal(emit, 'queue-pair-reset');
    emit({ kind: 'reset', peer: peer.rank });
  }
}

/** A peer that drains must have drained in time. */
function drainInTime(haul: Haul, at: number, emit: Emit): void {
  if (haul.draining || !haul.peers.some((peer) => peer.phase === 'Draining')) return;
  haul.draining = true;
  arm(emit, TIMER.haulDrain, haul.transfer, at + LIMITS.drainMicros);
}

export function onHaulDeadline(turn: Turn, transfer: TransferId): void {
  const { state } = turn;
  const haul = state.hauls.get(transfer);
  if (haul !== undefined) stopHaul(turn, haul);
}

/** Stops every peer: nothing new is posted, what is in flight drains, then the peers are told. */
export function stopHaul(turn: Turn, haul: Haul): void {
  for (const peer of haul.peers) stopPeer(turn, haul, peer);
  settleHaul(turn, haul);
}

function stopPeer(turn: Turn, haul: Haul, peer: HaulPeer): void {
  const { state, emit } = turn;
  if (peer.phase !== 'Waiting' && peer.phase !== 'Moving') return;
  if (peer.phase === 'Moving' && peer.outstanding > 0) goal(emit, 'abort-while-moving');
  move(HAUL_MOVES, peer, 'Stopped');
  peer.ok = false;
  dropQueued(state, peer);
  if (phaseOf(peer) === 'Draining' && peer.outstanding === 0) move(HAUL_MOVES, peer, 'Drained');
  if (phaseOf(peer) === 'Sealed') seal(turn, haul, peer);
}

/** Read through a call, so that the compiler does not hold on to what the phase was before a move. */
function phaseOf(peer: HaulPeer): HaulPhase {
  return peer.phase;
}

/** The peer of a transfer that a message came from; undefined, and the message refused, when it has no part in it. */
export function partOf(haul: Haul, rank: ActorId, kind: string, emit: Emit): HaulPeer | undefined {
  const peer = haul.peers.find((candidate) => candidate.rank === rank);
  if (peer === undefined) refuse(emit, 'sender-has-no-part', { message: kind, transfer: haul.transfer });
  return peer;
}

/** Applies a grant to a waiting peer; a repeated or stale one only gets its answer again. */
export function onGrant(turn: Turn, haul: Haul, peer: HaulPeer, grant: Grant): void {
  const { state, emit } = turn;
  if (peer.phase === 'Sealed' || peer.phase === 'Closed') return sendSeal(turn, haul, peer);
  if (peer.phase !== 'Waiting') return;
  if (!covers(state, haul, grant)) {
    refuse(emit, 'grant-misses-its-tokens', { transfer: haul.transfer });
    stopPeer(turn, haul, peer);
    return settleHaul(turn, haul);
  }
  move(HAUL_MOVES, peer, 'Granted');
  peer.grant = grant;
  peer.postedTo.fill(Math.max(grant.slotFrom, haul.slotFrom));
  if (peer.postedTo.some((posted, layer) => haul.readyTo[layer]! > posted) && haul.operation === 'write') {
    goal(emit, 'write-deferred');
  }
  advance(turn, haul, peer);
  settleHaul(turn, haul);
}

/** The grant's block list has the blocks of its range, each of them once, and it fits what this side wants to move. */
function covers(state: WorkerState, haul: Haul, grant: Grant): boolean {
  const { blockUnits } = state.env.views[0]!;
  const first = Math.floor(grant.slotFrom / blockUnits);
  const inOrder = grant.firstSlot === first * blockUnits && grant.slotFrom <= grant.slotTo;
  const reaches = grant.blocks.length === Math.ceil(grant.slotTo / blockUnits) - first;
  // WRITE: D says which part it lacks. READ: P lends the whole prompt and D takes what it lacks.
  const fits =
    haul.operation === 'write'
      ? grant.slotTo <= haul.slotTo
      : grant.slotFrom <= haul.slotFrom && grant.slotTo >= haul.slotTo;
  return inOrder && fits && reaches && new Set(grant.blocks).size === grant.blocks.length;
}

/** Where the haul ends under this grant. */
function targetSlot(haul: Haul, grant: Grant): number {
  return Math.min(grant.slotTo, haul.slotTo);
}

/** Hands to the session whatever is granted, ready and not yet handed over; layer by layer, in order. */
export function advance(turn: Turn, haul: Haul, peer: HaulPeer): void {
  const grant = peer.grant;
  if (peer.phase !== 'Moving' || grant === null) return;
  const target = targetSlot(haul, grant);
  let session: Session | null = null;
  for (let layer = 0; layer < haul.readyTo.length; layer++) {
    const from = peer.postedTo[layer]!;
    const to = Math.min(haul.readyTo[layer]!, target);
    if (to <= from) continue;
    session ??= sessionFor(turn, haul, peer, grant);
    if (session === null || session.phase !== 'Ready') return;
    // Granted before a fence: the blocks may have a new owner.
    if (grant.epoch < session.epoch) return onMisfit(turn, session, haul, peer);
    postLayer(turn, session, { haul, peer, layer }, { from, to });
    if (phaseOf(peer) !== 'Moving') return;
  }
}

/**
 * The grant does not go with what the peer said of itself in the handshake. Either may be wrong; so the session is not kept
 * once nothing moves over it, and the next need asks anew.
 */
function onMisfit(turn: Turn, session: Session, haul: Haul, peer: HaulPeer): void {
  const { state } = turn;
  stopPeer(turn, haul, peer);
  session.doubted = true;
  leaveDoubted(state, session);
}

/**
 * A session of the grant's epoch or a later one; an older one is given up for a new handshake. Null when the peer's replies
 * never reach the epoch of its grant: then the grant is wrong.
 */
function sessionFor(turn: Turn, haul: Haul, peer: HaulPeer, grant: Grant): Session | null {
  const { emit } = turn;
  const session = needSession(turn, peer.rank);
  if (session.phase !== 'Ready' || session.epoch >= grant.epoch) return session;
  if (peer.renewals === LIMITS.renewalsMax) {
    refuse(emit, 'grant-of-unknown-epoch', { transfer: haul.transfer });
    stopPeer(turn, haul, peer);
    return null;
  }
  peer.renewals++;
  outdate(session);
  stopVoid(turn, peer);
  return needSession(turn, peer.rank);
}

/** Whatever else moved over an outdated session was granted before the fence and is void. */
function stopVoid(turn: Turn, fresh: HaulPeer): void {
  const { state } = turn;
  for (const haul of state.hauls.values()) {
    const stale = haul.peers.find(
      (peer) => peer.rank === fresh.rank && peer !== fresh && peer.phase === 'Moving',
    );
    if (stale === undefined) continue;
    stopPeer(turn, haul, stale);
    settleHaul(turn, haul);
  }
}

/** Hands one layer's slots over, as the peer's grant allows. */
function postLayer(
  turn: Turn,
  session: Session,
  { haul, peer, layer }: Pick<QueuedRuns, 'haul' | 'peer' | 'layer'>,
  { from, to }: SlotRange,
): void {
  const { state, emit } = turn;
  const grant = peer.grant!;
  const local = state.env.views[layer]!;
  const remote = session.views[layer]!;
  if (grant.blocks.some((block) => block < 0 || block >= remote.blockCount)) {
    refuse(emit, 'grant-outside-cache', { transfer: haul.transfer });
    return onMisfit(turn, session, haul, peer);
  }
  const runs: number[] = [];
  planUnits(
    { layer: local, blocks: haul.blocks, firstUnit: 0 },
    { layer: remote, blocks: grant.blocks, firstUnit: grant.firstSlot },
    { from, to },
    runs,
  );
  peer.postedTo[layer] = to;
  const localBlocks = haul.blocks.slice(
    Math.floor(from / local.blockUnits),
    Math.ceil(to / local.blockUnits),
  );
  const remoteBlocks = grant.blocks.slice(
    Math.floor((from - grant.firstSlot) / remote.blockUnits),
    Math.ceil((to - grant.firstSlot) / remote.blockUnits),
  );
  enqueueRuns(turn, session, { haul, peer, layer, runs, localBlocks, remoteBlocks, next: 0 });
}

/** Closes what can be closed: landed peers seal, drained peers seal, a sealed haul reports, a closed one is forgotten. */
export function settleHaul(turn: Turn, haul: Haul): void {
  const { at, emit } = turn;
  for (const peer of haul.peers) {
    if (peer.outstanding > 0) continue;
    const sealed =
      (peer.phase === 'Moving' && allPosted(haul, peer) && move(HAUL_MOVES, peer, 'AllLanded')) ||
      (peer.phase === 'Draining' && move(HAUL_MOVES, peer, 'Drained'));
    if (sealed) seal(turn, haul, peer);
  }
  drainInTime(haul, at, emit);
  if (!haul.peers.every((peer) => peer.phase === 'Sealed' || peer.phase === 'Closed'))
    return repeatLater(haul, at, emit);
  report(turn, haul);
  if (haul.final && haul.peers.every((peer) => peer.phase === 'Closed')) return forget(turn, haul);
  repeatLater(haul, at, emit);
}

function allPosted(haul: Haul, peer: HaulPeer): boolean {
  const target = targetSlot(haul, peer.grant!);
  return peer.postedTo.every((posted) => posted >= target);
}

function report(turn: Turn, haul: Haul): void {
  const { state, emit } = turn;
  if (haul.reported) return;
  haul.reported = true;
  const ok = haul.peers.every((peer) => peer.ok);
  emit({ kind: 'stop', timer: TIMER.haulDeadline, object: haul.transfer });
  emit({ kind: 'stop', timer: TIMER.haulDrain, object: haul.transfer });
  remember(state.ended, haul.transfer, ok, LIMITS.endedMax);
  if (haul.silent) return;
  const { request, transfer, blocks, tokenTo, lineageAddress } = haul;
  if (haul.operation === 'write') {
    state.sent.push(request);
    return;
  }
  (ok ? state.received : state.failed).push(request);
  if (ok)
    emit({ kind: 'note', note: { kind: 'loaded', request, transfer, blocks, tokenTo, lineageAddress } });
}

function forget(turn: Turn, haul: Haul): void {
  const { state, emit } = turn;
  emit({ kind: 'stop', timer: TIMER.haulRetry, object: haul.transfer });
  state.hauls.delete(haul.transfer);
}

/** What the session layer calls back. */
export const HAULS: SessionUser = {
  sessionReady(turn, session) {
    for (const haul of turn.state.hauls.values()) {
      for (const peer of haul.peers) if (peer.rank === session.peer) advance(turn, haul, peer);
      settleHaul(turn, haul);
    }
  },
  sessionFailed(turn, session) {
    for (const haul of turn.state.hauls.values()) {
      for (const peer of haul.peers) {
        // A waiting peer has posted nothing and may get its grant after the session is rebuilt.
        if (peer.rank === session.peer && peer.phase === 'Moving') stopPeer(turn, haul, peer);
      }
      settleHaul(turn, haul);
    }
  },
  runsEnded(turn, { haul, peer }, runs, ok) {
    peer.outstanding -= runs;
    // One that did not land spoils the peer's seal.
    if (!ok) stopPeer(turn, haul, peer);
    settleHaul(turn, haul);
  },
};

import { move } from '../../base/moves.ts';
import type { ActorId, TransferId } from '../../base/topology.ts';
import { planUnits } from '../../kv/plan.ts';
import type { Emit } from '../../wire/machine.ts';
import { refuse } from '../../wire/notes.ts';
import { goal } from './goals.ts';
import { LIMITS } from './limits.ts';
import { HAUL_MOVES, type HaulPhase } from './moves.ts';
import { dropQueued, enqueueRuns, leaveDoubted, needSession, outdate, type SessionUser } from './session.ts';
import { type Grant, type Haul, type HaulPeer, remember, type Session, type WorkerState } from './state.ts';
import { arm, TIMER } from './timers.ts';

/**
 * The initiator's half of a transfer: wait for grants, post what is ready, seal when nothing of ours can land any more.
 * The local blocks are safe to free exactly when every peer is Sealed: no operation is in flight and none will be posted.
 */

export function startHaul(state: WorkerState, haul: Haul, at: number, emit: Emit): void {
  state.hauls.set(haul.transfer, haul);
  arm(emit, TIMER.haulDeadline, haul.transfer, at + LIMITS.haulMicros);
  for (const peer of haul.peers) {
    if (peer.phase === 'Sealed') {
      goal(emit, 'idle-rank-released');
      sendSeal(state, haul, peer, emit);
    } else if (haul.operation === 'read') claim(state, haul, peer, emit);
  }
  repeatLater(haul, at, emit);
}

function claim(state: WorkerState, haul: Haul, peer: HaulPeer, emit: Emit): void {
  const tpSize = state.env.spec.ranks.length;
  emit({
    kind: 'send',
    to: peer.rank,
    message: { kind: 'peer', name: 'claim', transfer: haul.transfer, tpSize, attempt: peer.attempts },
  });
}

function sendSeal(state: WorkerState, haul: Haul, peer: HaulPeer, emit: Emit): void {
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
function seal(state: WorkerState, haul: Haul, peer: HaulPeer, emit: Emit): void {
  peer.attempts = 0;
  sendSeal(state, haul, peer, emit);
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

export function onHaulRetry(state: WorkerState, transfer: TransferId, at: number, emit: Emit): void {
  const haul = state.hauls.get(transfer);
  if (haul === undefined) return;
  haul.retrying = false;
  haul.rounds++;
  for (const peer of haul.peers) {
    if (peer.phase === 'Waiting' && haul.operation === 'read') {
      if (++peer.attempts >= LIMITS.claimAttemptsMax) stopPeer(state, haul, peer, emit);
      else claim(state, haul, peer, emit);
    } else if (peer.phase === 'Sealed') {
      // A target that never acknowledged will ask by a revoke, and be answered from the table of ended transfers.
      if (++peer.attempts >= LIMITS.sealAttemptsMax) move(HAUL_MOVES, peer, 'GaveUp');
      else {
        goal(emit, 'seal-repeated');
        sendSeal(state, haul, peer, emit);
      }
    }
  }
  settleHaul(state, haul, at, emit);
}

/** What was given up has not completed: a completion is lost. The queue pairs are reset, which ends every batch. */
export function onHaulDrain(state: WorkerState, transfer: TransferId, emit: Emit): void {
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

export function onHaulDeadline(state: WorkerState, transfer: TransferId, at: number, emit: Emit): void {
  const haul = state.hauls.get(transfer);
  if (haul !== undefined) stopHaul(state, haul, at, emit);
}

/** Stops every peer: nothing new is posted, what is in flight drains, then the peers are told. */
export function stopHaul(state: WorkerState, haul: Haul, at: number, emit: Emit): void {
  for (const peer of haul.peers) stopPeer(state, haul, peer, emit);
  settleHaul(state, haul, at, emit);
}

function stopPeer(state: WorkerState, haul: Haul, peer: HaulPeer, emit: Emit): void {
  if (peer.phase !== 'Waiting' && peer.phase !== 'Moving') return;
  if (peer.phase === 'Moving' && peer.outstanding > 0) goal(emit, 'abort-while-moving');
  move(HAUL_MOVES, peer, 'Stopped');
  peer.ok = false;
  dropQueued(state, peer);
  if (phaseOf(peer) === 'Draining' && peer.outstanding === 0) move(HAUL_MOVES, peer, 'Drained');
  if (phaseOf(peer) === 'Sealed') seal(state, haul, peer, emit);
}

/** Read through a call, so that the compiler does not hold on to what the phase was before a move. */
function phaseOf(peer: HaulPeer): HaulPhase {
  return peer.phase;
}

/** The peer of a transfer that a message came from; undefined, and the message refused, when it has no part in it. */
export function partOf(haul: Haul, rank: ActorId, kind: string, emit: Emit): HaulPeer | undefined {
  const peer = haul.peers.find((candidate) => candidate.rank === rank);
  if (peer === undefined)
    refuse(emit, `${kind} for transfer ${haul.transfer} from a rank that has no part in it`);
  return peer;
}

/** Applies a grant to a waiting peer; a repeated or stale one only gets its answer again. */
export function onGrant(
  state: WorkerState,
  haul: Haul,
  peer: HaulPeer,
  grant: Grant,
  at: number,
  emit: Emit,
): void {
  if (peer.phase === 'Sealed' || peer.phase === 'Closed') return sendSeal(state, haul, peer, emit);
  if (peer.phase !== 'Waiting') return;
  if (!covers(state, haul, grant)) {
    refuse(emit, `grant for transfer ${haul.transfer} does not cover its own token range`);
    stopPeer(state, haul, peer, emit);
    return settleHaul(state, haul, at, emit);
  }
  move(HAUL_MOVES, peer, 'Granted');
  peer.grant = grant;
  peer.postedTo.fill(Math.max(grant.slotFrom, haul.slotFrom));
  if (peer.postedTo.some((posted, layer) => haul.readyTo[layer]! > posted) && haul.operation === 'write') {
    goal(emit, 'write-deferred');
  }
  advance(state, haul, peer, at, emit);
  settleHaul(state, haul, at, emit);
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
export function advance(state: WorkerState, haul: Haul, peer: HaulPeer, at: number, emit: Emit): void {
  const grant = peer.grant;
  if (peer.phase !== 'Moving' || grant === null) return;
  const target = targetSlot(haul, grant);
  let session: Session | null = null;
  for (let layer = 0; layer < haul.readyTo.length; layer++) {
    const from = peer.postedTo[layer]!;
    const to = Math.min(haul.readyTo[layer]!, target);
    if (to <= from) continue;
    session ??= sessionFor(state, haul, peer, grant, at, emit);
    if (session === null || session.phase !== 'Ready') return;
    // Granted before a fence: the blocks may have a new owner.
    if (grant.epoch < session.epoch) return onMisfit(state, session, haul, peer, emit);
    postLayer(state, session, haul, peer, grant, layer, from, to, emit);
    if (phaseOf(peer) !== 'Moving') return;
  }
}

/**
 * The grant does not go with what the peer said of itself in the handshake. Either may be wrong; so the session is not kept
 * once nothing moves over it, and the next need asks anew.
 */
function onMisfit(state: WorkerState, session: Session, haul: Haul, peer: HaulPeer, emit: Emit): void {
  stopPeer(state, haul, peer, emit);
  session.doubted = true;
  leaveDoubted(state, session);
}

/**
 * A session of the grant's epoch or a later one; an older one is given up for a new handshake. Null when the peer's replies
 * never reach the epoch of its grant: then the grant is wrong.
 */
function sessionFor(
  state: WorkerState,
  haul: Haul,
  peer: HaulPeer,
  grant: Grant,
  at: number,
  emit: Emit,
): Session | null {
  const session = needSession(state, peer.rank, at, emit);
  if (session.phase !== 'Ready' || session.epoch >= grant.epoch) return session;
  if (peer.renewals === LIMITS.renewalsMax) {
    refuse(emit, `grant for transfer ${haul.transfer} of an epoch that its sender does not have`);
    stopPeer(state, haul, peer, emit);
    return null;
  }
  peer.renewals++;
  outdate(session);
  stopVoid(state, peer, at, emit);
  return needSession(state, peer.rank, at, emit);
}

/** Whatever else moved over an outdated session was granted before the fence and is void. */
function stopVoid(state: WorkerState, fresh: HaulPeer, at: number, emit: Emit): void {
  for (const haul of state.hauls.values()) {
    const stale = haul.peers.find(
      (peer) => peer.rank === fresh.rank && peer !== fresh && peer.phase === 'Moving',
    );
    if (stale === undefined) continue;
    stopPeer(state, haul, stale, emit);
    settleHaul(state, haul, at, emit);
  }
}

function postLayer(
  state: WorkerState,
  session: Session,
  haul: Haul,
  peer: HaulPeer,
  grant: Grant,
  layer: number,
  from: number,
  to: number,
  emit: Emit,
): void {
  const local = state.env.views[layer]!;
  const remote = session.views[layer]!;
  if (grant.blocks.some((block) => block < 0 || block >= remote.blockCount)) {
    refuse(emit, `grant for transfer ${haul.transfer} names a block outside the peer's cache`);
    return onMisfit(state, session, haul, peer, emit);
  }
  const runs: number[] = [];
  planUnits(
    { layer: local, blocks: haul.blocks, firstUnit: 0 },
    { layer: remote, blocks: grant.blocks, firstUnit: grant.firstSlot },
    from,
    to,
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
  enqueueRuns(state, session, { haul, peer, layer, runs, localBlocks, remoteBlocks, next: 0 }, emit);
}

/** Runs of a peer ended; `ok` false poisons the peer's seal. */
export function onRunsEnded(
  state: WorkerState,
  haul: Haul,
  peer: HaulPeer,
  runs: number,
  ok: boolean,
  at: number,
  emit: Emit,
): void {
  peer.outstanding -= runs;
  if (!ok) stopPeer(state, haul, peer, emit);
  settleHaul(state, haul, at, emit);
}

/** Closes what can be closed: landed peers seal, drained peers seal, a sealed haul reports, a closed one is forgotten. */
export function settleHaul(state: WorkerState, haul: Haul, at: number, emit: Emit): void {
  for (const peer of haul.peers) {
    if (peer.outstanding > 0) continue;
    const sealed =
      (peer.phase === 'Moving' && allPosted(haul, peer) && move(HAUL_MOVES, peer, 'AllLanded')) ||
      (peer.phase === 'Draining' && move(HAUL_MOVES, peer, 'Drained'));
    if (sealed) seal(state, haul, peer, emit);
  }
  drainInTime(haul, at, emit);
  if (!haul.peers.every((peer) => peer.phase === 'Sealed' || peer.phase === 'Closed'))
    return repeatLater(haul, at, emit);
  report(state, haul, emit);
  if (haul.final && haul.peers.every((peer) => peer.phase === 'Closed')) return forget(state, haul, emit);
  repeatLater(haul, at, emit);
}

function allPosted(haul: Haul, peer: HaulPeer): boolean {
  const target = targetSlot(haul, peer.grant!);
  return peer.postedTo.every((posted) => posted >= target);
}

function report(state: WorkerState, haul: Haul, emit: Emit): void {
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

function forget(state: WorkerState, haul: Haul, emit: Emit): void {
  emit({ kind: 'stop', timer: TIMER.haulRetry, object: haul.transfer });
  state.hauls.delete(haul.transfer);
}

/** What the session layer calls back. */
export function sessionUser(state: WorkerState): SessionUser {
  return {
    sessionReady(session, at, emit) {
      for (const haul of state.hauls.values()) {
        for (const peer of haul.peers) if (peer.rank === session.peer) advance(state, haul, peer, at, emit);
        settleHaul(state, haul, at, emit);
      }
    },
    sessionFailed(session, at, emit) {
      for (const haul of state.hauls.values()) {
        for (const peer of haul.peers) {
          // A waiting peer has posted nothing and may get its grant after the session is rebuilt.
          if (peer.rank === session.peer && peer.phase === 'Moving') stopPeer(state, haul, peer, emit);
        }
        settleHaul(state, haul, at, emit);
      }
    },
    runsEnded({ haul, peer }, runs, ok, at, emit) {
      onRunsEnded(state, haul, peer, runs, ok, at, emit);
    },
  };
}

import { move } from '../../base/moves.ts';
import { type ActorId, PROXY } from '../../base/topology.ts';
import { StatusCode } from '../../io/codes.ts';
import type { Emit } from '../../wire/machine.ts';
import { refuse } from '../../wire/notes.ts';
import { goal } from './goals.ts';
import { LIMITS } from './limits.ts';
import type { ShippedMessage } from './messages.ts';
import { SESSION_MOVES } from './moves.ts';
import { refuseReply } from './reply.ts';
import {
  epochOf,
  type QueuedRuns,
  type Session,
  type SessionQueuePair,
  type Turn,
  type WorkerState,
} from './state.ts';
import { arm, TIMER } from './timers.ts';

/** The session with a peer, asked for if there is none. All transfers that need the peer share one handshake. */
export function needSession(turn: Turn, peer: ActorId): Session {
  const { state, at, emit } = turn;
  let session = state.sessions.get(peer);
  if (session === undefined) {
    session = { peer, phase: 'Idle', attempt: 0, epoch: 0, doubted: false, views: [], queuePairs: [] };
    state.sessions.set(peer, session);
  }
  if (session.phase === 'Asking') goal(emit, 'handshake-shared');
  if (session.phase === 'Broken') {
    goal(emit, 'queue-pair-rebuilt');
    // In-flight batches of the broken queue pairs still point at the old object and flush there.
    session = { ...session, doubted: false, queuePairs: [] };
    state.sessions.set(peer, session);
  }
  if (move(SESSION_MOVES, session, 'Needed')) {
    session.attempt = 0;
    ask(session, at, emit);
  }
  return session;
}

function ask(session: Session, at: number, emit: Emit): void {
  const message: ShippedMessage = { kind: 'peer', name: 'metaRequest', attempt: session.attempt };
  emit({ kind: 'send', to: session.peer, message });
  arm(emit, TIMER.handshake, session.peer, at + LIMITS.retryMicros * 2 ** session.attempt);
}

export function onHandshakeTimer(turn: Turn, peer: ActorId): void {
  const { state, at, emit, user } = turn;
  const session = state.sessions.get(peer);
  if (session === undefined || session.phase !== 'Asking') return;
  session.attempt++;
  if (session.attempt < LIMITS.handshakeAttemptsMax) {
    goal(emit, 'handshake-retried');
    return ask(session, at, emit);
  }
  move(SESSION_MOVES, session, 'TimedOut');
  user.sessionFailed(turn, session);
}

/** What this rank says of itself to a peer in a handshake: its engine's descriptors for that peer, and its geometry. */
export function describe(state: WorkerState, peer: ActorId, attempt: number): ShippedMessage {
  const { env } = state;
  const { engine, role, ranks } = env.spec;
  state.geometry ??= {
    engine,
    role,
    tpRank: env.tpRank,
    tpSize: ranks.length,
    blockTokens: env.blockTokens,
    views: env.views,
  };
  const { geometry } = state;
  const said = { attempt, epoch: epochOf(state, peer), geometry, ...env.describe(peer) };
  return { kind: 'peer', name: 'metaReply', ...said };
}

export function onMetaReply(turn: Turn, from: ActorId, message: ShippedMessage<'metaReply'>): void {
  const { state, at, emit, user } = turn;
  const session = state.sessions.get(from);
  if (session === undefined || session.phase !== 'Asking') return;
  if (message.attempt > session.attempt)
    return refuse(emit, 'handshake-reply-not-asked', { attempt: message.attempt });
  const refusal = refuseReply(state.env, from, message);
  if (refusal !== null) {
    refuse(emit, refusal.reason, refusal.fields);
    emit({ kind: 'stop', timer: TIMER.handshake, object: from });
    move(SESSION_MOVES, session, 'TimedOut');
    return user.sessionFailed(turn, session);
  }
  move(SESSION_MOVES, session, 'Described');
  emit({ kind: 'stop', timer: TIMER.handshake, object: from });
  const { queuePairs, sendQueueDepth } = state.env;
  session.epoch = message.epoch;
  const { engineDesc, memoryDesc } = message;
  emit({ kind: 'connect', peer: from, engineDesc, memoryDesc });
  session.views = message.geometry.views;
  session.queuePairs = Array.from(
    { length: queuePairs },
    (): SessionQueuePair => ({ credit: sendQueueDepth, queue: [] }),
  );
  user.sessionReady(turn, session);
}

/** The peer has fenced this session's queue pairs: what they carry ends with errors, and the next need asks anew. */
export function outdate(session: Session): void {
  move(SESSION_MOVES, session, 'Failed');
}

/** Gives a doubted session up once nothing of ours is on its queue pairs or waits for them. */
export function leaveDoubted(state: WorkerState, session: Session): void {
  if (!session.doubted || session.queuePairs.some(({ queue }) => queue.length > 0)) return;
  for (const flight of state.inFlight.values()) if (flight.session === session) return;
  outdate(session);
}

/** Hands runs to the session; they are posted as send-queue credit allows, in order within a queue pair. */
export function enqueueRuns(turn: Turn, session: Session, queued: QueuedRuns): void {
  const index = queued.layer % session.queuePairs.length;
  session.queuePairs[index]!.queue.push(queued);
  queued.peer.outstanding += queued.runs.length / 3;
  pump(turn, session, index);
}

/** Posts what fits. A full queue is back-pressure: the rest goes on from the first run that was not posted. */
function pump(turn: Turn, session: Session, index: number): void {
  const { state, emit } = turn;
  const queuePair = session.queuePairs[index]!;
  while (queuePair.queue.length > 0) {
    if (queuePair.credit === 0) return goal(emit, 'send-queue-full');
    const head = queuePair.queue[0]!;
    const count = Math.min(queuePair.credit, head.runs.length / 3 - head.next);
    const runs =
      head.next === 0 && count * 3 === head.runs.length
        ? head.runs
        : head.runs.slice(head.next * 3, (head.next + count) * 3);
    head.next += count;
    if (head.next * 3 === head.runs.length) queuePair.queue.shift();
    queuePair.credit -= count;
    const tag = state.nextTag++;
    const { haul, peer, layer, localBlocks, remoteBlocks } = head;
    state.inFlight.set(tag, { session, queuePair: index, runs: count, haul, peer });
    emit({
      kind: 'post',
      batch: {
        tag,
        peer: peer.rank,
        queuePair: index,
        operation: haul.operation,
        transfer: haul.transfer,
        request: haul.request,
        layer,
        part: peer.parts++,
        runs,
        localBlocks,
        remoteBlocks,
      },
    });
  }
}

/** Takes back what was queued for a peer and never posted. */
export function dropQueued(state: WorkerState, peer: QueuedRuns['peer']): void {
  const session = state.sessions.get(peer.rank);
  if (session === undefined) return;
  for (const queuePair of session.queuePairs) {
    if (queuePair.queue.length === 0) continue;
    queuePair.queue = queuePair.queue.filter((queued) => {
      if (queued.peer !== peer) return true;
      peer.outstanding -= queued.runs.length / 3 - queued.next;
      return false;
    });
  }
}

export function onCompletion(turn: Turn, tag: number, code: number): void {
  const { state, at, emit, user } = turn;
  const flight = state.inFlight.get(tag);
  if (flight === undefined) return refuse(emit, 'completion-of-unknown-batch', { tag });
  state.inFlight.delete(tag);
  const { session, queuePair, runs, haul, peer } = flight;
  session.queuePairs[queuePair]!.credit += runs;
  const ok = code === StatusCode.SUCCESS;
  const failedNow = !ok && move(SESSION_MOVES, session, 'Failed');
  user.runsEnded(turn, { haul, peer }, runs, ok);
  if (failedNow) user.sessionFailed(turn, session);
  else if (session.phase === 'Ready') pump(turn, session, queuePair);
  leaveDoubted(state, session);
}

/** Whether an actor can be a peer rank of this one at all: of an engine with the other role. */
export function isPeerRank(state: WorkerState, actor: ActorId): boolean {
  const spec = state.env.topology.actors[actor];
  if (actor === PROXY || spec === undefined || spec.tpRank < 0) return false;
  return state.env.topology.engines[spec.engine]!.role !== state.env.spec.role;
}

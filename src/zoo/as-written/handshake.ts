import { pushAll } from '../../base/lists.ts';
import type { ActorId, EngineId, EngineSpec } from '../../base/topology.ts';
import type { BytesMessage } from '../../wire/messages.ts';
import { assigned } from './faults.ts';
import { goal } from './goals.ts';
import { enginesOf, peersAt, remoteName, remoteOf } from './sessions.ts';
import { log, nameOf, type RemoteId, type WorkerState } from './state.ts';
import { acquire, type Routine, raise, release } from './threads.ts';
import { engineReplyBytes, memoryReplyBytes, metaRequestBytes, readReplies } from './wire.ts';
import { queueWrite } from './writer.ts';

/** The handshake: a listener that answers, an executor that asks, and the start of one from the main thread. */

const BASE_PORT = 6301;

/** A remote instance as the initiator must know it: whom to ask, and how many ranks of each kind there are. */
interface RemoteSizes {
  readonly host: string;
  readonly firstPort: number;
  readonly dpSize: number;
  readonly tpSize: number;
}

// --- the listener -------------------------------------------------------------------------------------------------

export function* handshakeListener(state: WorkerState): Routine {
  for (;;) {
    const asker = state.metaRequests.shift();
    if (asker === undefined) {
      yield state.metaRequested;
      continue;
    }
    for (const message of describeSelf(state, asker)) state.emit({ kind: 'send', to: asker, message });
  }
}

function describeSelf({ env, views }: WorkerState, asker: ActorId): BytesMessage[] {
  const { engineDesc, memoryDesc } = env.describe(asker);
  const name = env.topology.actors[env.self]!.name;
  return [engineReplyBytes(name, engineDesc, views), memoryReplyBytes(memoryDesc, views.length)];
}

// --- the executor -------------------------------------------------------------------------------------------------

export function* handshakeExecutor(state: WorkerState): Routine {
  for (;;) {
    const job = state.jobs.shift();
    if (job === undefined) yield state.jobQueued;
    else yield* job();
  }
}

/** Asks the ranks of one DP rank, one after the other, and registers the engine. */
function* askEngine(state: WorkerState, engine: EngineSpec): Routine {
  for (const peer of peersAt(state, engine)) {
    state.asking = peer;
    state.emit({ kind: 'send', to: peer, message: metaRequestBytes() });
    while (state.replies.length < 2) yield state.replied;
    const [first, second] = state.replies.splice(0, 2);
    state.peers.set(peer, readReplies(first!.bytes, second!.bytes));
  }
  state.asking = -1;
  yield* acquire(state.handshakeLock, 'handshake executor');
  state.registered.add(engine.engine);
  release(state.handshakeLock, state.emit);
}

/** Runs after the last DP rank's job: the remote is ready, and the tasks that waited for it are queued. */
function* endHandshake(state: WorkerState, remote: RemoteId): Routine {
  yield* acquire(state.handshakeLock, 'handshake executor');
  state.futures.delete(remote);
  pushAll(state.readyTasks, state.waitingTasks.get(remote) ?? []);
  state.waitingTasks.delete(remote);
  state.readyFlags.add(remote);
  log(state, 'remote-ready', { remote: remoteName(state, remote), tasksReleased: state.readyTasks.length });
  release(state.handshakeLock, state.emit);
  raise(state.handshakeEnded, state.emit);
  for (;;) {
    const task = state.readyTasks.shift();
    if (task === undefined) return;
    yield* queueWrite(state, task, 'handshake executor');
  }
}

// --- the start, from the main thread ------------------------------------------------------------------------------

/**
 * Starts the handshake with a remote unless one runs. The caller holds the handshake lock.
 *
 * F2: the remote's sizes are looked up only if no handshake runs, and used in either case.
 */
export function backgroundHandshake(state: WorkerState, remote: RemoteId): void {
  const isRunning = state.futures.has(remote);
  let sizes: RemoteSizes | undefined;
  if (!isRunning) sizes = sizesOf(state, remote);
  else noteShared(state, remote);
  if (isRunning && !state.faults.has('F2')) return;
  const { dpSize } = assigned(
    sizes,
    'main (background handshake)',
    `background handshake with ${remoteName(state, remote)}, which runs already: dpSize`,
  );
  const engines = enginesOf(state, remote);
  for (let dpRank = 0; dpRank < dpSize; dpRank++) state.jobs.push(() => askEngine(state, engines[dpRank]!));
  state.jobs.push(() => endHandshake(state, remote));
  state.futures.add(remote);
  raise(state.jobQueued, state.emit);
}

function noteShared(state: WorkerState, remote: RemoteId): void {
  goal(state.emit, 'handshake-shared');
  log(state, 'handshake-runs-already', { remote: remoteName(state, remote) });
}

function sizesOf(state: WorkerState, remote: RemoteId): RemoteSizes {
  const [first] = enginesOf(state, remote);
  const { dpSize, ranks } = first!;
  return { host: remoteName(state, remote), firstPort: BASE_PORT + ranks[0]!, dpSize, tpSize: ranks.length };
}

/** READ, D: looks whether the engine is registered and, if not, sees to it that its handshake runs. */
export function* needHandshake(state: WorkerState, engine: EngineId): Routine {
  yield* acquire(state.handshakeLock, 'main');
  if (!state.registered.has(engine)) backgroundHandshake(state, remoteOf(state, engine));
  release(state.handshakeLock, state.emit);
}

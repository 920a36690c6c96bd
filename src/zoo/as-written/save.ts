import { backgroundHandshake } from './handshake.ts';
import { remoteName, remoteOf } from './sessions.ts';
import { log, type RemoteId, type SaveOrder, type WorkerState } from './state.ts';
import { acquire, type Routine, release, TURN } from './threads.ts';
import { queueWrite } from './writer.ts';

/** WRITE, P, main thread: the save call of one layer, within the forward pass. */

/**
 * Queues a write task for each request of the step, or leaves it with the handshake that must come first, and then waits
 * until the last remote is ready.
 *
 * F7: with no request to save there is no remote, and the wait has no end.
 */
export function* saveLayer(state: WorkerState, layer: number): Routine {
  let remote: RemoteId | undefined;
  for (const save of state.saves) {
    remote = remoteOf(state, save.remoteEngine);
    yield* saveRequest(state, save, layer, remote);
  }
  if (remote === undefined && !state.faults.has('F7')) return;
  yield* waitForReady(state, remote);
}

function* saveRequest(state: WorkerState, save: SaveOrder, layer: number, remote: RemoteId): Routine {
  yield* acquire(state.handshakeLock, 'main');
  const isRegistered = state.registered.has(save.remoteEngine);
  if (!isRegistered) {
    const waiting = state.waitingTasks.get(remote) ?? [];
    waiting.push({ save, layer });
    state.waitingTasks.set(remote, waiting);
    backgroundHandshake(state, remote);
  }
  release(state.handshakeLock, state.emit);
  if (isRegistered) yield* queueWrite(state, { save, layer }, 'main');
}

/**
 * The forward pass stands still meanwhile. The first connector polls in either case; a wait that ends is as well told
 * by an event, and only the one that cannot end is seen polling.
 */
function* waitForReady(state: WorkerState, remote: RemoteId | undefined): Routine {
  const isReady = (): boolean => remote !== undefined && state.readyFlags.has(remote);
  while (!isReady() && state.readyTasks.length === 0) {
    if (remote === undefined) yield* pollUnset(state);
    else yield* waitForEvent(state, remote);
  }
  state.mainWaits = null;
}

function* waitForEvent(state: WorkerState, remote: RemoteId): Routine {
  state.mainWaits = {
    ...{ what: 'ready-flag', fields: { remote: remoteName(state, remote) } },
    whom: state.asking,
  };
  yield state.handshakeEnded;
}

function* pollUnset(state: WorkerState): Routine {
  if (state.mainWaits === null) {
    log(state, 'remote-stays-unset', {});
  }
  state.mainWaits = { what: 'ready-flag-of-unset-remote', fields: {}, whom: -1 };
  const waitsFor = 'ready-flag-of-unset-remote';
  state.emit({ kind: 'note', note: { kind: 'spin', thread: 'main (save call)', waitsFor } });
  yield TURN;
}

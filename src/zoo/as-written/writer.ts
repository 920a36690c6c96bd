import type { ActorId, EngineSpec, TransferId } from '../../base/topology.ts';
import { planUnits } from '../../kv/plan.ts';
import { goal } from './goals.ts';
import { markSent } from './notify.ts';
import { peersAt, post } from './sessions.ts';
import { log, type SaveOrder, THREAD, type WorkerState, type WriteTask } from './state.ts';
import { acquire, type Routine, raise, release, spawn, TURN } from './threads.ts';
import { completionBytes } from './wire.ts';

/** WRITE, P: the queue of write tasks and the worker that takes them from it. */

/** Any thread: hands a task to the write worker, which is started on first use. */
export function* queueWrite(state: WorkerState, task: WriteTask, caller: string): Routine {
  yield* startWriteWorker(state, caller);
  state.tasks.push(task);
  raise(state.workArrived, state.emit);
}

/** F6: test and set of the flag are outside the lock, so that a second caller may pass between them. */
function* startWriteWorker(state: WorkerState, caller: string): Routine {
  const isLocked = !state.faults.has('F6');
  if (isLocked) yield* acquire(state.startLock, caller);
  const wasStarted = state.workerStarted;
  if (!wasStarted) {
    yield TURN;
    state.workerStarted = true;
    spawnWriteWorker(state, caller);
  }
  if (isLocked) release(state.startLock, state.emit);
}

function spawnWriteWorker(state: WorkerState, caller: string): void {
  const ordinal = ++state.writeWorkers;
  const name = `write worker ${ordinal}`;
  log(state, 'starts-write-worker', { thread: caller, worker: ordinal, running: ordinal - 1 });
  spawn(state.threads, THREAD.firstWriter + ordinal - 1, name, writeWorker(state, name), state.emit);
}

function* writeWorker(state: WorkerState, name: string): Routine {
  for (;;) {
    yield* retryDeferred(state, name);
    const task = state.tasks.shift();
    if (task !== undefined) yield* takeTask(state, task, name);
    else if (!state.deferred.some((deferred) => knowsRemote(state, deferred))) yield state.workArrived;
  }
}

function knowsRemote(state: WorkerState, task: WriteTask): boolean {
  return state.remoteBlocks.has(task.save.transfer);
}

function* takeTask(state: WorkerState, task: WriteTask, name: string): Routine {
  if (knowsRemote(state, task)) return yield* write(state, task, name);
  goal(state.emit, 'write-deferred');
  state.deferred.push(task);
}

/** Goes through the deferred tasks and then replaces their list, in good faith that no other worker does. */
function* retryDeferred(state: WorkerState, name: string): Routine {
  if (state.deferred.length === 0) return;
  const seen = state.deferred;
  const still: WriteTask[] = [];
  for (const task of seen) {
    if (knowsRemote(state, task)) yield* write(state, task, name);
    else still.push(task);
  }
  yield TURN;
  const lost = state.deferred.filter((task) => !seen.includes(task) && !still.includes(task));
  if (lost.length > 0)
    log(state, 'loses-deferred-tasks', {
      thread: name,
      transfers: lost.map(({ save }) => save.transfer),
      layers: lost.map(({ layer }) => layer),
    });
  state.deferred = still;
}

/** Writes one layer of one request; the task that counts the last layer ends the transfer. */
function* write(state: WorkerState, task: WriteTask, name: string): Routine {
  const { save } = task;
  const { transfer } = save;
  const { blocks, decodeRank } = state.remoteBlocks.get(transfer)!;
  const engine = decodeEngine(state, save, decodeRank);
  const targets = peersAt(state, engine);
  // The device's event: the layer is computed when it has passed.
  yield TURN;
  for (const target of targets) postLayer(state, task, target, blocks);
  const counted = state.layersDone.get(transfer) ?? 0;
  yield TURN;
  const now = state.layersDone.get(transfer) ?? 0;
  if (now !== counted) log(state, 'loses-layer-count', { thread: name, transfer, read: counted, now });
  state.layersDone.set(transfer, counted + 1);
  if (counted + 1 === state.views.length) yield* endTransfer(state, save, targets, name);
}

/** P knows D by its instance and DP rank. */
function decodeEngine(state: WorkerState, save: SaveOrder, decodeRank: number): EngineSpec {
  const { engines } = state.env.topology;
  const { instance } = engines[save.remoteEngine]!;
  return engines.find(
    (engine) => engine.role === 'decode' && engine.instance === instance && engine.dpRank === decodeRank,
  )!;
}

function postLayer(
  state: WorkerState,
  { save, layer }: WriteTask,
  peer: ActorId,
  remoteBlocks: readonly number[],
): void {
  const runs: number[] = [];
  const local = state.views[layer]!;
  const remote = state.peers.get(peer)!.views[layer]!;
  planUnits(
    { layer: local, blocks: save.blocks, firstUnit: 0 },
    { layer: remote, blocks: remoteBlocks, firstUnit: 0 },
    { from: 0, to: save.tokens },
    runs,
  );
  const blockCount = Math.ceil(save.tokens / local.blockUnits);
  const { transfer, request } = save;
  const tag = post(state, {
    peer,
    operation: 'write',
    transfer,
    request,
    layer,
    runs,
    localBlocks: save.blocks.slice(0, blockCount),
    remoteBlocks: remoteBlocks.slice(0, blockCount),
  });
  const statuses = state.statuses.get(transfer) ?? [];
  const isRepeated = statuses.some((earlier) => earlier.layer === layer && earlier.peer === peer);
  if (isRepeated) log(state, 'layer-written-again', { layer, transfer });
  statuses.push({ tag, layer, peer });
  state.statuses.set(transfer, statuses);
}

/** Waits for the statuses of everything that was posted for the transfer, then tells both sides. */
function* endTransfer(
  state: WorkerState,
  { transfer, request }: SaveOrder,
  targets: readonly ActorId[],
  name: string,
): Routine {
  for (const { tag } of state.statuses.get(transfer) ?? []) {
    while (state.inFlight.has(tag)) yield state.batchEnded;
  }
  log(state, 'all-layers-counted', { thread: name, transfer, layers: state.views.length });
  forgetTransfer(state, transfer);
  for (const target of targets) state.emit({ kind: 'send', to: target, message: completionBytes(transfer) });
  markSent(state, request);
}

function forgetTransfer(state: WorkerState, transfer: TransferId): void {
  state.statuses.delete(transfer);
  state.layersDone.delete(transfer);
  state.remoteBlocks.delete(transfer);
}

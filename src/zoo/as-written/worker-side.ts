import type { ActorId } from '../../base/topology.ts';
import type { ConnectorWorker, Finished, Progress, WorkerEnv } from '../../connector/plug.ts';
import { StatusCode } from '../../io/codes.ts';
import type { Emit, Input } from '../../wire/machine.ts';
import { type BytesMessage, nameOfMessage } from '../../wire/messages.ts';
import { refuse } from '../../wire/notes.ts';
import type { FaultSet } from './faults.ts';
import { goal } from './goals.ts';
import { handshakeExecutor, handshakeListener } from './handshake.ts';
import { awaitWrites, readAll } from './load.ts';
import { notifyListener } from './notify.ts';
import { recordLayers } from './register.ts';
import { saveLayer } from './save.ts';
import { onBatchEnded } from './sessions.ts';
import { censusOf, createState, type StepMeta, THREAD, type WorkerState } from './state.ts';
import { addThread, callHook, isInHook, raise, takeTurn } from './threads.ts';
import { waitsOf } from './waits.ts';
import { isMetaRequest } from './wire.ts';

/** The worker side of the first connector: one rank's process with its threads. */
export function createAsWrittenWorker(env: WorkerEnv, faults: FaultSet): ConnectorWorker {
  const state = createState(env, recordLayers(env.views, faults), faults);
  startThreads(state);
  return {
    startLoadKv: (meta, _at, emit) => startLoadKv(state, meta as StepMeta | null, emit),
    waitForLayerLoad: () => 'done',
    saveKvLayer: (layer, _at, emit) => saveKvLayer(state, layer, emit),
    waitForSave: () => 'done',
    getFinished: () => takeFinished(state),
    step: (_at, input, emit) => step(state, input, emit),
    census: () => censusOf(state),
    waits: () => waitsOf(state),
  };
}

function startThreads(state: WorkerState): void {
  const { threads } = state;
  addThread(threads, THREAD.listener, 'handshake listener', handshakeListener(state), state.metaRequested);
  addThread(threads, THREAD.executor, 'handshake executor', handshakeExecutor(state), state.jobQueued);
  addThread(threads, THREAD.notify, 'notify listener', notifyListener(state), state.notified);
}

function startLoadKv(state: WorkerState, meta: StepMeta | null, emit: Emit): Progress {
  state.emit = emit;
  state.saves = meta?.saves ?? [];
  const loads = meta?.loads ?? [];
  if (loads.length === 0) return 'done';
  if (state.env.mode === 'read') return callHook(state.threads, () => readAll(state, loads), emit);
  awaitWrites(state, loads);
  return 'done';
}

/** READ saves nothing, and in WRITE only P does. */
function saveKvLayer(state: WorkerState, layer: number, emit: Emit): Progress {
  const { mode, spec } = state.env;
  if (mode === 'read' || spec.role === 'decode') return 'done';
  state.emit = emit;
  if (layer === 0 && state.saves.length === 0 && !isInHook(state.threads)) goal(emit, 'empty-save-step');
  return callHook(state.threads, () => saveLayer(state, layer), emit);
}

function takeFinished(state: WorkerState): Finished | null {
  const { sent, received } = state;
  if (sent.length + received.length === 0) return null;
  state.sent = [];
  state.received = [];
  return { sent, received, failed: [] };
}

function step(state: WorkerState, input: Input, emit: Emit): void {
  state.emit = emit;
  if (input.kind === 'turn') takeTurn(state.threads, input.thread, emit);
  if (input.kind === 'completion') onBatchEnded(state, input.tag, input.code === StatusCode.SUCCESS);
  if (input.kind !== 'message') return;
  const { message } = input;
  if (message.kind === 'bytes') onBytes(state, input.from, message);
  else refuse(emit, 'not-for-this-socket', { message: nameOfMessage(message) });
}

/** Lays what a socket has received before the thread that reads it. */
function onBytes(state: WorkerState, from: ActorId, { port, bytes }: BytesMessage): void {
  if (port === 'notify') {
    state.notifications.push({ from, bytes });
    raise(state.notified, state.emit);
  } else if (isMetaRequest(bytes)) {
    state.metaRequests.push(from);
    raise(state.metaRequested, state.emit);
  } else {
    state.replies.push({ from, bytes });
    raise(state.replied, state.emit);
  }
}

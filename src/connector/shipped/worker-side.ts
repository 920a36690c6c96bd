import type { Emit, Input, Wait } from '../../wire/machine.ts';
import type { ConnectorWorker, Finished, WorkerEnv } from '../plug.ts';
import { forgetEarly } from './early.ts';
import { onHaulDeadline, onHaulDrain, onHaulRetry, sessionUser } from './haul.ts';
import { onLeaseDeadline, onLeaseRetry } from './lease.ts';
import { saveKvLayer, startLoadKv } from './orders.ts';
import { onMessage } from './peer-messages.ts';
import { onCompletion, onHandshakeTimer, type SessionUser } from './session.ts';
import { createWorkerState, type ShippedMeta, type WorkerState } from './state.ts';
import { TIMER } from './timers.ts';
import { waitsOf } from './waits.ts';

/** The worker side of the shipped connector: one rank, both modes, either half of a transfer. */
export function createShippedWorker(env: WorkerEnv): ConnectorWorker {
  const state = createWorkerState(env);
  const user = sessionUser(state);
  return {
    startLoadKv: (meta, at, emit) => startLoadKv(state, meta as ShippedMeta | null, at, emit),
    // Loads are waited for between steps, by the scheduler, so that no rank ever waits for a peer inside a step.
    waitForLayerLoad: () => 'done',
    saveKvLayer: (layer, at, emit) => saveKvLayer(state, layer, at, emit),
    waitForSave: () => 'done',
    getFinished: () => takeFinished(state),
    step: (at, input, emit) => step(state, user, at, input, emit),
    census: () => state.hauls.size + state.leases.size + state.early.size + state.inFlight.size,
    waits: (): Wait[] => waitsOf(state),
  };
}

function takeFinished(state: WorkerState): Finished | null {
  if (state.sent.length + state.received.length + state.failed.length === 0) return null;
  const { sent, received, failed } = state;
  state.sent = [];
  state.received = [];
  state.failed = [];
  return { sent, received, failed };
}

function step(state: WorkerState, user: SessionUser, at: number, input: Input, emit: Emit): void {
  switch (input.kind) {
    case 'message':
      return onMessage(state, user, input.from, input.message, at, emit);
    case 'timer':
      return onTimer(state, user, input.timer, input.object, at, emit);
    case 'completion':
      return onCompletion(state, input.tag, input.code, user, at, emit);
    default:
      return;
  }
}

function onTimer(
  state: WorkerState,
  user: SessionUser,
  timer: number,
  object: number,
  at: number,
  emit: Emit,
): void {
  if (timer === TIMER.haulRetry) return onHaulRetry(state, object, at, emit);
  if (timer === TIMER.haulDrain) return onHaulDrain(state, object, emit);
  if (timer === TIMER.haulDeadline) return onHaulDeadline(state, object, at, emit);
  if (timer === TIMER.leaseRetry) return onLeaseRetry(state, object, at, emit);
  if (timer === TIMER.leaseDeadline) return onLeaseDeadline(state, object, at, emit);
  if (timer === TIMER.handshake) return onHandshakeTimer(state, object, user, at, emit);
  if (timer === TIMER.early) forgetEarly(state, object);
}

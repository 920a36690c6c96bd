import type { Input, Wait } from '../../wire/machine.ts';
import type { ConnectorWorker, Finished, WorkerEnv } from '../plug.ts';
import { forgetEarly } from './early.ts';
import { HAULS, onHaulDeadline, onHaulDrain, onHaulRetry } from './haul.ts';
import { onLeaseDeadline, onLeaseRetry } from './lease.ts';
import { saveKvLayer, startLoadKv } from './orders.ts';
import { onMessage } from './peer-messages.ts';
import { onCompletion, onHandshakeTimer } from './session.ts';
import { createWorkerState, type ShippedMeta, type Turn, type WorkerState } from './state.ts';
import { TIMER } from './timers.ts';
import { waitsOf } from './waits.ts';

/** The worker side of the shipped connector: one rank, both modes, either half of a transfer. */
export function createShippedWorker(env: WorkerEnv): ConnectorWorker {
  const state = createWorkerState(env);
  return {
    startLoadKv: (meta, at, emit) =>
      startLoadKv({ state, user: HAULS, at, emit }, meta as ShippedMeta | null),
    // Loads are waited for between steps, by the scheduler, so that no rank ever waits for a peer inside a step.
    waitForLayerLoad: () => 'done',
    saveKvLayer: (layer, at, emit) => saveKvLayer({ state, user: HAULS, at, emit }, layer),
    waitForSave: () => 'done',
    getFinished: () => takeFinished(state),
    step: (at, input, emit) => step({ state, user: HAULS, at, emit }, input),
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

function step(turn: Turn, input: Input): void {
  switch (input.kind) {
    case 'message':
      return onMessage(turn, input.from, input.message);
    case 'timer':
      return onTimer(turn, input.timer, input.object);
    case 'completion':
      return onCompletion(turn, input.tag, input.code);
    default:
      return;
  }
}

function onTimer(turn: Turn, timer: number, object: number): void {
  if (timer === TIMER.haulRetry) return onHaulRetry(turn, object);
  if (timer === TIMER.haulDrain) return onHaulDrain(turn, object);
  if (timer === TIMER.haulDeadline) return onHaulDeadline(turn, object);
  if (timer === TIMER.leaseRetry) return onLeaseRetry(turn, object);
  if (timer === TIMER.leaseDeadline) return onLeaseDeadline(turn, object);
  if (timer === TIMER.handshake) return onHandshakeTimer(turn, object);
  if (timer === TIMER.early) forgetEarly(turn.state, object);
}

import type { ControlMessage } from '../control-frames.ts';
import { expire } from './calls.ts';
import { completeWork } from './complete.ts';
import { frameAnswered, frameFailed, messageAnswered, serveFrame, serveMessage } from './control-plane.ts';
import type { WorkCompletion } from './host.ts';
import { startRepair } from './repair.ts';
import type { IOEngine } from './state.ts';

/** What the machine tells an engine: time, completions, timers, control messages. Nothing else happens to it. */

/** Input: the time goes on, in microseconds; every call and every other input happens at the last time told. */
export function atTime(engine: IOEngine, atMicros: number): void {
  engine.nowMicros = atMicros;
}

/** Input: one entry of a completion queue (A11). */
export function complete(engine: IOEngine, completion: WorkCompletion): void {
  if (engine.rdma !== null && engine.ended === null) completeWork(engine, engine.rdma, completion);
}

/**
 * Input: an asynchronous event of a queue pair. The library logs it (A11); the sound engine takes the queue pair of an
 * overflowed completion queue down, since no completion of it will be seen.
 */
export function asyncEvent(engine: IOEngine, qpn: number, event: 'CQ_ERR'): void {
  engine.host.log('error', `asynchronous event ${event} of queue pair ${qpn}`);
  const endpoint = engine.rdma?.byQpn.get(qpn);
  if (endpoint === undefined || engine.ended !== null || engine.quirks.brokenForGood) return;
  if (endpoint.health === 'up') startRepair(engine, engine.rdma!, endpoint);
}

/** Input: a timer that the engine armed, at its time in microseconds (A8). */
export function timerFired(engine: IOEngine, timer: number, atMicros: number): void {
  engine.nowMicros = atMicros;
  const waiter = engine.rdma?.waiters.get(timer);
  if (waiter !== undefined) expire(engine, engine.rdma!, waiter);
}

/** Input: a peer's control frame. @returns the answer, or null for a connection that closes without one (A13) */
export function serve(engine: IOEngine, frame: Uint8Array): Uint8Array | null {
  return engine.rdma === null || engine.ended !== null ? null : serveFrame(engine, engine.rdma, frame);
}

/** Input: a peer's control message, within the process. @returns the answer, or null for none (A13) */
export function serveInProcess(engine: IOEngine, message: ControlMessage): ControlMessage | null {
  return engine.rdma === null || engine.ended !== null ? null : serveMessage(engine, engine.rdma, message);
}

/** Input: the answer to a request of the engine's, within the process (A13). */
export function answeredInProcess(engine: IOEngine, exchange: number, message: ControlMessage): void {
  if (engine.rdma !== null) messageAnswered(engine, engine.rdma, exchange, message);
}

/** Input: the answer to a request of the engine's; one that cannot be read counts as none (A13). */
export function answered(engine: IOEngine, exchange: number, frame: Uint8Array): void {
  if (engine.rdma !== null) frameAnswered(engine, engine.rdma, exchange, frame);
}

/** Input: no answer came; `text` is what upstream's caller would catch, `connect(host:port): …` (A13). */
export function unanswered(engine: IOEngine, exchange: number, text: string): void {
  if (engine.rdma !== null) frameFailed(engine, engine.rdma, exchange, text);
}

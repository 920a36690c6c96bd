import { mix } from '../base/mix.ts';
import { landHead } from '../io/verbs-land.ts';
import type { Posted, VerbsSim } from '../io/verbs-sim.ts';
import type { Core } from './core.ts';
import { EVENT } from './event-queue.ts';
import { idOfName } from './key-names.ts';
import { CREDIT, type Flight, type Lane, sendKind } from './nic-flights.ts';
import { DRAW } from './tape.ts';

/** Work on its way over a queue pair: each post is a landing in the event queue, in order within the queue pair. */

/** Between the pieces of a torn write. */
const TORN_MICROS = 12;
/** The last post of a lane goes on its way. */
export function launch(core: Core, flight: Flight, { landAt }: Posted): void {
  const { lane } = flight;
  lane.flights.push(flight);
  const { kind, object } = keyOf(flight);
  const held = core.delay(DRAW.landDelay, core.keys.actors[lane.initiator]!, kind, object);
  lane.lastLandAt = Math.max(Math.ceil(landAt / 1000) + held, lane.lastLandAt);
  push(core, flight, lane.lastLandAt, held);
}

function push(core: Core, flight: Flight, at: number, held: number): void {
  core.push(EVENT.land, flight.lane.target, at, aboutFlight(flight), held, null, flight);
}

/** What the draws of a flight are about. */
export function keyOf({ open, message }: Flight): { readonly kind: number; readonly object: number } {
  if (message !== null) return { kind: sendKind(message.qpIndex), object: message.id };
  return open === null
    ? { kind: idOfName(CREDIT), object: 0 }
    : { kind: open.batch.layer, object: open.batch.transfer };
}

function aboutFlight(flight: Flight): number {
  const { kind, object } = keyOf(flight);
  return mix(mix(object, kind), flight.open?.batch.part ?? 0);
}

/**
 * A flight's time has come. It lands unless an earlier one of its queue pair has not ended, or its queue pair is gone; true
 * when it has ended.
 */
export function land(core: Core, sim: VerbsSim, flight: Flight): boolean {
  const { lane } = flight;
  if (flight.cancelled) return false;
  if (lane.flights[0] !== flight) {
    lane.owed.push(flight);
    return false;
  }
  const wait = flight.effect?.notReadyMicros;
  if (wait !== undefined) {
    flight.effect = null;
    push(core, flight, core.now + wait, wait);
    return false;
  }
  const landing = landNow(core, sim, flight);
  if (landing === 'stalled') lane.owed.unshift(flight);
  if (landing === 'partly') push(core, flight, core.now + TORN_MICROS, TORN_MICROS);
  if (landing !== 'ended') return false;
  lane.flights.shift();
  landOwed(core, lane);
  return true;
}

function landNow(core: Core, sim: VerbsSim, { lane, effect }: Flight): ReturnType<typeof landHead> {
  const { queuePair } = lane;
  const failure = effect?.status;
  if (failure !== undefined) sim.failing.set(queuePair.qpn, failure);
  sim.nowNanos = core.now * 1000;
  const landing = landHead(sim, queuePair);
  sim.failing.delete(queuePair.qpn);
  return landing;
}

/** The head of a lane may land now, if its time has come. */
export function landOwed(core: Core, lane: Lane): void {
  const next = lane.owed[0];
  if (next === undefined || next !== lane.flights[0]) return;
  lane.owed.shift();
  push(core, next, core.now, 0);
}

/** The queue pair is taken down: nothing of it lands any more. */
export function cancelLane(lane: Lane): void {
  for (const flight of lane.flights) flight.cancelled = true;
  lane.flights.length = 0;
  lane.owed.length = 0;
}

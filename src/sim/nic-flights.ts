import type { ActorId } from '../base/topology.ts';
import type { NicEffect } from '../faults/nic-faults.ts';
import type { Notification, PostedChain, WorkCompletion } from '../io/engine/host.ts';
import { queuePairOf, type SimQueuePair, type VerbsSim } from '../io/verbs-sim.ts';
import { idOfName } from './key-names.ts';
import type { OpenBatch } from './nic-batches.ts';

/** Work under way on the NICs, and what their engines are told: data, for whoever acts on it or writes it down. */

export interface Lane {
  readonly queuePair: SimQueuePair;
  readonly initiator: ActorId;
  readonly target: ActorId;
  /** In order of their posts. */
  readonly flights: Flight[];
  /** Flights whose time has come while an earlier one has not ended. */
  readonly owed: Flight[];
  lastLandAt: number;
}

/** One chain, or one SEND, on its way. */
export interface Flight {
  readonly lane: Lane;
  readonly chain: PostedChain | null;
  readonly message: Notification | null;
  /** Those of the chain that were posted, or the one of the SEND. */
  readonly workRequests: number;
  /** Null for a work request that only gives slots back, and for a SEND whose batch has ended. */
  readonly open: OpenBatch | null;
  /** What the NIC does to it; null for nothing out of the ordinary. */
  effect: NicEffect | null;
  /** Its queue pair was taken down. */
  cancelled: boolean;
}

/** The lanes of a run: in the order of their first posts, and by the number of the queue pair. */
export interface Lanes {
  readonly list: Lane[];
  readonly byQpn: (Lane | undefined)[];
}

/** Kinds of posts and entries that are of no layer: writes that give slots back, what a completion queue tells besides. */
export const [CREDIT, ENTRY] = ['credit', 'entry'];

/** A notification on one of an engine's queue pairs. */
export function sendKind(qpIndex: number): number {
  return idOfName(`send${qpIndex}`);
}

/** What a rank's engine is told, as an entry of the event queue. */
export type NicEvent =
  /** An entry of a completion queue; `open` is the batch it is about, if it is one's. */
  | { readonly kind: 'entry'; readonly completion: WorkCompletion; readonly open: OpenBatch | null }
  /** A batch has ended without an entry of its own. */
  | { readonly kind: 'ended'; readonly open: OpenBatch }
  | { readonly kind: 'timer'; readonly timer: number }
  /** The completion queue of a queue pair has overflowed. */
  | { readonly kind: 'overflow'; readonly qpn: number };

export function createLane(sim: VerbsSim, qpn: number, initiator: ActorId, target: ActorId): Lane {
  return { queuePair: queuePairOf(sim, qpn), initiator, target, flights: [], owed: [], lastLandAt: 0 };
}

export function addLane({ list, byQpn }: Lanes, lane: Lane): void {
  const { qpn } = lane.queuePair;
  while (byQpn.length <= qpn) byQpn.push(undefined);
  byQpn[qpn] = lane;
  list.push(lane);
}

/** The lane of a queue pair that is no more, if it had one. */
export function takeLane({ list, byQpn }: Lanes, qpn: number): Lane | null {
  const lane = byQpn[qpn];
  if (lane === undefined) return null;
  byQpn[qpn] = undefined;
  list.splice(list.indexOf(lane), 1);
  return lane;
}

import type { ActorId } from '../base/topology.ts';
import type { PostedBatch } from '../wire/machine.ts';

/**
 * A simulated NIC as plain data: queue pairs with a bounded send queue. It says when a batch may land and complete; the
 * world makes those happenings. In order within a queue pair, any order across.
 */

/** Costs of a NIC, in microseconds and bytes; integers. */
export interface NicProfile {
  readonly name: string;
  readonly writeBaseMicros: number;
  readonly readBaseMicros: number;
  /** Work requests a NIC starts in one microsecond. */
  readonly workRequestsPerMicro: number;
  readonly bytesPerMicro: number;
  /** The rate of a READ, where it differs. */
  readonly readBytesPerMicro?: number;
  /** Bytes on the wire for one byte of simulated memory: above 1 when a few bytes stand for a whole block. */
  readonly bytesScale: number;
  /** From landing to the completion being seen. */
  readonly completeMicros: number;
}

/**
 * `plain` is a rough 400 Gb NIC, the one of every check. The others are whole-number fits to MoRI-IO's published
 * tables (mori-io.md, end of part B). thor2's bases hold what a batch of 128 (write) or 256 (read) costs to post,
 * notifications included, and are too high for one small work request.
 */
export const PROFILES = {
  plain: {
    name: 'plain',
    writeBaseMicros: 5,
    readBaseMicros: 6,
    workRequestsPerMicro: 7,
    bytesPerMicro: 48_000,
    bytesScale: 1,
    completeMicros: 1,
  },
  cx7: {
    name: 'cx7',
    writeBaseMicros: 6,
    readBaseMicros: 7,
    workRequestsPerMicro: 7,
    bytesPerMicro: 49_750,
    readBytesPerMicro: 44_400,
    bytesScale: 1,
    completeMicros: 1,
  },
  thor2: {
    name: 'thor2',
    writeBaseMicros: 32,
    readBaseMicros: 110,
    workRequestsPerMicro: 7,
    bytesPerMicro: 49_800,
    readBytesPerMicro: 48_100,
    bytesScale: 1,
    completeMicros: 1,
  },
} as const satisfies Record<string, NicProfile>;

export interface QueuePair {
  readonly initiator: ActorId;
  readonly target: ActorId;
  readonly index: number;
  readonly sendQueueDepth: number;
  /** Work requests posted and not completed. */
  posted: number;
  /** A queue pair in the error state lands nothing; what is posted to it completes with an error. */
  broken: boolean;
  /** A completion of it was lost: none is seen any more until it is reset. */
  silent: boolean;
  lastLandAt: number;
  lastCompleteAt: number;
  readonly inFlight: Set<Flight>;
}

/** One batch on its way. */
export interface Flight {
  readonly batch: PostedBatch;
  readonly queuePair: QueuePair;
  /** It can touch nothing at the target any more. */
  landed: boolean;
  /** Its completion is on the way or was seen. */
  ended: boolean;
  /** What the NIC does to it; 0 for nothing out of the ordinary. */
  fate: number;
  /** It may land, so the blocks it names are in danger until it has. */
  counts: boolean;
}

export function createQueuePair(
  initiator: ActorId,
  target: ActorId,
  index: number,
  sendQueueDepth: number,
): QueuePair {
  return {
    initiator,
    target,
    index,
    sendQueueDepth,
    posted: 0,
    broken: false,
    silent: false,
    lastLandAt: 0,
    lastCompleteAt: 0,
    inFlight: new Set(),
  };
}

/** Takes a batch onto the send queue; null when it does not fit, and nothing is posted. */
export function postBatch(queuePair: QueuePair, batch: PostedBatch): Flight | null {
  const workRequests = batch.runs.length / 3;
  if (queuePair.posted + workRequests > queuePair.sendQueueDepth) return null;
  queuePair.posted += workRequests;
  const flight: Flight = { batch, queuePair, landed: false, ended: false, fate: 0, counts: true };
  queuePair.inFlight.add(flight);
  return flight;
}

/** Bytes of simulated memory that a batch moves. */
export function bytesOf(batch: PostedBatch): number {
  let bytes = 0;
  for (let i = 2; i < batch.runs.length; i += 3) bytes += batch.runs[i]!;
  return bytes;
}

/** When a batch posted at 0 lands at the earliest. */
export function landMicros(profile: NicProfile, batch: PostedBatch): number {
  return transferMicros(profile, batch.operation, batch.runs.length / 3, bytesOf(batch) * profile.bytesScale);
}

/** How long a NIC takes: issue and wire overlap, then the base latency. `bytes` are those on the wire. */
export function transferMicros(
  profile: NicProfile,
  operation: 'read' | 'write',
  workRequests: number,
  bytes: number,
): number {
  const isWrite = operation === 'write';
  const rate = isWrite ? profile.bytesPerMicro : (profile.readBytesPerMicro ?? profile.bytesPerMicro);
  const issue = Math.ceil(workRequests / profile.workRequestsPerMicro);
  return (
    (isWrite ? profile.writeBaseMicros : profile.readBaseMicros) + Math.max(issue, Math.ceil(bytes / rate))
  );
}

/** The batch has completed, well or not; its send-queue slots come back. */
export function retire(flight: Flight): void {
  flight.queuePair.inFlight.delete(flight);
  flight.queuePair.posted -= flight.batch.runs.length / 3;
}

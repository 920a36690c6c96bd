import { believe } from '../base/failure.ts';
import { emptyRegEndpoint, type RdmaEndpointHandle, type RdmaMemoryRegion } from './control-frames.ts';
import type {
  Host,
  Notification,
  PostedChain,
  PostOutcome,
  WorkCompletion,
  WorkStatus,
} from './engine/host.ts';
import { type NicTimes, wireNanos } from './profiles.ts';

/**
 * Verbs without a NIC: queue pairs that take chains and say when each is due to land. Times come from a profile; nothing
 * runs by itself: verbs-land.ts lands what its caller says.
 */
export interface VerbsSim {
  readonly times: NicTimes;
  readonly move: Mover;
  readonly queuePairs: Map<number, SimQueuePair>;
  readonly regions: Map<number, SimRegion>;
  /** When the wire of each NIC is free again. */
  readonly wireFreeAt: Map<string, number>;
  /** How many times slower than its profile a NIC is; 1 where nothing is said. */
  readonly slowness: Map<string, number>;
  /** Processes that have died: nothing reaches them, and what they had posted to be written is still on its way. */
  readonly dead: Set<string>;
  /** The runs of the chain that lands; kept, so that landing allocates nothing. */
  runs: Float64Array;
  runCount: number;
  /** Whose head lands, for the mover. */
  landing: SimQueuePair | null;
  /** Entries that nobody has taken yet, in order of landing. */
  readonly completions: ProcessCompletion[];
  /** Queue pairs whose next work request fails, and how. */
  readonly failing: Map<number, WorkStatus>;
  /** The next post fails after some work requests, never after all of them. */
  postFailure: { readonly posted: number; readonly errno: number } | null;
  nextQpn: number;
  nextKey: number;
  /** The host's clock: posting takes time on it. */
  nowNanos: number;
}

/**
 * Copies `count` runs in order, triples of source offset, target offset, bytes, relative to the regions; false when they
 * could not be. Not to be kept.
 */
export type Mover = (source: SimRegion, target: SimRegion, runs: Float64Array, count: number) => boolean;

export interface ProcessCompletion {
  readonly processId: string;
  readonly completion: WorkCompletion;
}

export interface SimRegion {
  readonly key: number;
  readonly nic: string;
  readonly address: bigint;
  readonly bytes: number;
}

export interface SimQueuePair {
  readonly qpn: number;
  readonly processId: string;
  readonly nic: string;
  peer: SimQueuePair | null;
  receives: number;
  /** In the error state: what is posted is flushed. */
  broken: boolean;
  /** Its completions are lost: nobody sees one any more. */
  silent: boolean;
  /** A SEND waits for a receive of the peer, and all behind it wait too. */
  stalled: boolean;
  freeAt: number;
  readonly queue: Posted[];
  head: number;
}

/** What a NIC does to one chain besides landing it. */
export type ChainFate =
  | 'none'
  /** It lands, but its acknowledgement is lost: the completion is an error. */
  | 'ackLost'
  /** It lands, and neither its completion nor any later one of the queue pair is seen. */
  | 'silent'
  /** The completion queue overflows: its completion is lost, and the queue pair is in the error state. */
  | 'overflow'
  /** It lands piece by piece, one for each call. */
  | 'torn'
  /** Its completion was there before it landed. */
  | 'told';

/** One chain or SEND on a send queue. */
export interface Posted {
  /** Nanoseconds. */
  readonly landAt: number;
  readonly chain: PostedChain | null;
  /** Work requests of the chain that were posted. */
  readonly end: number;
  readonly wrId: number;
  readonly message: Notification | null;
  fate: ChainFate;
  /** Of a torn chain: pieces that have landed. */
  pieces: number;
}

const RUN_NUMBERS = 3;
const RUNS_FIRST = 64;

/**
 * Verbs for engines in one simulated network: `times` prices their NICs, `move` copies the bytes of what lands. Hand
 * `verbsOf` of it to each engine's Host, then call `landNext`.
 */
export function createVerbs(times: NicTimes, move: Mover): VerbsSim {
  return {
    times,
    move,
    queuePairs: new Map(),
    regions: new Map(),
    wireFreeAt: new Map(),
    slowness: new Map(),
    dead: new Set(),
    runs: new Float64Array(RUN_NUMBERS * RUNS_FIRST),
    runCount: 0,
    landing: null,
    completions: [],
    failing: new Map(),
    postFailure: null,
    nextQpn: 0,
    nextKey: 1,
    nowNanos: 0,
  };
}

export type VerbsPart = Pick<
  Host,
  | 'createQueuePair'
  | 'connectQueuePair'
  | 'destroyQueuePair'
  | 'postReceives'
  | 'postSend'
  | 'postNotification'
  | 'registerRegion'
  | 'deregisterRegion'
>;

/** The verbs of one process, as its engine's Host has them. Processes that name their NICs alike share them. */
export function verbsOf(sim: VerbsSim, processId: string, nicName: (nic: number) => string): VerbsPart {
  return {
    createQueuePair: (nic) => addQueuePair(sim, processId, nicName(nic)),
    connectQueuePair: (qpn, remote) => {
      queuePairOf(sim, qpn).peer = sim.queuePairs.get(remote.qpn) ?? null;
    },
    destroyQueuePair: (qpn) => {
      sim.queuePairs.delete(qpn);
    },
    postReceives: (qpn, count) => {
      const queuePair = queuePairOf(sim, qpn);
      queuePair.receives += count;
      if (queuePair.peer !== null) queuePair.peer.stalled = false;
    },
    postSend: (qpn, chain) => postChain(sim, queuePairOf(sim, qpn), chain),
    postNotification: (qpn, wrId, message) => postMessage(sim, queuePairOf(sim, qpn), wrId, message),
    registerRegion: (nic, address, bytes) => addRegion(sim, nicName(nic), address, bytes),
    deregisterRegion: (_, region) => {
      sim.regions.delete(region.lkey);
    },
  };
}

export function queuePairOf(sim: VerbsSim, qpn: number): SimQueuePair {
  const queuePair = sim.queuePairs.get(qpn);
  believe(queuePair !== undefined, 'INV-VERBS-1', `queue pair ${qpn} does not exist`);
  return queuePair;
}

/** A process has died. Its peers' retries find nobody from now on, those for want of a receive too. */
export function endProcess(sim: VerbsSim, processId: string): void {
  sim.dead.add(processId);
  for (const queuePair of sim.queuePairs.values())
    if (queuePair.peer?.processId === processId) queuePair.stalled = false;
}

function addQueuePair(sim: VerbsSim, processId: string, nic: string): RdmaEndpointHandle {
  const qpn = sim.nextQpn;
  sim.nextQpn += 1;
  sim.queuePairs.set(qpn, {
    qpn,
    processId,
    nic,
    peer: null,
    receives: 0,
    broken: false,
    silent: false,
    stalled: false,
    freeAt: 0,
    queue: [],
    head: 0,
  });
  return { ...emptyRegEndpoint().eph, qpn };
}

function addRegion(sim: VerbsSim, nic: string, address: bigint, bytes: bigint): RdmaMemoryRegion {
  const key = sim.nextKey;
  sim.nextKey += 1;
  sim.regions.set(key, { key, nic, address, bytes: Number(bytes) });
  return { addr: address, lkey: key, rkey: key, length: bytes };
}

function takePostFailure(sim: VerbsSim, most: number): PostOutcome | null {
  const failure = sim.postFailure;
  if (failure === null) return null;
  sim.postFailure = null;
  return { posted: Math.max(Math.min(failure.posted, most - 1), 0), errno: failure.errno };
}

function postChain(sim: VerbsSim, queuePair: SimQueuePair, chain: PostedChain): PostOutcome {
  const { first, end, workRequests, operation, tailId } = chain;
  const outcome = takePostFailure(sim, end - first) ?? { posted: end - first, errno: 0 };
  if (first === 0) sim.nowNanos += workRequests.length * sim.times.workRequestNanos;
  sim.nowNanos += sim.times.postNanos;
  const postedEnd = first + outcome.posted;
  let bytes = 0;
  for (let at = first; at < postedEnd; at += 1) bytes += workRequests[at]!.bytes;
  const landAt = schedule(sim, queuePair, outcome.posted, bytes, operation);
  if (outcome.posted > 0) enqueue(queuePair, landAt, chain, postedEnd, tailId, null);
  return outcome;
}

function enqueue(
  { queue }: SimQueuePair,
  landAt: number,
  chain: PostedChain | null,
  end: number,
  wrId: number,
  message: Notification | null,
): void {
  queue.push({ landAt, chain, end, wrId, message, fate: 'none', pieces: 0 });
}

/** When work has landed: a queue pair paces it, the NIC's wire is shared, then comes the base latency. */
function schedule(
  sim: VerbsSim,
  queuePair: SimQueuePair,
  workRequests: number,
  bytes: number,
  operation: 'read' | 'write',
): number {
  const { nowNanos, times, wireFreeAt, slowness } = sim;
  const slow = slowness.get(queuePair.nic) ?? 1;
  queuePair.freeAt = Math.max(queuePair.freeAt, nowNanos) + workRequests * times.queuePairNanos * slow;
  const wireAt =
    Math.max(wireFreeAt.get(queuePair.nic) ?? 0, nowNanos) + wireNanos(times, bytes, operation) * slow;
  wireFreeAt.set(queuePair.nic, wireAt);
  return Math.max(queuePair.freeAt, wireAt) + times.baseNanos[operation] * slow;
}

function postMessage(sim: VerbsSim, queuePair: SimQueuePair, wrId: number, message: Notification): number {
  const failure = takePostFailure(sim, 0);
  if (failure !== null) return failure.errno;
  sim.nowNanos += sim.times.postNanos;
  enqueue(queuePair, schedule(sim, queuePair, 1, 0, 'write'), null, 0, wrId, message);
  return 0;
}

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
import type { WorkRequest } from './submission.ts';

/**
 * Verbs without a NIC: queue pairs that take chains, land them in order, and put completions into a list. Times come from
 * a profile; nothing runs by itself, `landNext` lands what is due next.
 */
export interface VerbsSim {
  readonly times: NicTimes;
  readonly move: Mover;
  readonly queuePairs: Map<number, SimQueuePair>;
  readonly regions: Map<number, SimRegion>;
  /** When the wire of each NIC is free again. */
  readonly wireFreeAt: Map<string, number>;
  /** The runs of the chain that lands; kept, so that landing allocates nothing. */
  runs: Float64Array;
  runCount: number;
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

/** Copies `count` runs in order, triples of source offset, target offset, bytes, relative to the regions. Not to be kept. */
export type Mover = (source: SimRegion, target: SimRegion, runs: Float64Array, count: number) => void;

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
  broken: boolean;
  /** A SEND waits for a receive of the peer, and all behind it wait too. */
  stalled: boolean;
  freeAt: number;
  readonly queue: Posted[];
  head: number;
}

interface Posted {
  readonly landAt: number;
  readonly chain: PostedChain | null;
  /** Work requests of the chain that were posted. */
  readonly end: number;
  readonly wrId: number;
  readonly message: Notification | null;
}

const RUN_NUMBERS = 3;
const RUNS_FIRST = 64;

export function createVerbs(times: NicTimes, move: Mover): VerbsSim {
  return {
    times,
    move,
    queuePairs: new Map(),
    regions: new Map(),
    wireFreeAt: new Map(),
    runs: new Float64Array(RUN_NUMBERS * RUNS_FIRST),
    runCount: 0,
    completions: [],
    failing: new Map(),
    postFailure: null,
    nextQpn: 0,
    nextKey: 1,
    nowNanos: 0,
  };
}

type VerbsPart = Pick<
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

/** The verbs of one process. Processes that name their NICs alike share them. */
export function verbsOf(sim: VerbsSim, processId: string, nicName: (nic: number) => string): VerbsPart {
  const queuePairOf = (qpn: number): SimQueuePair => {
    const queuePair = sim.queuePairs.get(qpn);
    believe(queuePair !== undefined, 'INV-VERBS-1', `queue pair ${qpn} does not exist`);
    return queuePair;
  };
  return {
    createQueuePair: (nic) => addQueuePair(sim, processId, nicName(nic)),
    connectQueuePair: (qpn, remote) => {
      queuePairOf(qpn).peer = sim.queuePairs.get(remote.qpn) ?? null;
    },
    destroyQueuePair: (qpn) => {
      sim.queuePairs.delete(qpn);
    },
    postReceives: (qpn, count) => {
      const queuePair = queuePairOf(qpn);
      queuePair.receives += count;
      if (queuePair.peer !== null) queuePair.peer.stalled = false;
    },
    postSend: (qpn, chain) => postChain(sim, queuePairOf(qpn), chain),
    postNotification: (qpn, wrId, message) => postMessage(sim, queuePairOf(qpn), wrId, message),
    registerRegion: (nic, address, bytes) => addRegion(sim, nicName(nic), address, bytes),
    deregisterRegion: (_, region) => {
      sim.regions.delete(region.lkey);
    },
  };
}

function addQueuePair(sim: VerbsSim, processId: string, nic: string): RdmaEndpointHandle {
  const qpn = sim.nextQpn;
  sim.nextQpn += 1;
  const fresh = { peer: null, receives: 0, broken: false, stalled: false, freeAt: 0, queue: [], head: 0 };
  sim.queuePairs.set(qpn, { qpn, processId, nic, ...fresh });
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
  for (let at = first; at < postedEnd; at += 1) bytes += workRequests[at].bytes;
  const landAt = schedule(sim, queuePair, outcome.posted, bytes) + sim.times.baseNanos[operation];
  if (outcome.posted > 0)
    queuePair.queue.push({ landAt, chain, end: postedEnd, wrId: tailId, message: null });
  return outcome;
}

/** When work is off the wire: a queue pair paces it, the NIC's wire is shared. */
function schedule(sim: VerbsSim, queuePair: SimQueuePair, workRequests: number, bytes: number): number {
  const { nowNanos, times, wireFreeAt } = sim;
  queuePair.freeAt = Math.max(queuePair.freeAt, nowNanos) + workRequests * times.queuePairNanos;
  const wireAt = Math.max(wireFreeAt.get(queuePair.nic) ?? 0, nowNanos) + wireNanos(times, bytes);
  wireFreeAt.set(queuePair.nic, wireAt);
  return Math.max(queuePair.freeAt, wireAt);
}

function postMessage(sim: VerbsSim, queuePair: SimQueuePair, wrId: number, message: Notification): number {
  const failure = takePostFailure(sim, 0);
  if (failure !== null) return failure.errno;
  sim.nowNanos += sim.times.postNanos;
  const landAt = schedule(sim, queuePair, 1, 0) + sim.times.baseNanos.write;
  queuePair.queue.push({ landAt, chain: null, end: 0, wrId, message });
  return 0;
}

/** Lands what is due next over all queue pairs; false when nothing can. Its completions are in the list then. */
export function landNext(sim: VerbsSim): boolean {
  let next: SimQueuePair | null = null;
  for (const queuePair of sim.queuePairs.values()) {
    if (queuePair.stalled || queuePair.head === queuePair.queue.length) continue;
    if (next === null || dueAt(queuePair) < dueAt(next)) next = queuePair;
  }
  if (next === null) return false;
  land(sim, next);
  return true;
}

/** When the head of a queue pair that has one is due. */
function dueAt({ queue, head }: SimQueuePair): number {
  return queue[head].landAt;
}

function land(sim: VerbsSim, queuePair: SimQueuePair): void {
  const posted = queuePair.queue[queuePair.head];
  if (posted.chain !== null) landChain(sim, queuePair, posted.chain, posted.end);
  else if (!landMessage(sim, queuePair, posted)) {
    queuePair.stalled = true;
    return;
  }
  queuePair.head += 1;
  if (queuePair.head === queuePair.queue.length) queuePair.queue.length = queuePair.head = 0;
  sim.nowNanos = Math.max(sim.nowNanos, posted.landAt);
}

/** Work request by work request; the bytes of those that are fine move together at the end. */
function landChain(sim: VerbsSim, queuePair: SimQueuePair, chain: PostedChain, end: number): void {
  const { signaled, workRequests, operation } = chain;
  const local = regionFor(sim, chain.lkey, queuePair.nic);
  const remote = regionFor(sim, chain.rkey, queuePair.peer?.nic);
  const isUp = isPeerUp(sim, queuePair);
  sim.runCount = 0;
  for (let at = chain.first; at < end; at += 1) {
    const status =
      earlyFailure(sim, queuePair, isUp) ??
      takeRuns(sim, workRequests[at], operation === 'write', local, remote);
    const isTail = signaled && at === chain.end - 1;
    if (status !== 'SUCCESS') queuePair.broken = true;
    if (isTail) tell(sim, queuePair, 'data', chain.tailId, status);
    else if (status !== 'SUCCESS') tell(sim, queuePair, 'data', chain.innerId, status);
  }
  if (sim.runCount === 0) return;
  if (operation === 'write') sim.move(local!, remote!, sim.runs, sim.runCount);
  else sim.move(remote!, local!, sim.runs, sim.runCount);
}

/** A key is good on its own NIC alone. */
function regionFor(sim: VerbsSim, key: number, nic: string | undefined): SimRegion | null {
  const region = sim.regions.get(key);
  return region !== undefined && region.nic === nic ? region : null;
}

/** Adds the copies of one work request, if both sides hold it. */
function takeRuns(
  sim: VerbsSim,
  { remoteOffset, bytes, sges }: WorkRequest,
  isWrite: boolean,
  local: SimRegion | null,
  remote: SimRegion | null,
): WorkStatus {
  if (bytes === 0) return 'SUCCESS';
  if (local === null) return 'LOC_PROT_ERR';
  for (let index = 0; index < sges.length; index += 1) {
    if (!fits(local, sges[index].offset, sges[index].bytes)) return 'LOC_PROT_ERR';
  }
  if (remote === null || !fits(remote, remoteOffset, bytes)) return 'REM_ACCESS_ERR';
  let at = remoteOffset;
  for (let index = 0; index < sges.length; index += 1) {
    const sge = sges[index];
    if (isWrite) addRun(sim, sge.offset, at, sge.bytes);
    else addRun(sim, at, sge.offset, sge.bytes);
    at += sge.bytes;
  }
  return 'SUCCESS';
}

function addRun(sim: VerbsSim, source: number, target: number, bytes: number): void {
  const first = sim.runCount * RUN_NUMBERS;
  if (first === sim.runs.length) {
    const longer = new Float64Array(first * 2);
    longer.set(sim.runs);
    sim.runs = longer;
  }
  const { runs } = sim;
  runs[first] = source;
  runs[first + 1] = target;
  runs[first + 2] = bytes;
  sim.runCount += 1;
}

function isPeerUp(sim: VerbsSim, { peer }: SimQueuePair): boolean {
  return peer !== null && !peer.broken && sim.queuePairs.has(peer.qpn);
}

/** A broken queue pair flushes; one that is told to fail does so; one whose peer is gone finds nobody. */
function earlyFailure(sim: VerbsSim, queuePair: SimQueuePair, isUp: boolean): WorkStatus | null {
  if (queuePair.broken) return 'WR_FLUSH_ERR';
  const told = sim.failing.size === 0 ? undefined : sim.failing.get(queuePair.qpn);
  if (told === undefined) return isUp ? null : 'RETRY_EXC_ERR';
  sim.failing.delete(queuePair.qpn);
  return told;
}

function fits(region: SimRegion, offset: number, bytes: number): boolean {
  return offset >= 0 && offset + bytes <= region.bytes;
}

/** False when the peer has no receive left: the SEND is tried again for ever. */
function landMessage(sim: VerbsSim, queuePair: SimQueuePair, posted: Posted): boolean {
  const status = earlyFailure(sim, queuePair, isPeerUp(sim, queuePair));
  if (status !== null) {
    queuePair.broken = true;
    tell(sim, queuePair, 'send', posted.wrId, status);
    return true;
  }
  const peer = queuePair.peer!;
  if (peer.receives === 0) return false;
  peer.receives -= 1;
  tell(sim, queuePair, 'send', posted.wrId, 'SUCCESS');
  const { qpn, processId } = peer;
  const completion = { qpn, opcode: 'recv', wrId: 0, status: 'SUCCESS', message: posted.message! } as const;
  sim.completions.push({ processId, completion });
  return true;
}

function tell(
  sim: VerbsSim,
  queuePair: SimQueuePair,
  opcode: WorkCompletion['opcode'],
  wrId: number,
  status: WorkStatus,
): void {
  const { qpn, processId } = queuePair;
  sim.completions.push({ processId, completion: { qpn, opcode, wrId, status } });
}

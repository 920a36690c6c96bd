import type { LayerView } from '../../base/cache-view.ts';
import { SmallMap } from '../../base/small-map.ts';
import type { ActorId, BlockId, EngineId, RequestId, TransferId } from '../../base/topology.ts';
import type { Emit } from '../../wire/machine.ts';
import type { WorkerEnv } from '../plug.ts';
import type { RankGeometry } from './messages.ts';
import type { HaulPhase, LeasePhase, SessionPhase } from './moves.ts';
import { type GrantWindow, newGrantWindow } from './numbers.ts';

/** What the scheduler side tells its ranks with a step. */
export interface ShippedMeta {
  /** D: bring the KV of tokens [tokenFrom, tokenTo) into these blocks. */
  readonly loads: readonly LoadOrder[];
  /** P in READ mode: keep these blocks for whoever claims the transfer. */
  readonly lends: readonly LendOrder[];
  /** P in WRITE mode: this step computes tokens up to `tokenTo`. */
  readonly saves: readonly SaveOrder[];
  /** The request is gone: stop, drain, report. */
  readonly cancels: readonly TransferId[];
}

export interface LoadOrder {
  readonly request: RequestId;
  readonly transfer: TransferId;
  readonly remoteEngine: EngineId;
  readonly blocks: readonly BlockId[];
  readonly tokenFrom: number;
  readonly tokenTo: number;
  readonly lineageAddress: number;
}

export interface LendOrder {
  readonly request: RequestId;
  readonly transfer: TransferId;
  readonly blocks: readonly BlockId[];
  readonly tokenTo: number;
}

export interface SaveOrder {
  readonly request: RequestId;
  readonly transfer: TransferId;
  readonly remoteEngine: EngineId;
  readonly blocks: readonly BlockId[];
  readonly tokenTo: number;
  readonly promptTokens: number;
}

export interface Grant {
  readonly grant: number;
  /** Void over a connection of another epoch. */
  readonly epoch: number;
  readonly blocks: readonly BlockId[];
  readonly firstSlot: number;
  readonly slotFrom: number;
  readonly slotTo: number;
}

/** One peer rank within a haul. */
export interface HaulPeer {
  readonly rank: ActorId;
  phase: HaulPhase;
  grant: Grant | null;
  /** For each layer, the slot up to which runs have been handed to the session. */
  readonly postedTo: number[];
  /** Runs handed to the session and not yet completed or dropped. */
  outstanding: number;
  /** Batches handed to the session so far. */
  parts: number;
  /** Repeats of the claim, later of the seal. */
  attempts: number;
  /** Handshakes asked for because the grant is of an epoch that the session has not heard of. */
  renewals: number;
  /** Nothing has failed so far; what the seal will say. */
  ok: boolean;
}

/** The initiator's half of one transfer at this rank. */
export interface Haul {
  readonly transfer: TransferId;
  readonly request: RequestId;
  readonly operation: 'read' | 'write';
  readonly blocks: readonly BlockId[];
  /** READ: what to fetch. WRITE: [0, prompt), cut down by each grant. */
  readonly slotFrom: number;
  readonly slotTo: number;
  /** For each layer, the slot up to which the KV exists at the source. */
  readonly readyTo: number[];
  readonly peers: HaulPeer[];
  /** Nothing was to be moved: the scheduler does not wait for a report. */
  readonly silent: boolean;
  readonly lineageAddress: number;
  readonly tokenTo: number;
  rounds: number;
  /** The scheduler will say no more about it: its last chunk was saved, or it was cancelled. Until then it is kept. */
  final: boolean;
  reported: boolean;
  /** The timer that repeats claims and seals is running. */
  retrying: boolean;
  /** The timer that resets queue pairs which do not drain is running. */
  draining: boolean;
}

/** What a haul and a lease are made for. */
export type TransferOrder = Pick<
  Haul & Lease,
  'transfer' | 'request' | 'blocks' | 'lineageAddress' | 'tokenTo' | 'silent'
>;

export interface SlotRange {
  readonly from: number;
  readonly to: number;
}

export interface LeasePeer {
  readonly rank: ActorId;
  phase: LeasePhase;
  readonly grant: number;
  attempts: number;
}

/** The target's half of one transfer at this rank: blocks lent to remote initiators. */
export interface Lease {
  readonly transfer: TransferId;
  readonly request: RequestId;
  readonly operation: 'read' | 'write';
  readonly blocks: readonly BlockId[];
  readonly slotFrom: number;
  readonly slotTo: number;
  readonly peers: LeasePeer[];
  /** READ: how many ranks will claim, known from the first claim; -1 before. */
  peersExpected: number;
  /** No new claim is accepted. */
  closing: boolean;
  failed: boolean;
  readonly silent: boolean;
  readonly lineageAddress: number;
  readonly tokenTo: number;
  attempt: number;
}

/** Runs of one (transfer, peer, layer) that wait for send-queue credit. */
export interface QueuedRuns {
  readonly haul: Haul;
  readonly peer: HaulPeer;
  readonly layer: number;
  readonly runs: readonly number[];
  readonly localBlocks: readonly BlockId[];
  readonly remoteBlocks: readonly BlockId[];
  /** First run not yet posted. */
  next: number;
}

export interface SessionQueuePair {
  /** Work requests that may still be posted. */
  credit: number;
  queue: QueuedRuns[];
}

export interface Session {
  readonly peer: ActorId;
  phase: SessionPhase;
  attempt: number;
  /** The target's fences so far, as it told in the handshake. */
  epoch: number;
  /** A grant did not go with what the handshake told: to be made anew as soon as nothing moves over it. */
  doubted: boolean;
  views: readonly LayerView[];
  queuePairs: SessionQueuePair[];
}

export interface InFlight {
  readonly session: Session;
  readonly queuePair: number;
  readonly runs: number;
  readonly haul: Haul;
  readonly peer: HaulPeer;
}

/** What one peer rank said of a transfer before this rank heard of the request. */
export interface Early {
  /** WRITE. */
  grant: Grant | null;
  /** WRITE: the grant was taken back. */
  revoked: boolean;
  /** READ. */
  claim: { readonly tpSize: number; readonly attempt: number } | null;
  /** READ: the peer has sealed, and will not claim any more. */
  release: { readonly tpSize: number; readonly ok: boolean } | null;
}

export interface WorkerState {
  readonly env: WorkerEnv;
  geometry: RankGeometry | null;
  readonly hauls: SmallMap<TransferId, Haul>;
  readonly leases: SmallMap<TransferId, Lease>;
  readonly early: SmallMap<TransferId, SmallMap<ActorId, Early>>;
  /** For each peer rank the transfers in `early` that it spoke of, oldest first. */
  readonly earlyOf: SmallMap<ActorId, Set<TransferId>>;
  /** Ended hauls, oldest first: transfer to whether all of it landed. */
  readonly ended: SmallMap<TransferId, boolean>;
  readonly endedLeases: SmallMap<TransferId, boolean>;
  readonly sessions: SmallMap<ActorId, Session>;
  readonly inFlight: SmallMap<number, InFlight>;
  /** Highest grant number given to a peer rank. */
  readonly grantsGiven: SmallMap<ActorId, number>;
  /** Highest number of a grant that a peer rank has sealed. */
  readonly grantsHeard: SmallMap<ActorId, number>;
  readonly grantsSeen: SmallMap<ActorId, GrantWindow>;
  /** How often this rank has fenced a peer. */
  readonly epochs: SmallMap<ActorId, number>;
  saves: readonly SaveOrder[];
  nextTag: number;
  sent: RequestId[];
  received: RequestId[];
  failed: RequestId[];
}

export function createWorkerState(env: WorkerEnv): WorkerState {
  return {
    env,
    geometry: null,
    hauls: new SmallMap(),
    leases: new SmallMap(),
    early: new SmallMap(),
    earlyOf: new SmallMap(),
    ended: new SmallMap(),
    endedLeases: new SmallMap(),
    sessions: new SmallMap(),
    inFlight: new SmallMap(),
    grantsGiven: new SmallMap(),
    grantsHeard: new SmallMap(),
    grantsSeen: new SmallMap(),
    epochs: new SmallMap(),
    saves: [],
    nextTag: 1,
    sent: [],
    received: [],
    failed: [],
  };
}

/** The epoch of a peer's connections to this rank: only those made since the last fence are good. */
export function epochOf(state: WorkerState, peer: ActorId): number {
  return state.epochs.get(peer) ?? 0;
}

/** The grant numbers met from a peer rank. */
export function grantsSeenFrom(state: WorkerState, peer: ActorId): GrantWindow {
  let met = state.grantsSeen.get(peer);
  if (met === undefined) {
    met = newGrantWindow();
    state.grantsSeen.set(peer, met);
  }
  return met;
}

/** Remembers that a transfer ended; forgets the oldest when the table is full. */
export function remember(
  table: SmallMap<TransferId, boolean>,
  transfer: TransferId,
  ok: boolean,
  max: number,
): void {
  table.set(transfer, ok);
  if (table.size > max) table.delete(table.oldest()!);
}

/** What the session layer tells the transfer layer; keeps the two files from importing each other. */
export interface SessionUser {
  sessionReady(turn: Turn, session: Session): void;
  sessionFailed(turn: Turn, session: Session): void;
  /** So many runs of a peer have completed, well or not. */
  runsEnded(turn: Turn, of: Pick<QueuedRuns, 'haul' | 'peer'>, runs: number, ok: boolean): void;
}

/** One call of the worker by its host: what it knows, the time in microseconds, and where effects go. */
export interface Turn {
  readonly state: WorkerState;
  readonly user: SessionUser;
  readonly at: number;
  readonly emit: Emit;
}

import type { LayerView } from '../../base/cache-view.ts';
import type { ActorId, BlockId, EngineId, RequestId, TransferId } from '../../base/topology.ts';
import type { WorkerEnv } from '../../connector/plug.ts';
import type { Emit, Fields, Wait } from '../../wire/machine.ts';
import type { FaultSet } from './faults.ts';
import {
  createLock,
  createSignal,
  createThreads,
  type Lock,
  type Routine,
  type Signal,
  type Threads,
} from './threads.ts';
import type { PeerCaches } from './wire.ts';

/** What a worker process of the first connector holds. Its threads share all of it, some under a lock, some not. */

/** WRITE, P: a request whose last chunk is in this step. */
export interface SaveOrder {
  readonly request: RequestId;
  readonly transfer: TransferId;
  readonly remoteEngine: EngineId;
  readonly blocks: readonly BlockId[];
  readonly tokens: number;
}

/** D: a request whose KV comes from P. In WRITE P's blocks are not named: P pushes. */
export interface LoadOrder {
  readonly request: RequestId;
  readonly transfer: TransferId;
  readonly remoteEngine: EngineId;
  readonly blocks: readonly BlockId[];
  readonly remoteBlocks: readonly BlockId[];
  readonly tokenFrom: number;
  readonly tokenTo: number;
}

/** What the scheduler side tells the ranks of one step. */
export interface StepMeta {
  readonly saves: readonly SaveOrder[];
  readonly loads: readonly LoadOrder[];
}

/** One layer of one request, for the write worker. */
export interface WriteTask {
  readonly save: SaveOrder;
  readonly layer: number;
}

/** One posted write of a layer. */
export interface WriteStatus {
  readonly tag: number;
  readonly layer: number;
  readonly peer: ActorId;
}

/** An instance of the other role, by its number. All its DP ranks are asked in one handshake. */
export type RemoteId = number;

/** WRITE, D: a transfer that P's ranks will complete. */
export interface Awaited {
  readonly request: RequestId;
  /** Ranks of P that write to this one. */
  readonly sources: readonly ActorId[];
}

export interface Received {
  readonly from: ActorId;
  readonly bytes: Uint8Array;
}

export interface WorkerState {
  readonly env: WorkerEnv;
  readonly faults: FaultSet;
  /** This rank's caches as registered. */
  readonly views: readonly LayerView[];
  readonly threads: Threads;
  /** Effects of the input at hand; set whenever the world enters this worker. */
  emit: Emit;

  // Handshakes.
  readonly handshakeLock: Lock;
  readonly metaRequests: ActorId[];
  readonly metaRequested: Signal;
  readonly jobs: (() => Routine)[];
  readonly jobQueued: Signal;
  readonly replies: Received[];
  readonly replied: Signal;
  /** Whom the handshake executor is asking; -1 for nobody. */
  asking: ActorId;
  /** Handshakes that run. */
  readonly futures: Set<RemoteId>;
  /** DP ranks whose handshake has ended. */
  readonly registered: Set<EngineId>;
  /** What each peer rank that was asked said of itself. */
  readonly peers: Map<ActorId, PeerCaches>;
  /** Remotes all of whose DP ranks are registered. */
  readonly readyFlags: Set<RemoteId>;
  readonly handshakeEnded: Signal;
  /** Tasks that wait for their remote's handshake. */
  readonly waitingTasks: Map<RemoteId, WriteTask[]>;
  /** Tasks whose handshake has ended and that are not queued yet. */
  readonly readyTasks: WriteTask[];
  readonly connected: Set<ActorId>;

  // The notify socket.
  readonly notifications: Received[];
  readonly notified: Signal;
  readonly remoteBlocks: Map<
    TransferId,
    { readonly blocks: readonly BlockId[]; readonly decodeRank: number }
  >;
  readonly awaited: Map<TransferId, Awaited>;
  /** Ranks whose completion of a transfer has come; a completion may come before the transfer is known here. */
  readonly completedBy: Map<TransferId, ActorId[]>;

  // The write worker.
  readonly startLock: Lock;
  workerStarted: boolean;
  writeWorkers: number;
  readonly tasks: WriteTask[];
  readonly workArrived: Signal;
  /** Tasks whose remote blocks are not known yet. */
  deferred: WriteTask[];
  readonly layersDone: Map<TransferId, number>;
  /** Batches of a transfer, whose statuses the last layer waits for. */
  readonly statuses: Map<TransferId, WriteStatus[]>;
  /** Posted batches that have not ended. */
  readonly inFlight: Map<number, ActorId>;
  readonly batchEnded: Signal;
  nextTag: number;

  // The main thread.
  saves: readonly SaveOrder[];
  /** What the main thread stands at, for the waits-for graph. */
  mainWaits: Omit<Wait, 'who'> | null;

  sent: RequestId[];
  received: RequestId[];
}

/** The threads that are there from the start have fixed numbers; write workers count up from the last one. */
export const THREAD = { listener: 1, executor: 2, notify: 3, firstWriter: 4 } as const;

const NOTHING: Emit = () => {};

export function createState(env: WorkerEnv, views: readonly LayerView[], faults: FaultSet): WorkerState {
  return {
    env,
    faults,
    views,
    threads: createThreads(),
    emit: NOTHING,
    handshakeLock: createLock(),
    metaRequests: [],
    metaRequested: createSignal(),
    jobs: [],
    jobQueued: createSignal(),
    replies: [],
    replied: createSignal(),
    asking: -1,
    futures: new Set(),
    registered: new Set(),
    peers: new Map(),
    readyFlags: new Set(),
    handshakeEnded: createSignal(),
    waitingTasks: new Map(),
    readyTasks: [],
    connected: new Set(),
    notifications: [],
    notified: createSignal(),
    remoteBlocks: new Map(),
    awaited: new Map(),
    completedBy: new Map(),
    startLock: createLock(),
    workerStarted: false,
    writeWorkers: 0,
    tasks: [],
    workArrived: createSignal(),
    deferred: [],
    layersDone: new Map(),
    statuses: new Map(),
    inFlight: new Map(),
    batchEnded: createSignal(),
    nextTag: 1,
    saves: [],
    mainWaits: null,
    sent: [],
    received: [],
  };
}

/** Something that a reader of the run wants to know. */
export function log(state: WorkerState, name: string, fields: Fields): void {
  state.emit({ kind: 'note', note: { kind: 'log', name, fields } });
}

export function nameOf(state: WorkerState, actor: ActorId): string {
  return state.env.topology.actors[actor]!.name;
}

/** Everything that must be gone when all requests have ended. Handshakes and sessions are for good. */
export function censusOf(state: WorkerState): number {
  const maps = [
    state.futures,
    state.remoteBlocks,
    state.awaited,
    state.completedBy,
    state.layersDone,
    state.statuses,
    state.inFlight,
  ];
  const lists = [
    state.jobs,
    state.replies,
    state.readyTasks,
    state.notifications,
    state.tasks,
    state.deferred,
    state.sent,
    state.received,
  ];
  let waiting = 0;
  for (const tasks of state.waitingTasks.values()) waiting += tasks.length;
  const held = Number(state.handshakeLock.holder !== '') + Number(state.startLock.holder !== '');
  return (
    maps.reduce((sum, map) => sum + map.size, 0) +
    lists.reduce((sum, list) => sum + list.length, 0) +
    waiting +
    held
  );
}

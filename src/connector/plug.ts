import type { LayerView } from '../base/cache-view.ts';
import type {
  ActorId,
  BlockId,
  EngineId,
  EngineSpec,
  Mode,
  RequestId,
  Topology,
  TransferId,
} from '../base/topology.ts';
import type { Description, Emit, Input, Wait } from '../wire/machine.ts';
import type { KvTransferParams, Leg, Prompt, StepItem } from '../wire/messages.ts';
import type { PeerForms } from '../wire/peer-codec.ts';

/**
 * The interface of a KV connector, with vLLM's hooks under vLLM's names (KVConnectorBase_V1). Write your own connector
 * against it and have it attacked: everything else of the cluster is ours, and each hook is called where vLLM calls it.
 */

/**
 * A request as the engine's scheduler sees it; the connector reads it and never changes it. Each field is read by its name, as
 * it is at that time: `{ ...view }` would copy none.
 */
export interface RequestView {
  readonly request: RequestId;
  readonly transfer: TransferId;
  readonly leg: Leg;
  readonly prompt: Prompt;
  readonly remoteEngine: EngineId;
  readonly params: KvTransferParams | null;
  /** Tokens whose KV is in `blocks`. */
  readonly computed: number;
  readonly blocks: readonly BlockId[];
}

export interface Matched {
  /** Tokens beyond the locally computed ones whose KV the connector will bring. */
  readonly tokens: number;
  /** True when they arrive between steps, so that the request waits outside the batch. */
  readonly async: boolean;
}

export interface FinishVerdict {
  /** The blocks stay allocated until every rank has reported the end of the transfer. */
  readonly keepBlocks: boolean;
  readonly params: KvTransferParams | null;
}

export interface ConnectorScheduler {
  getNumNewMatchedTokens(view: RequestView, computedTokens: number): Matched;
  updateStateAfterAlloc(view: RequestView, externalTokens: number, at: number, emit: Emit): void;
  /** What the ranks must know for this step; null when nothing. */
  buildConnectorMeta(items: readonly StepItem[], view: (request: RequestId) => RequestView): unknown;
  /** Whether there is something to tell the ranks although no request is scheduled. */
  hasMeta(): boolean;
  requestFinished(view: RequestView): FinishVerdict;
  /** The client went away; true when ranks must report before the blocks are free. */
  requestAborted(view: RequestView): boolean;
  /** All blocks of the request are back in the pool. */
  requestForgotten(request: RequestId): void;
  /** Everything the connector still remembers about live requests, for the leak judge. */
  census(): number;
}

/**
 * `again`: not yet; call the same hook once more at the rank's next turn. `blocked`: the same, but not before the connector has
 * had an input of its own (a message, a timer, a completion, a turn of a thread). The forward pass stands still meanwhile.
 */
export type Progress = 'done' | 'again' | 'blocked';

/**
 * Statements that a thread of the connector may run before another one is given the chance; 0 for no limit, the plain choice.
 * A draw of the run's tape, keyed by the thread of the rank, by how often it has been woken, and by how often it was preempted since.
 */
export type Preemption = (rank: ActorId, thread: number, activation: number, slice: number) => number;

export interface Finished {
  readonly sent: readonly RequestId[];
  readonly received: readonly RequestId[];
  readonly failed: readonly RequestId[];
}

export interface ConnectorWorker {
  startLoadKv(meta: unknown, at: number, emit: Emit): Progress;
  waitForLayerLoad(layer: number, at: number, emit: Emit): Progress;
  saveKvLayer(layer: number, at: number, emit: Emit): Progress;
  waitForSave(at: number, emit: Emit): Progress;
  /** Requests whose transfer ended at this rank since the last call; null when none. */
  getFinished(): Finished | null;
  /** Messages from peers, timers, completions and turns of the connector's own threads. */
  step(at: number, input: Input, emit: Emit): void;
  census(): number;
  /** What this rank waits for, for the waits-for graph. */
  waits(): Wait[];
}

export interface SchedulerEnv {
  readonly topology: Topology;
  readonly spec: EngineSpec;
  readonly mode: Mode;
  readonly blockTokens: number;
}

export interface WorkerEnv {
  readonly topology: Topology;
  readonly spec: EngineSpec;
  readonly mode: Mode;
  readonly self: ActorId;
  readonly tpRank: number;
  /** KV heads of the model, over all ranks. */
  readonly heads: number;
  /** This rank's caches, one for each layer, within its registered region. */
  readonly views: readonly LayerView[];
  readonly regionBytes: number;
  /** Tokens of one cache slot: 1, or a block's tokens when a block is one cell. */
  readonly slotTokens: number;
  readonly blockTokens: number;
  readonly queuePairs: number;
  readonly sendQueueDepth: number;
  /** For connectors whose threads can be preempted at any statement; absent where nobody draws. */
  readonly preemption?: Preemption;
  /**
   * What this rank's MoRI-IO engine says of itself and of the cache as it is lent to one peer, for `connect` there. Each peer has
   * a key of its own, and another one after a `fence`. @throws UsageError NIC-PEER when the peer is no rank.
   */
  readonly describe: (peer: ActorId) => Description;
}

export interface Connector {
  readonly name: string;
  /**
   * Its own messages between ranks, a row for each name. Without it a connector may send any names, all fields are kept,
   * and a reader sees them as they are.
   */
  readonly messages?: PeerForms;
  /** Its own coverage points: the names that its `goal` notes may have. A campaign tells which were reached. */
  readonly goals?: readonly string[];
  createScheduler(env: SchedulerEnv): ConnectorScheduler;
  createWorker(env: WorkerEnv): ConnectorWorker;
}

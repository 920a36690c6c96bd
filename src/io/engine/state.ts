import type { SmallMap } from '../../base/small-map.ts';
import type { StatusCode } from '../codes.ts';
import type { RdmaEndpointHandle, RdmaMemoryRegion, TopoKeyPair } from '../control-frames.ts';
import type { XgmiBackendConfig } from '../copy-config.ts';
import type { EngineDesc, MemoryDesc } from '../descriptors.ts';
import type { Environment, QueuePairSizes, RdmaBackendConfig } from '../rdma-config.ts';
import type { Chain, SubmissionLimits, WorkRequest } from '../submission.ts';
import type { TransferStatus } from '../transfer-status.ts';
import type { CallPhase } from './call-moves.ts';
import type { Host, Machine } from './host.ts';
import type { Quirks } from './quirks.ts';

/** The engine's whole state, as plain data. */
export interface IOEngine {
  readonly desc: EngineDesc;
  readonly environment: Environment;
  readonly machine: Machine;
  readonly host: Host;
  readonly quirks: Quirks;
  /** Virtual time of the last input, in microseconds. */
  nowMicros: number;
  nextMemoryId: number;
  nextTransferId: number;
  readonly memories: SmallMap<number, MemoryDesc>;
  /** Engines by key, as last registered. Upstream forgets them but for its backends. */
  readonly remoteEngines: SmallMap<string, EngineDesc>;
  rdma: RdmaBackend | null;
  xgmi: CopyBackend | null;
  fabric: CopyBackend | null;
  /** How the process ended, when a quirk ended it; the engine does nothing any more. */
  ended: string | null;
}

export interface RdmaBackend {
  readonly config: RdmaBackendConfig;
  readonly backoffMicros: number;
  /** Memory registered since the backend exists. */
  readonly memories: SmallMap<number, MemoryDesc>;
  readonly remoteEngines: SmallMap<string, EngineDesc>;
  readonly remotes: SmallMap<string, Remote>;
  readonly byQpn: SmallMap<number, Endpoint>;
  /** Regions by NIC and memory id, and the pool behind them by NIC and address. */
  readonly regions: SmallMap<string, PoolSlot>;
  readonly pool: SmallMap<string, PoolSlot>;
  /** Sessions of engine-level calls by remote key, local and remote memory id. */
  readonly cached: SmallMap<string, RdmaSession>;
  /** What is under way with peers, by exchange. */
  readonly exchanges: SmallMap<number, Exchange>;
  /** Creations by engine and topology pair: the first holds the lock. */
  readonly queues: SmallMap<string, Creation[]>;
  readonly waiters: SmallMap<number, Waiter>;
  /** Ids of memory that was deregistered. */
  readonly dead: Set<number>;
  /** Transfers that have not ended, so that removing the backend can tell them. */
  readonly transfers: Set<Transfer>;
  nextEndpointId: number;
  nextExchange: number;
  nextWaiter: number;
  /** CPU memory goes round the NICs, one queue pair after the other. */
  nicTurn: number;
}

export interface PoolSlot {
  readonly key: string;
  readonly nic: number;
  readonly region: RdmaMemoryRegion;
}

/** What a backend knows of one peer. */
export interface Remote {
  /** Endpoints by topology pair, in creation order; every session of the pair shares them. */
  readonly tables: SmallMap<string, Endpoint[]>;
  /** The peer's regions by its NIC and memory id. */
  readonly regions: SmallMap<string, RdmaMemoryRegion>;
  /** Notifications still missing, by transfer id. */
  readonly inbound: SmallMap<number, number>;
}

export interface Endpoint {
  readonly id: number;
  readonly remoteKey: string;
  readonly pair: TopoKeyPair;
  readonly nic: number;
  readonly nicRank: number;
  readonly sizes: QueuePairSizes;
  readonly maxMessageBytes: number;
  readonly ledger: Ledger;
  local: RdmaEndpointHandle;
  remoteNic: number;
  /** Work requests that hold a slot of the send queue. */
  depth: number;
  degraded: boolean;
  /** Sound engine only: a queue pair that has failed is down, until a new one was asked for and is up. */
  health: 'up' | 'down' | 'asking';
  /** Queue pairs that it has had: slots of an earlier one are void. */
  life: number;
  /** Waiters in the order they came. */
  waiters: Waiter[];
}

export interface Ledger {
  nextId: number;
  readonly records: SmallMap<number, LedgerRecord>;
  /** Work requests posted that no signaled one stands for. */
  orphans: number;
  /** The transfers they belong to (sound). */
  orphaned: Transfer[];
}

export interface LedgerRecord {
  /** Work requests that it stands for. */
  readonly posted: number;
  /** What its completion adds to the transfer's finished count. */
  readonly credits: number;
  /** Null: it stands for orphans alone. */
  readonly transfer: Transfer | null;
  /** Transfers whose orphans it stands for. */
  readonly orphaned: readonly Transfer[];
}

/** What a completion needs to know of its transfer. */
export interface Transfer {
  readonly call: Call;
  /** Null once an error was reported to it. */
  status: TransferStatus | null;
  total: number;
  finished: number;
  /** Posts on the wire that no completion has ended. */
  moving: number;
  /** What went wrong, until nothing of it moves any more and the status may tell (sound). */
  failure: Result | null;
}

/** What a user holds of a pair of memories: over queue pairs, or over copies between GPUs. */
export type Session = RdmaSession | CopySession;

export interface RdmaSession {
  readonly route: 'rdma';
  readonly remoteKey: string;
  readonly local: MemoryDesc;
  readonly remote: MemoryDesc;
  readonly endpoints: readonly Endpoint[];
  /** Keys by endpoint: local and remote. */
  readonly lkeys: readonly number[];
  readonly rkeys: readonly number[];
  readonly limits: SubmissionLimits;
  readonly depths: readonly number[];
  /** 0: everything is submitted by the caller. */
  readonly workers: number;
}

export interface CopySession {
  readonly route: CopyBackend['kind'];
  readonly local: MemoryDesc;
  readonly remote: MemoryDesc;
}

/** A call of Read, Write or a batch; upstream's caller is blocked in it until it has returned. */
export interface Call {
  readonly operation: 'read' | 'write';
  readonly transferId: number;
  readonly status: TransferStatus;
  session: RdmaSession | null;
  phase: CallPhase;
  slices: Slice[];
  /** By endpoint: the life of its queue pair in which the notification's slot was reserved. */
  reserved: number[];
  /** The notification's, while it waits for credit. */
  waiter: Waiter | null;
  /** The caller has gone on, but the notification is still to be sent (sound). */
  owesNotification: boolean;
  /** The exception that upstream's caller would catch. */
  threw: string | null;
  /** All data has arrived, but success is not told yet (sound). */
  dataDone: boolean;
}

/** Part of a call that one thread submits: the whole of it, or a worker's share. */
export interface Slice {
  readonly call: Call;
  readonly transfer: Transfer;
  readonly endpoints: readonly Endpoint[];
  readonly lkeys: readonly number[];
  readonly rkeys: readonly number[];
  readonly workRequests: readonly WorkRequest[];
  readonly chains: readonly Chain[];
  /** Work requests of one chain, which hints name. */
  readonly batchSize: number;
  /** Work requests and credits since the last signal, by endpoint. */
  readonly openPosted: number[];
  readonly openCredits: number[];
  /** The chain to post next. */
  next: number;
  waiter: Waiter | null;
  result: Result | null;
}

export interface Result {
  readonly code: StatusCode;
  readonly message: string;
}

/** Somebody blocked for want of credit. `number` names its timer. */
export interface Waiter {
  readonly number: number;
  readonly endpoint: Endpoint;
  readonly call: Call;
  /** Null: the call's notification waits. */
  readonly slice: Slice | null;
}

/** A session in the making. One frame is under way at a time. */
export interface Creation {
  readonly remoteKey: string;
  readonly local: MemoryDesc;
  readonly remote: MemoryDesc;
  readonly pair: TopoKeyPair;
  /** NICs by rank; null lets every queue pair choose by itself. */
  readonly nics: readonly number[] | null;
  /** Queue pairs wanted by rank. */
  readonly counts: readonly number[];
  readonly done: (outcome: CreationOutcome<RdmaSession>) => void;
}

export interface HalfEndpoint {
  readonly nic: number;
  readonly nicRank: number;
  readonly sizes: QueuePairSizes;
  readonly local: RdmaEndpointHandle;
}

export type Exchange =
  | { readonly kind: 'endpoint'; readonly creation: Creation; readonly half: HalfEndpoint }
  | { readonly kind: 'region'; readonly creation: Creation; readonly remoteNic: number }
  | { readonly kind: 'repair'; readonly endpoint: Endpoint; readonly local: RdmaEndpointHandle };

/** How the making of a session ended. Only the RDMA backend throws; the others say none. */
export type CreationOutcome<Made extends Session = Session> =
  | { readonly kind: 'session'; readonly session: Made }
  | { readonly kind: 'none' }
  | { readonly kind: 'threw'; readonly text: string };

/** XGMI or FABRIC. */
export interface CopyBackend {
  readonly kind: 'xgmi' | 'fabric';
  readonly config: XgmiBackendConfig;
  readonly hasCopyKernel: boolean;
  readonly remoteEngines: SmallMap<string, EngineDesc>;
  /** Events by the status that waits for them: only who polls a status learns of its end. */
  readonly events: SmallMap<TransferStatus, number>;
}

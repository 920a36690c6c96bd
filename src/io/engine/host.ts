import type { ControlMessage, RdmaEndpointHandle, RdmaMemoryRegion } from '../control-frames.ts';
import type { EngineDesc, MemoryDesc } from '../descriptors.ts';
import type { NicLimits, QueuePairSizes } from '../rdma-config.ts';
import type { WorkRequest } from '../submission.ts';

/**
 * What an engine asks of the machine it runs on. The verbs of its own NICs answer at once, as the real ones do; what
 * takes time comes back as an input of the engine: completions, answers of peers, timers.
 */
export interface Host {
  /** Makes a queue pair and gives its handle; `qpn` names it from then on. */
  createQueuePair(nic: number, sizes: QueuePairSizes): RdmaEndpointHandle;
  connectQueuePair(qpn: number, remote: RdmaEndpointHandle): void;
  /** Nothing of it completes any more. */
  destroyQueuePair(qpn: number): void;
  postReceives(qpn: number, count: number): void;
  postSend(qpn: number, chain: PostedChain): PostOutcome;
  /** One inline SEND that asks for a completion; 0, or an errno. */
  postNotification(qpn: number, wrId: number, message: Notification): number;
  registerRegion(nic: number, address: bigint, bytes: bigint): RdmaMemoryRegion;
  deregisterRegion(nic: number, region: RdmaMemoryRegion): void;
  /** The port that was bound, or null when it is in use. */
  listen(host: string, port: number): number | null;
  /**
   * Sends a control message on a connection of its own, as a frame if it leaves the process (`encodeMessage`). The answer
   * is an input with the same `exchange`.
   */
  request(exchange: number, peer: EngineDesc, message: ControlMessage): void;
  /** Wakes the engine with `timer` at that time. */
  arm(timer: number, atMicros: number): void;
  /** The timer is of no use any more; one that rings all the same does no harm. */
  disarm(timer: number): void;
  /** Starts a copy between GPUs. An event to ask for, or what the runtime says of its error. */
  startCopy(copy: GpuCopy): number | string;
  copyDone(event: number): boolean;
  log(level: 'error' | 'warn' | 'info', text: string): void;
  /** The library would have ended the process here. */
  processEnds(how: 'abort' | 'exit 255' | 'undefined behaviour', text: string): void;
}

export interface GpuCopy {
  readonly operation: 'read' | 'write';
  readonly local: MemoryDesc;
  readonly remote: MemoryDesc;
  /** Triples of local offset, remote offset, bytes, relative to `data` of the two. */
  readonly runs: readonly number[];
}

/** One ibv_post_send: the work requests [first, end) of a list. Offsets are relative to the regions that the keys name. */
export interface PostedChain {
  readonly operation: 'read' | 'write';
  /** The transfer's id; -1 of a work request that only gives slots back. No NIC looks at it. */
  readonly transferId: number;
  readonly lkey: number;
  readonly rkey: number;
  readonly workRequests: readonly WorkRequest[];
  readonly first: number;
  readonly end: number;
  /** Whether the last of them asks for a completion. */
  readonly signaled: boolean;
  /** wr_id of the last one when it is signaled. */
  readonly tailId: number;
  /** wr_id of every other. */
  readonly innerId: number;
}

export interface PostOutcome {
  readonly posted: number;
  /** 0 when all were posted. */
  readonly errno: number;
}

/** What a SEND carries: the transfer, the queue pair's index in its session, and how many there are. */
export interface Notification {
  readonly id: number;
  readonly qpIndex: number;
  readonly totalNum: number;
}

/** Outcomes of a work request: ibv_wc_status without its prefix, in order of the numbers. */
export type WorkStatus =
  | 'SUCCESS'
  | 'LOC_LEN_ERR'
  | 'LOC_QP_OP_ERR'
  | 'LOC_EEC_OP_ERR'
  | 'LOC_PROT_ERR'
  | 'WR_FLUSH_ERR'
  | 'MW_BIND_ERR'
  | 'BAD_RESP_ERR'
  | 'LOC_ACCESS_ERR'
  | 'REM_INV_REQ_ERR'
  | 'REM_ACCESS_ERR'
  | 'REM_OP_ERR'
  | 'RETRY_EXC_ERR'
  | 'RNR_RETRY_EXC_ERR'
  | 'LOC_RDD_VIOL_ERR'
  | 'REM_INV_RD_REQ_ERR'
  | 'REM_ABORT_ERR'
  | 'INV_EECN_ERR'
  | 'INV_EEC_STATE_ERR'
  | 'FATAL_ERR'
  | 'RESP_TIMEOUT_ERR'
  | 'GENERAL_ERR';

/** A completion queue entry. `opcode` means something only in success, as with real verbs. */
export interface WorkCompletion {
  readonly qpn: number;
  readonly opcode: 'data' | 'send' | 'recv';
  readonly wrId: number;
  readonly status: WorkStatus;
  /** Of a receive. */
  readonly message?: Notification;
}

export interface NicPort {
  readonly name: string;
  readonly gbps: number;
  readonly numaNode: number;
  readonly limits: NicLimits;
}

export interface Gpu {
  readonly busId: string;
  readonly numaNode: number;
  /** The NICs that upstream's search gives it, best first. */
  readonly nics: readonly number[];
  readonly fabricCapable: boolean;
}

/** The machine as CreateBackend finds it. */
export interface Machine {
  readonly nodeId: string;
  readonly hostname: string;
  readonly pid: number;
  /** Active ports of the devices that the filter lets through. */
  readonly nics: readonly NicPort[];
  readonly gpus: readonly Gpu[];
  /** Whether two devices, by bus id, reach each other's memory. */
  readonly peerAccess: (left: string, right: string) => boolean;
}

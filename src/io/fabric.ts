import { UsageError } from '../base/failure.ts';
import type { ActorId } from '../base/topology.ts';
import type { StatusCode } from './codes.ts';

/**
 * The one port to the metal: register memory, connect, post work requests, poll completions. The simulated fabric copies
 * inside the run's WebAssembly memory; a native one hands the same calls to a real NIC. The world owns the order either
 * way: it posts a batch when the tape says that it lands, and shows its completion to the poster when the tape says so.
 */
export interface Fabric {
  /** `wasm`, or `native` when libfabric moves the bytes. */
  readonly name: string;
  /** Registers bytes [start, end) of the run's memory for one actor. @throws UsageError FABRIC-REGION */
  registerMemory(owner: ActorId, start: number, end: number): MemoryRegion;
  /** Takes the region back; what still names its key ends with an error. */
  deregisterMemory(region: MemoryRegion): void;
  /**
   * A queue pair between two regions; 0 if none is named. What is posted on different ones is in no order. A fabric that
   * has fewer than its caller names serves several by one. @throws UsageError FABRIC-QUEUE-PAIR
   */
  connect(initiator: MemoryRegion, target: MemoryRegion, queuePair?: number): Connection;
  /**
   * Starts moving `runs`, triples (local offset, remote offset, bytes) relative to the two regions. `id` is the caller's;
   * exactly one completion with it is polled later.
   */
  post(connection: Connection, operation: 'read' | 'write', runs: readonly number[], id: number): void;
  /** Completions since the last call, in no promised order across connections. Never waits. */
  poll(): Completion[];
  /**
   * For who has nothing to do before a completion comes: returns soon, and then it may have come. Absent where every
   * batch is completed when `post` returns.
   */
  rest?(): void;
}

export interface MemoryRegion {
  readonly owner: ActorId;
  readonly start: number;
  readonly end: number;
  /** What a peer must present; a deregistered region's key is never given again in a run. */
  readonly key: number;
}

export interface Connection {
  readonly initiator: MemoryRegion;
  readonly target: MemoryRegion;
  readonly queuePair: number;
}

export interface Completion {
  readonly id: number;
  readonly code: StatusCode;
  readonly message: string;
}

/** A connection as each fabric makes it. @throws UsageError FABRIC-QUEUE-PAIR */
export function connectRegions(initiator: MemoryRegion, target: MemoryRegion, queuePair = 0): Connection {
  if (Number.isInteger(queuePair) && queuePair >= 0) return { initiator, target, queuePair };
  throw new UsageError('FABRIC-QUEUE-PAIR', `queue pair ${queuePair}: it must be an integer from 0 on`);
}

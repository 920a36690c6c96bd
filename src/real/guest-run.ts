import type { ActorId, EngineId, RequestId, TransferId } from '../base/topology.ts';
import type { WorkerEnv } from '../connector/plug.ts';
import type { Answer } from './answers.ts';

/** What the two halves of a guest share. */

/** What one run asks of the process. */
export interface GuestRun {
  ask(question: object): Answer;
  /** An engine's scheduler hears of a request; a guest has no other name for a transfer than its request's. */
  meet(engine: EngineId, request: RequestId, transfer: TransferId): void;
  /** 0 for a request that the engine has not met. */
  transferOf(engine: EngineId, request: RequestId): TransferId;
  /** The ranks, by actor. `connect` of the guests' transport stands for a handshake of its own: here the peer describes itself. */
  readonly ranks: Map<ActorId, WorkerEnv>;
}

/** For the ranks of the same engine: what the guest has packed, and who has finished since the last time. */
export interface GuestMeta {
  readonly packed: string | null;
  readonly finished: readonly string[];
}

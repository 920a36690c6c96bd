import type { ActorId } from '../base/topology.ts';
import type { MessageRow } from './messages.ts';

/** What is on its way over a queue pair: a chain of a batch, the notification of a transfer, or empty writes that give slots back. */
export interface CarriedRow {
  readonly carries: 'batch' | 'notification' | 'credit';
  readonly operation: 'read' | 'write';
  readonly workRequests: number;
  readonly layer: number;
  readonly transfer: number;
  readonly request: number;
  /** The engine's own number of the transfer that a notification is about; -1 for the others. */
  readonly engineTransfer: number;
  readonly blocks: readonly number[];
}

/**
 * What becomes of it, as far as that is known when its time has come: it lands, it waits for what is before it on the queue
 * pair, it finds no receive and is tried again, or its queue pair is broken or gone.
 */
export type LandingState = 'lands' | 'waits' | 'not-ready' | 'flushed' | 'void';

/** What happened in a step. -1 stands for no batch, layer, transfer or request. */
export type EventRow =
  | {
      readonly kind: 'arrive';
      readonly request: number;
      readonly promptTokens: number;
      readonly outputTokens: number;
      readonly ordinary: boolean;
    }
  | { readonly kind: 'abort'; readonly request: number }
  | { readonly kind: 'crash' }
  | { readonly kind: 'lost'; readonly message: MessageRow }
  | { readonly kind: 'stray'; readonly message: MessageRow }
  | { readonly kind: 'message'; readonly from: ActorId; readonly message: MessageRow }
  | { readonly kind: 'timer'; readonly timer: number; readonly object: number }
  | { readonly kind: 'turn'; readonly thread: number }
  | { readonly kind: 'joined'; readonly phase: number }
  | {
      readonly kind: 'land';
      readonly from: ActorId;
      readonly queuePair: number;
      readonly state: LandingState;
      /** Name of the NIC fault; '' for none. */
      readonly nicFault: string;
      readonly carried: CarriedRow;
    }
  /** The engine sees an entry of a completion queue. */
  | {
      readonly kind: 'completion';
      readonly queuePair: number;
      readonly opcode: 'data' | 'send' | 'recv';
      readonly status: string;
      readonly layer: number;
      readonly transfer: number;
      readonly request: number;
    }
  /** The engine says that a batch has ended which had no entry of its own. */
  | {
      readonly kind: 'ended';
      readonly queuePair: number;
      /** A StatusCode of the MoRI-IO engine, and its message. */
      readonly code: number;
      readonly status: string;
      readonly layer: number;
      readonly transfer: number;
      readonly request: number;
    }
  | { readonly kind: 'engineTimer'; readonly timer: number }
  | { readonly kind: 'overflow'; readonly queuePair: number };

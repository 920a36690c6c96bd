import type { BlockId, EngineId, RequestId, TransferId } from '../base/topology.ts';

/**
 * Every message between actors. Three kinds of path carry them: HTTP between the proxy and a scheduler, the in-process
 * channel between a scheduler and its own ranks, and the notify and handshake sockets between ranks of two engines.
 */

/** What a client asked for. Shared and immutable: all engines see the same object. */
export interface Prompt {
  readonly request: RequestId;
  readonly promptTokens: number;
  /** Tokens to generate, at least 1. */
  readonly maxTokens: number;
  /** Byte address of one u32 for each cell position of prompt and answer: the hash of all tokens up to there. */
  readonly lineageAddress: number;
  /** Prefix-cache key of the prompt's k-th full block of `blockTokens` tokens; equal keys mean equal prefixes. */
  readonly blockKeys: readonly number[];
}

export type Leg = 'prefill' | 'decode' | 'whole';

/** What P returns for D in READ mode; the part of vLLM's kv_transfer_params that a transfer needs. */
export interface KvTransferParams {
  readonly transfer: TransferId;
  readonly remoteEngine: EngineId;
  readonly remoteBlocks: readonly BlockId[];
  /** Prompt tokens whose KV lies in `remoteBlocks`. */
  readonly remoteTokens: number;
}

export interface Generate {
  readonly kind: 'generate';
  readonly request: RequestId;
  readonly transfer: TransferId;
  readonly leg: Leg;
  readonly prompt: Prompt;
  readonly maxTokens: number;
  /** The other leg's engine; -1 when this leg has none or must not know it. */
  readonly remoteEngine: EngineId;
  readonly params: KvTransferParams | null;
}

export interface Answer {
  readonly kind: 'answer';
  readonly request: RequestId;
  readonly transfer: TransferId;
  readonly leg: Leg;
  readonly ok: boolean;
  readonly cause: string;
  /** One checksum for each generated token: the sum of all KV stamps that its attention read. */
  readonly tokens: readonly number[];
  readonly params: KvTransferParams | null;
}

export interface StepItem {
  readonly request: RequestId;
  readonly transfer: TransferId;
  readonly tokenFrom: number;
  readonly tokenTo: number;
  /** The request's block table; block i holds tokens [i * blockTokens, (i + 1) * blockTokens). */
  readonly blocks: readonly BlockId[];
  readonly lineageAddress: number;
  /** First step of this request here since it was admitted or preempted: all it reads was put there by somebody else. */
  readonly fresh: boolean;
}

export type HttpMessage =
  | Generate
  | Answer
  | { readonly kind: 'abort'; readonly request: RequestId; readonly transfer: TransferId }
  | { readonly kind: 'engineDown'; readonly engine: EngineId };

export type LocalMessage =
  | {
      readonly kind: 'runStep';
      readonly step: number;
      readonly items: readonly StepItem[];
      readonly meta: unknown;
    }
  | {
      readonly kind: 'stepDone';
      readonly step: number;
      readonly tpRank: number;
      readonly sums: readonly number[];
    }
  | {
      readonly kind: 'report';
      readonly tpRank: number;
      readonly sent: readonly RequestId[];
      readonly received: readonly RequestId[];
      readonly failed: readonly RequestId[];
    };

/**
 * A message of the connector's own, from rank to rank of another engine. Its name and fields are for the connector to
 * choose and to describe (`Connector.messages`); they are plain data, as a socket would carry them.
 */
export interface PeerMessage {
  readonly kind: 'peer';
  readonly name: string;
  readonly [field: string]: unknown;
}

/** What arrives when the sender was not one of ours, or the bytes were harmed on the way, and what a connector sends that speaks in bytes. */
export interface BytesMessage {
  readonly kind: 'bytes';
  /** Which socket of the receiver it came in by. */
  readonly port: 'notify' | 'handshake';
  readonly bytes: Uint8Array;
}

export type Message = HttpMessage | LocalMessage | PeerMessage | BytesMessage;

/** How a refusal names it: a connector's own message by its own name. */
export function nameOfMessage(message: Message): string {
  return message.kind === 'peer' ? message.name : message.kind;
}

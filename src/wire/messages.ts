import type { LayerView } from '../base/cache-view.ts';
import type { BlockId, EngineId, RequestId, Role, TransferId } from '../base/topology.ts';

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

/** Geometry one rank tells a peer in the handshake, so that a refusal can name its cause. */
export interface RankGeometry {
  readonly engine: EngineId;
  readonly role: Role;
  readonly tpRank: number;
  readonly tpSize: number;
  readonly blockTokens: number;
  readonly views: readonly LayerView[];
}

/**
 * The protocol of the shipped connector, from rank to rank. The *target* owns the memory that is touched (D in WRITE
 * mode, P in READ mode); the *initiator* posts the work requests.
 */
export type PeerMessage =
  /** Initiator asks for the target's descriptors. */
  | { readonly kind: 'metaRequest'; readonly attempt: number }
  | {
      readonly kind: 'metaReply';
      readonly attempt: number;
      readonly epoch: number;
      readonly engineDesc: Uint8Array;
      readonly memoryDesc: Uint8Array;
      readonly geometry: RankGeometry;
    }
  /** READ: D asks P's rank for leave to read. */
  | {
      readonly kind: 'claim';
      readonly transfer: TransferId;
      readonly tpSize: number;
      readonly attempt: number;
    }
  /**
   * Target lends blocks. `grant` counts up per (target, initiator), so that a stale copy is known by its number alone.
   * `blocks[0]` holds slot `firstSlot`; only slots [slotFrom, slotTo) may be touched, and only over a connection of the
   * same `epoch`: a fence starts a new one, and what was granted before it is void.
   */
  | {
      readonly kind: 'grant';
      readonly transfer: TransferId;
      readonly grant: number;
      readonly blocks: readonly BlockId[];
      readonly epoch: number;
      readonly firstSlot: number;
      readonly slotFrom: number;
      readonly slotTo: number;
      readonly attempt: number;
    }
  | { readonly kind: 'refuse'; readonly transfer: TransferId; readonly attempt: number }
  /** Initiator: no operation of mine names these blocks any more. `ok` says that all of them landed. */
  | {
      readonly kind: 'seal';
      readonly transfer: TransferId;
      readonly ok: boolean;
      readonly tpSize: number;
      readonly attempt: number;
    }
  | { readonly kind: 'sealAck'; readonly transfer: TransferId; readonly attempt: number }
  /** Target wants its blocks back: stop, drain, then seal. */
  | {
      readonly kind: 'revoke';
      readonly transfer: TransferId;
      readonly grant: number;
      readonly attempt: number;
    };

/** What arrives when the sender was not one of ours, or the bytes were harmed on the way; and the first connector's own form. */
export interface BytesMessage {
  readonly kind: 'bytes';
  /** Which socket of the receiver it came in by. */
  readonly port: 'notify' | 'handshake';
  readonly bytes: Uint8Array;
}

export type Message = HttpMessage | LocalMessage | PeerMessage | BytesMessage;

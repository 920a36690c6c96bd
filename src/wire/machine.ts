import type { ActorId, BlockId, EngineId, RequestId, TransferId } from '../base/topology.ts';
import type { Leg, Message } from './messages.ts';

/**
 * What any machine can be told and may ask for. A machine is `step(state, at, input, emit)`: one input in, all effects
 * out; the world runs the effects in order before the next step. `at` is virtual time in microseconds.
 */

export type Input =
  | { readonly kind: 'message'; readonly from: ActorId; readonly message: Message }
  | { readonly kind: 'timer'; readonly timer: number; readonly object: number }
  /** A thread of the machine may take its next action. Thread 0 is the machine's own loop. */
  | { readonly kind: 'turn'; readonly thread: number }
  /** Every rank of the group has reached this point of the forward pass. */
  | { readonly kind: 'joined'; readonly phase: number }
  /** A posted batch ended; `code` is a StatusCode of the MoRI-IO engine. */
  | { readonly kind: 'completion'; readonly tag: number; readonly code: number };

/** Work requests of one queue pair, all for one transfer and one layer range. */
export interface PostedBatch {
  /** The poster's own name for it; comes back in the completion. */
  readonly tag: number;
  readonly peer: ActorId;
  readonly queuePair: number;
  readonly operation: 'read' | 'write';
  readonly transfer: TransferId;
  readonly request: RequestId;
  readonly layer: number;
  /** Ordinal of the batch within (transfer, peer, layer), for keys and people. */
  readonly part: number;
  /** Triples (local offset, remote offset, bytes), each offset relative to its registered region. */
  readonly runs: readonly number[];
  /** Every block that the runs touch on either side; one that is missing breaks I1. */
  readonly localBlocks: readonly BlockId[];
  readonly remoteBlocks: readonly BlockId[];
}

/** What a rank's MoRI-IO engine says of itself and of one memory, packed (mori-io.md A2); what peers send each other. */
export interface Description {
  readonly engineDesc: Uint8Array;
  readonly memoryDesc: Uint8Array;
}

export type Effect =
  | { readonly kind: 'send'; readonly to: ActorId; readonly message: Message }
  /** Wakes the machine once, somewhere in [earliest, latest]; re-arming replaces. The world chooses where. */
  | {
      readonly kind: 'arm';
      readonly timer: number;
      readonly object: number;
      readonly earliest: number;
      readonly latest: number;
    }
  | { readonly kind: 'stop'; readonly timer: number; readonly object: number }
  | { readonly kind: 'turn'; readonly thread: number; readonly delayMicros: number }
  | { readonly kind: 'join'; readonly phase: number; readonly delayMicros: number }
  /**
   * Makes a session from what the peer said of itself: MoRI-IO's packed descriptors of its engine and of the memory that it
   * lent. Nothing else is known of the peer: what they say wrongly goes wrong. Posts towards `peer` go over this session.
   */
  | ({ readonly kind: 'connect'; readonly peer: ActorId } & Description)
  | { readonly kind: 'post'; readonly batch: PostedBatch }
  /**
   * Target side: takes the memory lent to `peer` back and lends it under a new key. Nothing of `peer` can land after this until
   * it has connected with the new descriptor.
   */
  | { readonly kind: 'fence'; readonly peer: ActorId }
  /** Initiator side: the queue pairs towards `peer` are taken down, and every batch of them ends. */
  | { readonly kind: 'reset'; readonly peer: ActorId }
  | { readonly kind: 'note'; readonly note: Note };

export type Emit = (effect: Effect) => void;

/** A fact about a run that a judge, a counter or a reader needs and that no other effect shows. */
export type Note =
  | { readonly kind: 'allocate'; readonly request: RequestId; readonly blocks: readonly BlockId[] }
  | { readonly kind: 'share'; readonly request: RequestId; readonly blocks: readonly BlockId[] }
  | { readonly kind: 'free'; readonly request: RequestId; readonly blocks: readonly BlockId[] }
  /** The connector is to bring the KV of tokens [tokenFrom, tokenTo) into blocks that the request holds now. */
  | {
      readonly kind: 'external';
      readonly request: RequestId;
      readonly tokenFrom: number;
      readonly tokenTo: number;
    }
  /** The proxy chose who serves a request; `turn` counts the choices made for that instance so far. */
  | {
      readonly kind: 'assign';
      readonly request: RequestId;
      readonly transfer: TransferId;
      readonly prefill: EngineId;
      readonly decode: EngineId;
    }
  /** The client was told the end of its request. */
  | {
      readonly kind: 'outcome';
      readonly request: RequestId;
      readonly outcome: 'completed' | 'failed' | 'aborted';
      readonly cause: string;
      readonly tokens: readonly number[];
    }
  /** Attention met a cell whose stamp is not the one a single-node run would have. */
  | {
      readonly kind: 'misread';
      readonly request: RequestId;
      readonly layer: number;
      readonly token: number;
      readonly head: number;
      readonly part: number;
      readonly expected: number;
      readonly actual: number;
      readonly block: BlockId;
    }
  /** A rank says the KV of [tokenFrom, tokenTo) is in its cache. */
  | {
      readonly kind: 'loaded';
      readonly request: RequestId;
      readonly transfer: TransferId;
      readonly blocks: readonly BlockId[];
      readonly tokenTo: number;
      readonly lineageAddress: number;
    }
  /** A message or completion was turned away: why, as a name, and what it was about. */
  | { readonly kind: 'refused'; readonly reason: string; readonly fields: Fields }
  /** A thread ended by an exception. */
  | { readonly kind: 'died'; readonly thread: string; readonly cause: string }
  /** A thread polls a condition that only others can change; `progress` false means nothing it reads has changed. */
  | { readonly kind: 'spin'; readonly thread: string; readonly waitsFor: string }
  | { readonly kind: 'firstToken'; readonly request: RequestId }
  | { readonly kind: 'prefixHit'; readonly request: RequestId; readonly leg: Leg; readonly tokens: number }
  /** Something worth reaching happened, of the world's goals or the connector's own; a campaign counts them. */
  | { readonly kind: 'goal'; readonly name: string }
  /** Something that a reader of the run wants to know: a name of small letters and hyphens, and what it is about. */
  | { readonly kind: 'log'; readonly name: string; readonly fields: Fields };

/** Who waits for whom: one edge of the waits-for graph. */
export interface Wait {
  readonly who: ActorId;
  /** What kind of thing it waits for: a name of letters and hyphens, such as `seal-ack`. */
  readonly what: string;
  /** Which one: its numbers, by their names. */
  readonly fields: Fields;
  /** -1 when it waits for nobody in particular. */
  readonly whom: ActorId;
}

/** What a fact is about: numbers, names and lists of numbers, by their names. */
export type Fields = { readonly [name: string]: number | string | readonly number[] };

import { SmallMap } from '../base/small-map.ts';
import type { BlockId, EngineSpec, Mode, RequestId, TransferId } from '../base/topology.ts';
import type { ConnectorScheduler, RequestView } from '../connector/plug.ts';
import type { Emit } from '../wire/machine.ts';
import type { KvTransferParams, Leg, Prompt, StepItem } from '../wire/messages.ts';
import { type BlockPool, cacheBlock, createBlockPool, releaseBlocks } from './block-pool.ts';
import type { RequestPhase } from './moves.ts';

/**
 * The engine core of the little vLLM: one request queue, one batch in flight, chunked prefill under a token budget,
 * prefix cache, preemption. The KV connector is asked where vLLM asks it.
 */

export interface SchedulerConfig {
  readonly spec: EngineSpec;
  readonly mode: Mode;
  readonly blocks: number;
  readonly blockTokens: number;
  readonly batchTokensMax: number;
  readonly batchRequestsMax: number;
  /** Extra token slots allocated beyond the scheduled tokens, as speculative decoding does. */
  readonly lookAheadTokens: number;
  /** Pause between a wake-up and the step it starts. */
  readonly scheduleMicros: number;
  /**
   * False: the connector gets copies of the block lists of a step. True: it gets them themselves, and they grow in place, so that
   * a request of millions of tokens costs a word for each block and not one for each block and step.
   */
  readonly lendsLists: boolean;
}

/** One leg of one request, as this engine serves it. */
export interface Served {
  /** What the connector may see of it; set once, by `viewOf`. */
  view: RequestView;
  readonly request: RequestId;
  readonly transfer: TransferId;
  readonly leg: Leg;
  readonly prompt: Prompt;
  readonly maxTokens: number;
  readonly remoteEngine: number;
  readonly params: KvTransferParams | null;
  phase: RequestPhase;
  computed: number;
  /** Not changed in place where copies are made, since steps on their way to the ranks name it: a longer table is another list. */
  blocks: BlockId[];
  /** Tokens that will be there when the load has ended well. */
  loadedTo: number;
  /** A checksum for each generated token. */
  readonly tokens: number[];
  /** Ranks that have reported the end of this request's transfer, as a bit set. */
  reported: number;
  loadFailed: boolean;
  fresh: boolean;
  cachedTo: number;
}

export interface StepInFlight {
  readonly step: number;
  readonly items: readonly StepItem[];
  readonly sums: number[];
  ranksLeft: number;
}

export interface SchedulerState {
  readonly config: SchedulerConfig;
  readonly connector: ConnectorScheduler;
  readonly pool: BlockPool;
  readonly requests: SmallMap<RequestId, Served>;
  waiting: Served[];
  running: Served[];
  inFlight: StepInFlight | null;
  /** Aborts that came during a step; they take effect between steps, as in vLLM. */
  deferredAborts: RequestId[];
  steps: number;
  turnPending: boolean;
}

export function createScheduler(config: SchedulerConfig, connector: ConnectorScheduler): SchedulerState {
  return {
    config,
    connector,
    pool: createBlockPool(config.blocks),
    requests: new SmallMap(),
    waiting: [],
    running: [],
    inFlight: null,
    deferredAborts: [],
    steps: 0,
    turnPending: false,
  };
}

/** Reads of the request as it is now; there is nothing in it that a connector could change. */
class ServedView implements RequestView {
  readonly #served: Served;

  constructor(served: Served) {
    this.#served = served;
  }

  get request(): RequestId {
    return this.#served.request;
  }

  get transfer(): TransferId {
    return this.#served.transfer;
  }

  get leg(): Leg {
    return this.#served.leg;
  }

  get prompt(): Prompt {
    return this.#served.prompt;
  }

  get remoteEngine(): number {
    return this.#served.remoteEngine;
  }

  get params(): KvTransferParams | null {
    return this.#served.params;
  }

  get computed(): number {
    return this.#served.computed;
  }

  get blocks(): readonly BlockId[] {
    return [...this.#served.blocks];
  }
}
Object.freeze(ServedView.prototype);

/** A request with its view. */
export function withView(served: Omit<Served, 'view'>): Served {
  const viewed = served as Served;
  viewed.view = Object.freeze(new ServedView(viewed));
  return viewed;
}

export function wake(state: SchedulerState, emit: Emit): void {
  if (state.turnPending || state.inFlight !== null) return;
  state.turnPending = true;
  emit({ kind: 'turn', thread: 0, delayMicros: state.config.scheduleMicros });
}

export function blocksFor(state: SchedulerState, tokens: number): number {
  return Math.ceil(tokens / state.config.blockTokens);
}

export function totalTokens(served: Served): number {
  return served.prompt.promptTokens + served.tokens.length;
}

/** Full blocks of the prompt become findable; generated tokens are not cached. */
export function cacheComputed(state: SchedulerState, served: Served): void {
  const full = Math.min(
    served.prompt.blockKeys.length,
    Math.floor(served.computed / state.config.blockTokens),
  );
  for (; served.cachedTo < full; served.cachedTo++) {
    cacheBlock(state.pool, served.blocks[served.cachedTo]!, served.prompt.blockKeys[served.cachedTo]!);
  }
}

export function free(state: SchedulerState, served: Served, emit: Emit): void {
  if (served.blocks.length === 0) return;
  emit({ kind: 'note', note: { kind: 'free', request: served.request, blocks: served.blocks } });
  releaseBlocks(state.pool, served.blocks, served.request);
  served.blocks = [];
}

import { type ActorId, type BlockId, type EngineSpec, type Mode, PROXY, type RequestId, type TransferId } from '../base/topology.ts';
import type { ConnectorScheduler } from '../connector/plug.ts';
import type { Emit, Input, Wait } from '../wire/machine.ts';
import type { Generate, KvTransferParams, Leg, Message, Prompt, StepItem } from '../wire/messages.ts';
import { allocateBlocks, type BlockPool, cacheBlock, countFreeAmong, createBlockPool, findCachedPrefix, releaseBlocks, shareBlocks } from './block-pool.ts';

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
}

type Status = 'waiting' | 'loading' | 'running' | 'ended';

/** One leg of one request, as this engine serves it. Satisfies the connector's RequestView. */
interface Served {
  readonly request: RequestId;
  readonly transfer: TransferId;
  readonly leg: Leg;
  readonly prompt: Prompt;
  readonly maxTokens: number;
  readonly remoteEngine: number;
  readonly params: KvTransferParams | null;
  status: Status;
  computed: number;
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

interface StepInFlight {
  readonly step: number;
  readonly items: readonly StepItem[];
  readonly sums: number[];
  ranksLeft: number;
}

export interface SchedulerState {
  readonly config: SchedulerConfig;
  readonly connector: ConnectorScheduler;
  readonly pool: BlockPool;
  readonly requests: Map<RequestId, Served>;
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
    requests: new Map(),
    waiting: [],
    running: [],
    inFlight: null,
    deferredAborts: [],
    steps: 0,
    turnPending: false,
  };
}

export function stepScheduler(state: SchedulerState, at: number, input: Input, emit: Emit): void {
  if (input.kind === 'message') onMessage(state, input.from, input.message, at, emit);
  else if (input.kind === 'turn') {
    state.turnPending = false;
    schedule(state, at, emit);
  }
}

function onMessage(state: SchedulerState, from: ActorId, message: Message, at: number, emit: Emit): void {
  switch (message.kind) {
    case 'generate':
      return onGenerate(state, message, emit);
    case 'abort':
      if (state.inFlight !== null) state.deferredAborts.push(message.request);
      else abort(state, message.request, emit);
      return;
    case 'stepDone':
      return onStepDone(state, message.step, message.sums, at, emit);
    case 'report':
      for (const request of message.sent) onReport(state, request, message.tpRank, false, emit);
      for (const request of message.received) onReport(state, request, message.tpRank, false, emit);
      for (const request of message.failed) onReport(state, request, message.tpRank, true, emit);
      return;
    default:
      return emit({ kind: 'note', note: { kind: 'refused', cause: `${message.kind} from actor ${from} is not for a scheduler` } });
  }
}

function wake(state: SchedulerState, emit: Emit): void {
  if (state.turnPending || state.inFlight !== null) return;
  state.turnPending = true;
  emit({ kind: 'turn', thread: 0, delayMicros: state.config.scheduleMicros });
}

function onGenerate(state: SchedulerState, message: Generate, emit: Emit): void {
  const { request, transfer, leg, prompt, maxTokens, remoteEngine, params } = message;
  const served: Served = {
    request,
    transfer,
    leg,
    prompt,
    maxTokens,
    remoteEngine,
    params,
    status: 'waiting',
    computed: 0,
    blocks: [],
    loadedTo: 0,
    tokens: [],
    reported: 0,
    loadFailed: false,
    fresh: true,
    cachedTo: 0,
  };
  if (blocksFor(state, prompt.promptTokens + maxTokens + state.config.lookAheadTokens) > state.pool.total) {
    return answer(served, false, 'the request needs more KV blocks than this engine has', null, emit);
  }
  if (leg === 'whole') goal(emit, 'ordinary-request');
  state.requests.set(request, served);
  state.waiting.push(served);
  wake(state, emit);
}

function blocksFor(state: SchedulerState, tokens: number): number {
  return Math.ceil(tokens / state.config.blockTokens);
}

function totalTokens(served: Served): number {
  return served.prompt.promptTokens + served.tokens.length;
}

/** Builds one batch, vLLM's order: running requests first, then waiting ones while the budget lasts. */
function schedule(state: SchedulerState, at: number, emit: Emit): void {
  if (state.inFlight !== null) return;
  const items: StepItem[] = [];
  let budget = state.config.batchTokensMax;
  const waitingBefore = state.waiting.length;
  for (const served of [...state.running]) {
    if (budget === 0) break;
    if (served.status !== 'running') continue;
    const tokens = Math.min(totalTokens(served) - served.computed, budget);
    if (tokens <= 0 || !growOrPreempt(state, served, served.computed + tokens, items, emit)) continue;
    budget -= addItem(served, tokens, items);
  }
  if (state.waiting.length <= waitingBefore) admitWaiting(state, items, budget, at, emit);
  const meta = state.connector.buildConnectorMeta(items, (request) => state.requests.get(request)!);
  // Somebody may have been preempted for nobody: look again, or the free blocks would wait for the next message.
  if (items.length === 0 && state.waiting.length > waitingBefore) wake(state, emit);
  if (items.length === 0 && meta === null) return;
  const step = state.steps++;
  for (const rank of state.config.spec.ranks) emit({ kind: 'send', to: rank, message: { kind: 'runStep', step, items, meta } });
  if (items.length === 0) return;
  if (items.some((item) => isChunk(state, item))) goal(emit, 'chunked-prefill');
  state.inFlight = { step, items, sums: new Array<number>(items.length).fill(0), ranksLeft: state.config.spec.ranks.length };
}

function isChunk(state: SchedulerState, item: StepItem): boolean {
  return item.tokenTo < state.requests.get(item.request)!.prompt.promptTokens;
}

function addItem(served: Served, tokens: number, items: StepItem[]): number {
  const { request, transfer, computed, blocks, prompt, fresh } = served;
  items.push({ request, transfer, tokenFrom: computed, tokenTo: computed + tokens, blocks, lineageAddress: prompt.lineageAddress, fresh });
  served.fresh = false;
  return tokens;
}

/** Gives a running request its blocks; when there are none, somebody is preempted for it, at last it itself. */
function growOrPreempt(state: SchedulerState, served: Served, tokensTo: number, items: StepItem[], emit: Emit): boolean {
  while (!grow(state, served, tokensTo, emit)) {
    const victim = findVictim(state, served, items);
    if (victim === undefined) return false;
    preempt(state, victim, emit);
    if (victim === served) return false;
  }
  return true;
}

/**
 * The youngest other running request; else the last waiting one that holds blocks, its load having ended: if it were
 * spared, the two could take turns in lacking blocks for ever; else the request itself.
 */
function findVictim(state: SchedulerState, served: Served, items: readonly StepItem[]): Served | undefined {
  const isFree = (candidate: Served): boolean => mayPreempt(state, candidate) && !items.some((item) => item.request === candidate.request);
  return (
    state.running.findLast((candidate) => candidate !== served && isFree(candidate)) ??
    state.waiting.findLast((candidate) => candidate.blocks.length > 0) ??
    (isFree(served) ? served : undefined)
  );
}

/** A prefill whose blocks are the source of a running WRITE must stay: its writes name them. */
function mayPreempt(state: SchedulerState, served: Served): boolean {
  return served.leg !== 'prefill' || state.config.mode === 'read';
}

function grow(state: SchedulerState, served: Served, tokensTo: number, emit: Emit): boolean {
  const wanted = blocksFor(state, tokensTo + state.config.lookAheadTokens) - served.blocks.length;
  if (wanted <= 0) return true;
  const blocks = allocateBlocks(state.pool, wanted);
  if (blocks === null) return false;
  served.blocks.push(...blocks);
  emit({ kind: 'note', note: { kind: 'allocate', request: served.request, blocks } });
  return true;
}

function preempt(state: SchedulerState, victim: Served, emit: Emit): void {
  if (victim.status === 'running') {
    state.running.splice(state.running.indexOf(victim), 1);
    victim.status = 'waiting';
    state.waiting.unshift(victim);
  }
  takeBack(state, victim, emit);
}

/** Frees what a request holds; it will be computed anew from its first token. */
function takeBack(state: SchedulerState, victim: Served, emit: Emit): void {
  goal(emit, 'preemption');
  free(state, victim, emit);
  victim.computed = 0;
  victim.cachedTo = 0;
  victim.fresh = true;
}

/**
 * Requests whose load has ended wait with their blocks. When nothing runs and the first of the queue still lacks blocks,
 * they could wait for each other for ever: the last of them gives its blocks back.
 */
function breakBlockDeadlock(state: SchedulerState, emit: Emit): boolean {
  if (state.running.length > 0) return false;
  const victim = state.waiting.findLast((served, index) => index > 0 && served.blocks.length > 0);
  if (victim === undefined) return false;
  takeBack(state, victim, emit);
  return true;
}

function admitWaiting(state: SchedulerState, items: StepItem[], budget: number, at: number, emit: Emit): void {
  while (budget > 0 && state.waiting.length > 0 && state.running.length < state.config.batchRequestsMax) {
    const served = state.waiting[0]!;
    const external = admit(state, served, at, emit);
    if (external === null) {
      if (breakBlockDeadlock(state, emit)) continue;
      return;
    }
    state.waiting.shift();
    if (external.async && external.tokens > 0) {
      served.status = 'loading';
      served.loadedTo = served.computed + external.tokens;
      continue;
    }
    served.computed += external.tokens;
    const tokens = Math.min(totalTokens(served) - served.computed, budget);
    served.status = 'running';
    state.running.push(served);
    budget -= addItem(served, tokens, items);
  }
}

/** Finds the cached prefix, asks the connector, allocates; null when the blocks do not suffice and nothing was taken. */
function admit(state: SchedulerState, served: Served, at: number, emit: Emit): { tokens: number; async: boolean } | null {
  const { pool, config, connector } = state;
  const resumed = served.blocks.length > 0;
  const hits = resumed ? [] : findCachedPrefix(pool, served.prompt.blockKeys, Math.min(served.prompt.blockKeys.length, Math.floor((totalTokens(served) - 1) / config.blockTokens)));
  const computed = resumed ? served.computed : hits.length * config.blockTokens;
  const external = connector.getNumNewMatchedTokens(served, computed);
  // A prefill in WRITE mode cannot be preempted, so it takes all its blocks at once: two half-admitted ones could
  // otherwise wait for each other's blocks for ever.
  const wholePrompt = served.leg === 'prefill' || external.tokens > 0;
  const chunk = Math.min(totalTokens(served), computed + config.batchTokensMax);
  const tokensTo = wholePrompt ? totalTokens(served) : chunk;
  const wanted = Math.max(0, blocksFor(state, tokensTo + config.lookAheadTokens) - hits.length - served.blocks.length);
  if (wanted + countFreeAmong(pool, hits) > pool.freeCount) return null;
  if (hits.length > 0) {
    shareBlocks(pool, hits);
    served.blocks = [...hits];
    goal(emit, served.leg === 'decode' ? 'prefix-hit-decode' : 'prefix-hit-prefill');
    emit({ kind: 'note', note: { kind: 'share', request: served.request, blocks: hits } });
    emit({ kind: 'note', note: { kind: 'prefixHit', request: served.request, leg: served.leg, tokens: computed } });
  }
  served.computed = computed;
  served.cachedTo = hits.length;
  grow(state, served, tokensTo, emit);
  if (served.leg === 'decode' && external.tokens === 0 && hits.length > 0) goal(emit, 'full-hit-decode');
  connector.updateStateAfterAlloc(served, external.tokens, at, emit);
  return external;
}

function onStepDone(state: SchedulerState, step: number, sums: readonly number[], at: number, emit: Emit): void {
  const flight = state.inFlight;
  if (flight === null || flight.step !== step) return;
  for (let i = 0; i < sums.length; i++) flight.sums[i] = (flight.sums[i]! + sums[i]!) >>> 0;
  if (--flight.ranksLeft > 0) return;
  state.inFlight = null;
  flight.items.forEach((item, index) => {
    const served = state.requests.get(item.request)!;
    served.computed = item.tokenTo;
    cacheComputed(state, served);
    if (served.computed === totalTokens(served)) onToken(state, served, flight.sums[index]!, emit);
  });
  const aborts = state.deferredAborts;
  state.deferredAborts = [];
  for (const request of aborts) abort(state, request, emit);
  wake(state, emit);
}

/** Full blocks of the prompt become findable; generated tokens are not cached. */
function cacheComputed(state: SchedulerState, served: Served): void {
  const full = Math.min(served.prompt.blockKeys.length, Math.floor(served.computed / state.config.blockTokens));
  for (; served.cachedTo < full; served.cachedTo++) {
    cacheBlock(state.pool, served.blocks[served.cachedTo]!, served.prompt.blockKeys[served.cachedTo]!);
  }
}

function onToken(state: SchedulerState, served: Served, sum: number, emit: Emit): void {
  served.tokens.push(sum);
  if (served.tokens.length === 1 && served.leg !== 'prefill') emit({ kind: 'note', note: { kind: 'firstToken', request: served.request } });
  if (served.tokens.length < served.maxTokens) return;
  state.running.splice(state.running.indexOf(served), 1);
  served.status = 'ended';
  const verdict = state.connector.requestFinished(served);
  answer(served, true, '', verdict.params, emit);
  if (!verdict.keepBlocks || allReported(state, served)) forget(state, served, emit);
}

function answer(served: Served, ok: boolean, cause: string, params: KvTransferParams | null, emit: Emit): void {
  const { request, transfer, leg, tokens } = served;
  emit({ kind: 'send', to: PROXY, message: { kind: 'answer', request, transfer, leg, ok, cause, tokens: [...tokens], params } });
}

function allReported(state: SchedulerState, served: Served): boolean {
  return served.reported === (1 << state.config.spec.ranks.length) - 1;
}

function onReport(state: SchedulerState, request: RequestId, tpRank: number, failed: boolean, emit: Emit): void {
  const served = state.requests.get(request);
  if (served === undefined) return emit({ kind: 'note', note: { kind: 'refused', cause: `report for request ${request}, which is not here` } });
  served.reported |= 1 << tpRank;
  if (failed) served.loadFailed = true;
  if (!allReported(state, served)) return;
  if (served.status === 'ended') return forget(state, served, emit);
  if (served.status !== 'loading') return;
  if (served.loadFailed) goal(emit, 'load-failed-recomputed');
  // The last token is computed here in any case: its attention gives the first logits.
  else served.computed = Math.min(served.loadedTo, totalTokens(served) - 1);
  if (!served.loadFailed) cacheComputed(state, served);
  served.status = 'waiting';
  state.waiting.unshift(served);
  wake(state, emit);
}

function abort(state: SchedulerState, request: RequestId, emit: Emit): void {
  const served = state.requests.get(request);
  if (served === undefined) return;
  state.running = state.running.filter((other) => other !== served);
  state.waiting = state.waiting.filter((other) => other !== served);
  served.status = 'ended';
  const mustWait = state.connector.requestAborted(served) && !allReported(state, served);
  if (!mustWait) forget(state, served, emit);
  if (state.connector.hasMeta()) wake(state, emit);
}

function forget(state: SchedulerState, served: Served, emit: Emit): void {
  free(state, served, emit);
  state.requests.delete(served.request);
  state.connector.requestForgotten(served.request);
  wake(state, emit);
}

function free(state: SchedulerState, served: Served, emit: Emit): void {
  if (served.blocks.length === 0) return;
  emit({ kind: 'note', note: { kind: 'free', request: served.request, blocks: served.blocks } });
  releaseBlocks(state.pool, served.blocks, served.request);
  served.blocks = [];
}

function goal(emit: Emit, name: Extract<Extract<Parameters<Emit>[0], { kind: 'note' }>['note'], { kind: 'goal' }>['name']): void {
  emit({ kind: 'note', note: { kind: 'goal', name } });
}

/** What this scheduler waits for, as edges of the waits-for graph. */
export function schedulerWaits(state: SchedulerState): Wait[] {
  const { spec } = state.config;
  const waits: Wait[] = [];
  if (state.inFlight !== null) {
    const { step, ranksLeft } = state.inFlight;
    for (const rank of spec.ranks) waits.push({ who: spec.scheduler, what: `the end of step ${step} (${ranksLeft} ranks left)`, whom: rank });
  }
  for (const served of state.requests.values()) {
    if (served.status === 'waiting') waits.push({ who: spec.scheduler, what: `free blocks for request ${served.request}`, whom: spec.scheduler });
    if (served.status === 'running' || allReported(state, served)) continue;
    if (served.status === 'loading' || served.blocks.length > 0) {
      spec.ranks.forEach((rank, tpRank) => {
        if ((served.reported >> tpRank) & 1) return;
        waits.push({ who: spec.scheduler, what: `the report of request ${served.request}`, whom: rank });
      });
    }
  }
  return waits;
}

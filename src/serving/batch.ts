import { filled, pushAll } from '../base/lists.ts';
import { move } from '../base/moves.ts';
import { goal } from '../wire/goals.ts';
import type { Emit } from '../wire/machine.ts';
import type { StepItem } from '../wire/messages.ts';
import { allocateBlocks, countFreeAmong, findCachedPrefix, shareBlocks } from './block-pool.ts';
import { REQUEST_MOVES } from './moves.ts';
import { blocksFor, free, type SchedulerState, type Served, totalTokens } from './served.ts';

/** Builds one batch, vLLM's order: running requests first, then waiting ones while the budget lasts. */
export function schedule(state: SchedulerState, at: number, emit: Emit): void {
  if (state.inFlight !== null) return;
  const items: StepItem[] = [];
  let budget = state.config.batchTokensMax;
  const waitingBefore = state.waiting.length;
  for (const served of [...state.running]) {
    if (budget === 0) break;
    if (served.phase !== 'running') continue;
    const tokens = Math.min(totalTokens(served) - served.computed, budget);
    if (tokens <= 0 || !growOrPreempt(state, served, served.computed + tokens, items, emit)) continue;
    budget -= addItem(served, tokens, items);
  }
  if (state.waiting.length <= waitingBefore) admitWaiting(state, items, budget, at, emit);
  const meta = state.connector.buildConnectorMeta(
    state.config.lendsLists ? items : items.map(copyOf),
    (request) => state.requests.get(request)!.view,
  );
  if (items.length === 0 && meta === null) return;
  const step = state.steps++;
  for (const rank of state.config.spec.ranks)
    emit({ kind: 'send', to: rank, message: { kind: 'runStep', step, items, meta } });
  if (items.length === 0) return;
  if (items.some((item) => isChunk(state, item))) goal(emit, 'chunked-prefill');
  state.inFlight = {
    step,
    items,
    sums: filled(items.length, 0),
    ranksLeft: state.config.spec.ranks.length,
  };
}

function isChunk(state: SchedulerState, item: StepItem): boolean {
  return item.tokenTo < state.requests.get(item.request)!.prompt.promptTokens;
}

/** For the connector: what it does to its copy is its own affair. Frozen lists would cost a third of a whole schedule. */
function copyOf(item: StepItem): StepItem {
  return { ...item, blocks: [...item.blocks] };
}

function addItem(served: Served, tokens: number, items: StepItem[]): number {
  const { request, transfer, computed, blocks, prompt, fresh } = served;
  const item: StepItem = {
    request,
    transfer,
    tokenFrom: computed,
    tokenTo: computed + tokens,
    blocks,
    lineageAddress: prompt.lineageAddress,
    fresh,
  };
  items.push(item);
  served.fresh = false;
  return tokens;
}

/** Gives a running request its blocks, if need be those of others; false when it has to sit this step out. */
function growOrPreempt(
  state: SchedulerState,
  served: Served,
  tokensTo: number,
  items: StepItem[],
  emit: Emit,
): boolean {
  while (!grow(state, served, tokensTo, emit)) {
    const victim = findVictim(state, served, items);
    if (victim === undefined) return false;
    preempt(state, victim, emit);
  }
  return true;
}

/**
 * The last waiting request that holds blocks, its load having ended: it has not begun, and sparing it could block the
 * queue for ever. Else the youngest running one that is younger than `served`: so the oldest always gets on, where two
 * that preempted each other in turn would not. Nobody preempts himself: what he lacks is held by loads and transfers,
 * which end, and until then he would only be computed again and again.
 */
function findVictim(state: SchedulerState, served: Served, items: readonly StepItem[]): Served | undefined {
  const age = state.running.indexOf(served);
  const isFree = (candidate: Served, index: number): boolean =>
    index > age && mayPreempt(state, candidate) && !items.some((item) => item.request === candidate.request);
  return state.waiting.findLast((candidate) => candidate.blocks.length > 0) ?? state.running.findLast(isFree);
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
  if (state.config.lendsLists) pushAll(served.blocks, blocks);
  else served.blocks = [...served.blocks, ...blocks];
  emit({ kind: 'note', note: { kind: 'allocate', request: served.request, blocks } });
  return true;
}

function preempt(state: SchedulerState, victim: Served, emit: Emit): void {
  if (move(REQUEST_MOVES, victim, 'Preempted')) {
    state.running.splice(state.running.indexOf(victim), 1);
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

function admitWaiting(
  state: SchedulerState,
  items: StepItem[],
  budget: number,
  at: number,
  emit: Emit,
): void {
  while (budget > 0 && state.waiting.length > 0 && state.running.length < state.config.batchRequestsMax) {
    const served = state.waiting[0]!;
    const external = admit(state, served, at, emit);
    if (external === null) {
      if (breakBlockDeadlock(state, emit)) continue;
      return;
    }
    state.waiting.shift();
    if (external.async && external.tokens > 0) {
      move(REQUEST_MOVES, served, 'LoadBegun');
      served.loadedTo = served.computed + external.tokens;
      continue;
    }
    served.computed += external.tokens;
    const tokens = Math.min(totalTokens(served) - served.computed, budget);
    move(REQUEST_MOVES, served, 'Scheduled');
    state.running.push(served);
    budget -= addItem(served, tokens, items);
  }
}

/** Finds the cached prefix, asks the connector, allocates; null when the blocks do not suffice and nothing was taken. */
function admit(
  state: SchedulerState,
  served: Served,
  at: number,
  emit: Emit,
): { tokens: number; async: boolean } | null {
  const { pool, config, connector } = state;
  const resumed = served.blocks.length > 0;
  const hits = resumed
    ? []
    : findCachedPrefix(
        pool,
        served.prompt.blockKeys,
        Math.min(served.prompt.blockKeys.length, Math.floor((totalTokens(served) - 1) / config.blockTokens)),
      );
  const computed = resumed ? served.computed : hits.length * config.blockTokens;
  const external = connector.getNumNewMatchedTokens(served.view, computed);
  // A prefill in WRITE mode cannot be preempted, so it takes all its blocks at once: two half-admitted ones could
  // otherwise wait for each other's blocks for ever.
  const wholePrompt = served.leg === 'prefill' || external.tokens > 0;
  const chunk = Math.min(totalTokens(served), computed + config.batchTokensMax);
  const tokensTo = wholePrompt ? totalTokens(served) : chunk;
  const wanted = Math.max(
    0,
    blocksFor(state, tokensTo + config.lookAheadTokens) - hits.length - served.blocks.length,
  );
  if (wanted + countFreeAmong(pool, hits) > pool.freeCount) return null;
  if (hits.length > 0) {
    shareBlocks(pool, hits);
    served.blocks = [...hits];
    goal(emit, served.leg === 'decode' ? 'prefix-hit-decode' : 'prefix-hit-prefill');
    emit({ kind: 'note', note: { kind: 'share', request: served.request, blocks: hits } });
    emit({
      kind: 'note',
      note: { kind: 'prefixHit', request: served.request, leg: served.leg, tokens: computed },
    });
  }
  served.computed = computed;
  served.cachedTo = hits.length;
  grow(state, served, tokensTo, emit);
  if (served.leg === 'decode' && external.tokens === 0 && hits.length > 0) goal(emit, 'full-hit-decode');
  if (external.tokens > 0) {
    const { request } = served;
    const tokenTo = computed + external.tokens;
    emit({ kind: 'note', note: { kind: 'external', request, tokenFrom: computed, tokenTo } });
  }
  connector.updateStateAfterAlloc(served.view, external.tokens, at, emit);
  return external;
}

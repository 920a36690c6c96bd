import { move } from '../base/moves.ts';
import { type ActorId, PROXY, type RequestId } from '../base/topology.ts';
import { goal } from '../wire/goals.ts';
import type { Emit, Input, Wait } from '../wire/machine.ts';
import { type Generate, type KvTransferParams, type Message, nameOfMessage } from '../wire/messages.ts';
import { refuse } from '../wire/notes.ts';
import { schedule } from './batch.ts';
import { REQUEST_MOVES } from './moves.ts';
import {
  blocksFor,
  cacheComputed,
  free,
  type SchedulerState,
  type Served,
  totalTokens,
  wake,
  withView,
} from './served.ts';

/**
 * The engine core of the little vLLM: one request queue, one batch in flight, chunked prefill under a token budget,
 * prefix cache, preemption. The KV connector is asked where vLLM asks it.
 */

export { createScheduler, type SchedulerConfig, type SchedulerState } from './served.ts';

export function stepScheduler(state: SchedulerState, at: number, input: Input, emit: Emit): void {
  if (input.kind === 'message') onMessage(state, input.from, input.message, emit);
  else if (input.kind === 'turn') {
    state.turnPending = false;
    schedule(state, at, emit);
  }
}

function onMessage(state: SchedulerState, from: ActorId, message: Message, emit: Emit): void {
  switch (message.kind) {
    case 'generate':
      return onGenerate(state, message, emit);
    case 'abort':
      if (state.inFlight !== null) state.deferredAborts.push(message.request);
      else abort(state, message.request, emit);
      return;
    case 'stepDone':
      return onStepDone(state, message.step, message.sums, emit);
    case 'report':
      for (const request of message.sent) onReport(state, request, message.tpRank, false, emit);
      for (const request of message.received) onReport(state, request, message.tpRank, false, emit);
      for (const request of message.failed) onReport(state, request, message.tpRank, true, emit);
      return;
    default:
      return refuse(emit, 'not-for-a-scheduler', { message: nameOfMessage(message), from });
  }
}

function onGenerate(state: SchedulerState, message: Generate, emit: Emit): void {
  const { request, transfer, leg, prompt, maxTokens, remoteEngine, params } = message;
  const served = withView({
    request,
    transfer,
    leg,
    prompt,
    maxTokens,
    remoteEngine,
    params,
    phase: 'waiting',
    computed: 0,
    blocks: [],
    loadedTo: 0,
    tokens: [],
    reported: 0,
    loadFailed: false,
    fresh: true,
    cachedTo: 0,
  });
  if (blocksFor(state, prompt.promptTokens + maxTokens + state.config.lookAheadTokens) > state.pool.total) {
    return answer(served, false, 'the request needs more KV blocks than this engine has', null, emit);
  }
  if (leg === 'whole') goal(emit, 'ordinary-request');
  state.requests.set(request, served);
  state.waiting.push(served);
  wake(state, emit);
}

function onStepDone(state: SchedulerState, step: number, sums: readonly number[], emit: Emit): void {
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

function onToken(state: SchedulerState, served: Served, sum: number, emit: Emit): void {
  served.tokens.push(sum);
  if (served.tokens.length === 1 && served.leg !== 'prefill')
    emit({ kind: 'note', note: { kind: 'firstToken', request: served.request } });
  if (served.tokens.length < served.maxTokens) return;
  state.running.splice(state.running.indexOf(served), 1);
  move(REQUEST_MOVES, served, 'Finished');
  const verdict = state.connector.requestFinished(served.view);
  answer(served, true, '', verdict.params, emit);
  if (!verdict.keepBlocks || allReported(state, served)) forget(state, served, emit);
}

function answer(
  served: Served,
  ok: boolean,
  cause: string,
  params: KvTransferParams | null,
  emit: Emit,
): void {
  const { request, transfer, leg, tokens } = served;
  emit({
    kind: 'send',
    to: PROXY,
    message: { kind: 'answer', request, transfer, leg, ok, cause, tokens: [...tokens], params },
  });
}

function allReported(state: SchedulerState, served: Served): boolean {
  return served.reported === (1 << state.config.spec.ranks.length) - 1;
}

function onReport(
  state: SchedulerState,
  request: RequestId,
  tpRank: number,
  failed: boolean,
  emit: Emit,
): void {
  const served = state.requests.get(request);
  if (served === undefined) return refuse(emit, 'report-of-unknown-request', { request });
  served.reported |= 1 << tpRank;
  if (failed) served.loadFailed = true;
  if (!allReported(state, served)) return;
  if (served.phase === 'ended') return forget(state, served, emit);
  if (served.phase !== 'loading') return;
  if (served.loadFailed) goal(emit, 'load-failed-recomputed');
  // The last token is computed here in any case: its attention gives the first logits.
  else served.computed = Math.min(served.loadedTo, totalTokens(served) - 1);
  if (!served.loadFailed) cacheComputed(state, served);
  move(REQUEST_MOVES, served, 'LoadEnded');
  state.waiting.unshift(served);
  wake(state, emit);
}

function abort(state: SchedulerState, request: RequestId, emit: Emit): void {
  const served = state.requests.get(request);
  if (served === undefined) return;
  state.running = state.running.filter((other) => other !== served);
  state.waiting = state.waiting.filter((other) => other !== served);
  move(REQUEST_MOVES, served, 'Aborted');
  const mustWait = state.connector.requestAborted(served.view) && !allReported(state, served);
  if (!mustWait) forget(state, served, emit);
  if (state.connector.hasMeta()) wake(state, emit);
}

function forget(state: SchedulerState, served: Served, emit: Emit): void {
  free(state, served, emit);
  state.requests.delete(served.request);
  state.connector.requestForgotten(served.request);
  wake(state, emit);
}

/** What this scheduler waits for, as edges of the waits-for graph. */
export function schedulerWaits(state: SchedulerState): Wait[] {
  const { spec } = state.config;
  const waits: Wait[] = [];
  if (state.inFlight !== null) {
    const { step, ranksLeft } = state.inFlight;
    for (const rank of spec.ranks)
      waits.push({
        who: spec.scheduler,
        what: 'step-end',
        fields: { step, ranksLeft },
        whom: rank,
      });
  }
  for (const served of state.requests.values()) {
    if (served.phase === 'waiting')
      waits.push({
        who: spec.scheduler,
        what: 'free-blocks',
        fields: { request: served.request },
        whom: spec.scheduler,
      });
    if (served.phase === 'running' || allReported(state, served)) continue;
    if (served.phase === 'loading' || served.blocks.length > 0) {
      spec.ranks.forEach((rank, tpRank) => {
        if ((served.reported >> tpRank) & 1) return;
        const fields = { request: served.request };
        waits.push({ who: spec.scheduler, what: 'report', fields, whom: rank });
      });
    }
  }
  return waits;
}

import type { RequestId, TransferId } from '../../base/topology.ts';
import type { StepItem } from '../../wire/messages.ts';
import type { ConnectorScheduler, FinishVerdict, Matched, RequestView, SchedulerEnv } from '../plug.ts';
import { matchedTokens } from '../remote-tokens.ts';
import type { LendOrder, LoadOrder, SaveOrder, ShippedMeta } from './state.ts';

interface SchedulerState {
  readonly env: SchedulerEnv;
  loads: LoadOrder[];
  lends: LendOrder[];
  cancels: TransferId[];
  /** Requests whose remote KV has been offered once. It is never offered again: after a preemption D recomputes. */
  readonly offered: Set<RequestId>;
  /** Requests with a live transfer at the ranks. */
  readonly moving: Set<RequestId>;
}

/** The scheduler side of the shipped connector. */
export function createShippedScheduler(env: SchedulerEnv): ConnectorScheduler {
  const state: SchedulerState = {
    env,
    loads: [],
    lends: [],
    cancels: [],
    offered: new Set(),
    moving: new Set(),
  };
  return {
    getNumNewMatchedTokens: (view, computedTokens) => matched(state, view, computedTokens),
    updateStateAfterAlloc: (view, externalTokens) => afterAlloc(state, view, externalTokens),
    buildConnectorMeta: (items, view) => buildMeta(state, items, view),
    hasMeta: () => state.loads.length + state.lends.length + state.cancels.length > 0,
    requestFinished: (view) => finished(state, view),
    requestAborted: (view) => aborted(state, view),
    requestForgotten: (request) => {
      state.offered.delete(request);
      state.moving.delete(request);
    },
    census: () =>
      state.offered.size + state.moving.size + state.loads.length + state.lends.length + state.cancels.length,
  };
}

/** Offered once: what was consumed, or given up in a preemption, never comes again. */
function matched(state: SchedulerState, view: RequestView, computedTokens: number): Matched {
  if (state.offered.has(view.request)) return { tokens: 0, async: false };
  return matchedTokens(state.env.mode, view.leg, view.prompt.promptTokens, computedTokens);
}

function afterAlloc(state: SchedulerState, view: RequestView, externalTokens: number): void {
  if (view.leg !== 'decode' || state.offered.has(view.request)) return;
  state.offered.add(view.request);
  if (externalTokens > 0) state.moving.add(view.request);
  const { request, transfer, computed } = view;
  const remoteEngine = state.env.mode === 'read' ? view.params!.remoteEngine : view.remoteEngine;
  state.loads.push({
    request,
    transfer,
    remoteEngine,
    blocks: [...view.blocks],
    tokenFrom: computed,
    tokenTo: computed + externalTokens,
    lineageAddress: view.prompt.lineageAddress,
  });
}

function buildMeta(
  state: SchedulerState,
  items: readonly StepItem[],
  view: (request: RequestId) => RequestView,
): ShippedMeta | null {
  const saves: SaveOrder[] = [];
  if (state.env.mode === 'write') {
    for (const item of items) {
      const owner = view(item.request);
      if (owner.leg !== 'prefill') continue;
      const { request, transfer, blocks, tokenTo } = item;
      state.moving.add(request);
      const { promptTokens } = owner.prompt;
      saves.push({
        request,
        transfer,
        remoteEngine: owner.remoteEngine,
        blocks: [...blocks],
        tokenTo: Math.min(tokenTo, promptTokens),
        promptTokens,
      });
    }
  }
  const { loads, lends, cancels } = state;
  if (loads.length + lends.length + cancels.length + saves.length === 0) return null;
  state.loads = [];
  state.lends = [];
  state.cancels = [];
  return { loads, lends, saves, cancels };
}

function finished(state: SchedulerState, view: RequestView): FinishVerdict {
  if (view.leg !== 'prefill') return { keepBlocks: false, params: null };
  if (state.env.mode === 'write') return { keepBlocks: state.moving.has(view.request), params: null };
  const { request, transfer, blocks } = view;
  const tokenTo = view.prompt.promptTokens;
  state.moving.add(request);
  state.lends.push({ request, transfer, blocks: [...blocks], tokenTo });
  const params = {
    transfer,
    remoteEngine: state.env.spec.engine,
    remoteBlocks: [...blocks],
    remoteTokens: tokenTo,
  };
  return { keepBlocks: true, params };
}

function aborted(state: SchedulerState, view: RequestView): boolean {
  if (!state.moving.has(view.request)) return false;
  state.cancels.push(view.transfer);
  return true;
}

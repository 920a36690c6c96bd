import type { BlockId, EngineId, RequestId, TransferId } from '../../base/topology.ts';
import type {
  ConnectorScheduler,
  FinishVerdict,
  Matched,
  RequestView,
  SchedulerEnv,
} from '../../connector/plug.ts';
import type { Emit } from '../../wire/machine.ts';
import type { StepItem } from '../../wire/messages.ts';
import { type FaultSet, ThreadDeath } from './faults.ts';
import type { LoadOrder, SaveOrder, StepMeta } from './state.ts';
import { remoteBlocksBytes } from './wire.ts';

/** WRITE, P: a request whose prompt is not computed to its end; its blocks are collected over its chunks. */
interface PendingSave {
  readonly transfer: TransferId;
  readonly remoteEngine: EngineId;
  readonly promptTokens: number;
  blocks: readonly BlockId[];
}

interface SchedulerState {
  readonly env: SchedulerEnv;
  readonly faults: FaultSet;
  /** Requests that wait for their last chunk. */
  readonly pendingSaves: Map<RequestId, PendingSave>;
  loads: LoadOrder[];
  /** Requests whose remote KV was offered; a load that has come is not asked for again. */
  readonly offered: Set<RequestId>;
}

/** The scheduler side of the first connector. */
export function createAsWrittenScheduler(env: SchedulerEnv, faults: FaultSet): ConnectorScheduler {
  const state: SchedulerState = { env, faults, pendingSaves: new Map(), loads: [], offered: new Set() };
  return {
    getNumNewMatchedTokens: (view, computedTokens) => matched(state, view, computedTokens),
    updateStateAfterAlloc: (view, externalTokens, _at, emit) => afterAlloc(state, view, externalTokens, emit),
    buildConnectorMeta: (items) => buildMeta(state, items),
    hasMeta: () => state.loads.length > 0,
    requestFinished: (view) => finished(state, view),
    // The first connector knows no abort: the blocks are free at once, whatever is on its way.
    requestAborted: () => false,
    requestForgotten: (request) => {
      state.offered.delete(request);
      state.pendingSaves.delete(request);
    },
    census: () => state.pendingSaves.size + state.loads.length + state.offered.size,
  };
}

/** WRITE brings the whole prompt between steps. READ leaves D the last token and brings the rest within the step. */
function matched(state: SchedulerState, view: RequestView, computedTokens: number): Matched {
  const isAsync = state.env.mode === 'write';
  if (view.leg !== 'decode' || state.offered.has(view.request)) return { tokens: 0, async: isAsync };
  const wanted = isAsync ? view.prompt.promptTokens : view.prompt.promptTokens - 1;
  return { tokens: Math.max(0, wanted - computedTokens), async: isAsync };
}

function afterAlloc(state: SchedulerState, view: RequestView, externalTokens: number, emit: Emit): void {
  const { request, transfer, prompt, leg } = view;
  if (leg === 'prefill' && state.env.mode === 'write') {
    state.pendingSaves.set(request, {
      transfer,
      remoteEngine: view.remoteEngine,
      promptTokens: prompt.promptTokens,
      blocks: [],
    });
  }
  if (leg !== 'decode' || state.offered.has(request)) return;
  state.offered.add(request);
  state.loads.push({
    request,
    transfer,
    remoteEngine: state.env.mode === 'read' ? view.params!.remoteEngine : view.remoteEngine,
    blocks: [...view.blocks],
    remoteBlocks: view.params?.remoteBlocks ?? [],
    tokenFrom: view.computed,
    tokenTo: view.computed + externalTokens,
  });
  if (state.env.mode === 'write') sendBlocks(state, view, emit);
}

/** WRITE, D: every rank of P learns where to write, and to which DP rank of this instance. */
function sendBlocks(state: SchedulerState, view: RequestView, emit: Emit): void {
  const { request, transfer, blocks } = view;
  const message = remoteBlocksBytes({ request, transfer, blocks, decodeRank: state.env.spec.dpRank });
  for (const rank of state.env.topology.engines[view.remoteEngine]!.ranks)
    emit({ kind: 'send', to: rank, message });
}

function buildMeta(state: SchedulerState, items: readonly StepItem[]): StepMeta | null {
  const saves = state.env.spec.role === 'prefill' ? collectSaves(state, items) : [];
  const { loads } = state;
  if (saves.length + loads.length === 0) return null;
  state.loads = [];
  return { saves, loads };
}

/** P: the requests whose last chunk is in this step. */
function collectSaves(state: SchedulerState, items: readonly StepItem[]): SaveOrder[] {
  const saves: SaveOrder[] = [];
  for (const { request, blocks, tokenTo } of items) {
    const pending = pendingSave(state, request);
    if (pending === undefined) continue;
    pending.blocks = [...blocks];
    if (tokenTo < pending.promptTokens) continue;
    state.pendingSaves.delete(request);
    const { transfer, remoteEngine, promptTokens } = pending;
    saves.push({ request, transfer, remoteEngine, blocks: pending.blocks, tokens: promptTokens });
  }
  return saves;
}

/** F8: the look-up takes for granted that every scheduled request is a WRITE that waits for its last chunk. */
function pendingSave(state: SchedulerState, request: RequestId): PendingSave | undefined {
  const pending = state.pendingSaves.get(request);
  if (pending === undefined && state.faults.has('F8')) {
    throw new ThreadDeath(
      'build metadata',
      `build metadata: scheduled request ${request} is not among those that wait for their last chunk`,
    );
  }
  return pending;
}

function finished(state: SchedulerState, view: RequestView): FinishVerdict {
  if (view.leg !== 'prefill') return { keepBlocks: false, params: null };
  if (state.env.mode === 'write') return { keepBlocks: true, params: null };
  const { transfer, blocks, prompt } = view;
  return {
    keepBlocks: true,
    params: {
      transfer,
      remoteEngine: state.env.spec.engine,
      remoteBlocks: [...blocks],
      remoteTokens: prompt.promptTokens,
    },
  };
}

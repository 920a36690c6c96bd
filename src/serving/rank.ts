import { filled } from '../base/lists.ts';
import { move } from '../base/moves.ts';
import type { ActorId, EngineSpec } from '../base/topology.ts';
import type { ConnectorWorker, Progress } from '../connector/plug.ts';
import type { Emit, Input, Wait } from '../wire/machine.ts';
import type { Message, StepItem } from '../wire/messages.ts';
import type { RankModel } from './model.ts';
import { FORWARD_MOVES, type ForwardPhase } from './moves.ts';

/**
 * One TP rank's worker: runs the forward pass layer by layer, in lock-step with its group, and calls the connector's
 * worker side where vLLM calls it. Everything else that reaches a rank is for the connector.
 */

export interface RankConfig {
  readonly self: ActorId;
  readonly spec: EngineSpec;
  readonly tpRank: number;
  readonly layers: number;
  /** Layers computed in one turn: 1 shows every interleaving, all of them is for runs at scale. */
  readonly layersPerTurn: number;
  /** Compute time of one turn. */
  readonly turnMicros: (tokens: number, layers: number) => number;
}

interface Forward {
  readonly step: number;
  readonly items: readonly StepItem[];
  readonly meta: unknown;
  readonly sums: number[];
  layer: number;
  phase: ForwardPhase;
}

export interface RankState {
  readonly config: RankConfig;
  readonly connector: ConnectorWorker;
  readonly model: RankModel;
  readonly queue: Forward[];
  current: Forward | null;
  /** A hook waits for an input of the connector; `asked`: one has come, and the rank has asked for a turn. */
  stall: 'none' | 'blocked' | 'asked';
}

export function createRank(config: RankConfig, connector: ConnectorWorker, model: RankModel): RankState {
  return { config, connector, model, queue: [], current: null, stall: 'none' };
}

export function stepRank(state: RankState, at: number, input: Input, emit: Emit): void {
  if (input.kind === 'message' && input.from === state.config.spec.scheduler)
    onSchedulerMessage(state, input.message, at, emit);
  else if (input.kind === 'joined' || (input.kind === 'turn' && input.thread === 0)) advance(state, at, emit);
  else {
    state.connector.step(at, input, emit);
    if (state.stall === 'blocked') goOnSoon(state, emit);
  }
  report(state, emit);
}

function onSchedulerMessage(state: RankState, message: Message, at: number, emit: Emit): void {
  if (message.kind !== 'runStep') return;
  const { step, items, meta } = message;
  state.queue.push({
    step,
    items,
    meta,
    sums: filled(items.length, 0),
    layer: 0,
    phase: 'load',
  });
  if (state.current === null) startNext(state, at, emit);
}

function startNext(state: RankState, at: number, emit: Emit): void {
  state.current = state.queue.shift() ?? null;
  if (state.current !== null) advance(state, at, emit);
}

/** Goes on with the forward pass until it needs another turn, a group mate, or its end. */
function advance(state: RankState, at: number, emit: Emit): void {
  const forward = state.current;
  if (forward === null) return;
  const { connector, config } = state;
  state.stall = 'none';
  if (forward.phase === 'load') {
    if (isStalled(state, connector.startLoadKv(forward.meta, at, emit), emit)) return;
    if (forward.items.length === 0) return startNext(state, at, emit);
    move(FORWARD_MOVES, forward, 'LoadsStarted');
    return join(state, forward, emit);
  }
  const layersTo = Math.min(config.layers, forward.layer + config.layersPerTurn);
  if (forward.phase === 'layerLoad') {
    for (let layer = forward.layer; layer < layersTo; layer++) {
      if (isStalled(state, connector.waitForLayerLoad(layer, at, emit), emit)) return;
    }
    state.model.runLayers(forward.layer, layersTo, forward.items, forward.sums, emit);
    move(FORWARD_MOVES, forward, 'LayersRun');
  }
  while (forward.phase === 'layerSave' && forward.layer < layersTo) {
    if (isStalled(state, connector.saveKvLayer(forward.layer, at, emit), emit)) return;
    forward.layer++;
  }
  if (forward.layer < config.layers) {
    move(FORWARD_MOVES, forward, 'LayersSaved');
    return join(state, forward, emit);
  }
  move(FORWARD_MOVES, forward, 'AllSaved');
  if (isStalled(state, connector.waitForSave(at, emit), emit)) return;
  const { step, sums } = forward;
  emit({
    kind: 'send',
    to: config.spec.scheduler,
    message: { kind: 'stepDone', step, tpRank: config.tpRank, sums },
  });
  startNext(state, at, emit);
}

/** All-reduce: no rank starts the next layers before all have finished these. */
function join(state: RankState, forward: Forward, emit: Emit): void {
  const { config } = state;
  const tokens = forward.items.reduce((sum, item) => sum + item.tokenTo - item.tokenFrom, 0);
  const delayMicros = config.turnMicros(
    tokens,
    Math.min(config.layersPerTurn, config.layers - forward.layer),
  );
  const phase = forward.step * (config.layers + 1) + forward.layer;
  if (config.spec.ranks.length > 1) emit({ kind: 'join', phase, delayMicros });
  else emit({ kind: 'turn', thread: 0, delayMicros });
}

/** Whether a hook is not done; then the forward pass stands until its turn comes. */
function isStalled(state: RankState, progress: Progress, emit: Emit): boolean {
  if (progress === 'again') goOnSoon(state, emit);
  if (progress === 'blocked') state.stall = 'blocked';
  return progress !== 'done';
}

function goOnSoon(state: RankState, emit: Emit): void {
  state.stall = 'asked';
  emit({ kind: 'turn', thread: 0, delayMicros: 1 });
}

/** vLLM's get_finished: polled after everything that may have ended a transfer. */
function report(state: RankState, emit: Emit): void {
  const finished = state.connector.getFinished();
  if (finished === null) return;
  const { spec, tpRank } = state.config;
  emit({ kind: 'send', to: spec.scheduler, message: { kind: 'report', tpRank, ...finished } });
}

export function rankWaits(state: RankState): Wait[] {
  const waits = state.connector.waits();
  if (state.current !== null) {
    const { step, layer, phase } = state.current;
    waits.push({ who: state.config.self, what: 'forward-pass', fields: { step, layer, phase }, whom: -1 });
  }
  return waits;
}

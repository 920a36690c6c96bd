import { type MoveTable, move } from '../base/moves.ts';
import { SmallMap } from '../base/small-map.ts';
import {
  type EngineId,
  type EngineSpec,
  PROXY,
  type RequestId,
  type Topology,
  type TransferId,
} from '../base/topology.ts';
import type { Emit, Input, Note, Wait } from '../wire/machine.ts';
import { type Answer, type Generate, type Message, nameOfMessage, type Prompt } from '../wire/messages.ts';
import { refuse } from '../wire/notes.ts';
import type { ChoicePolicy, ChoiceState } from './choose.ts';

/**
 * One proxy for both modes: P first and then D in READ, both at once in WRITE. A request has one outcome, told to the
 * client once; every leg that is still open when the outcome is known is aborted.
 */

export type FlowPhase = 'Prefilling' | 'Both' | 'Decoding' | 'Completed' | 'Failed' | 'Aborted';
export type FlowTrigger = 'PrefillDone' | 'DecodeDone' | 'Failed' | 'Aborted';

export const FLOW_MOVES: MoveTable<FlowPhase, FlowTrigger> = {
  title: 'Flow: the proxy, one for each request',
  triggers: {
    PrefillDone: "P answered its leg: the prompt's KV is there",
    DecodeDone: 'D, or the one engine of an ordinary request, answered with all tokens',
    Failed: 'a leg answered with a failure, or an engine with an open leg went down',
    Aborted: 'the client went away',
  },
  moves: {
    Prefilling: { PrefillDone: 'Decoding', Failed: 'Failed', Aborted: 'Aborted' },
    /** WRITE: both legs run. */
    Both: { PrefillDone: 'Decoding', DecodeDone: 'Completed', Failed: 'Failed', Aborted: 'Aborted' },
    Decoding: { DecodeDone: 'Completed', Failed: 'Failed', Aborted: 'Aborted' },
    Completed: {},
    Failed: {},
    Aborted: {},
  },
};

interface Flow {
  readonly request: RequestId;
  readonly transfer: TransferId;
  readonly prompt: Prompt;
  /** -1 for a request without a prefill leg of its own. */
  readonly prefill: EngineId;
  decode: EngineId;
  phase: FlowPhase;
  /** Legs sent and not answered. */
  prefillOpen: boolean;
  decodeOpen: boolean;
}

export interface ProxyState {
  readonly topology: Topology;
  readonly policy: ChoicePolicy;
  readonly prefillChoice: ChoiceState;
  readonly decodeChoice: ChoiceState;
  readonly flows: SmallMap<RequestId, Flow>;
  readonly down: Set<EngineId>;
  nextTransfer: TransferId;
}

/** What the client does; arrives as a message from the proxy's own address. */
export interface ClientRequest {
  readonly prompt: Prompt;
  /** Served whole by one engine, without any transfer. */
  readonly ordinary: 'no' | 'prefill' | 'decode';
}

export function createProxy(topology: Topology, policy: ChoicePolicy): ProxyState {
  return {
    topology,
    policy,
    prefillChoice: policy.create(topology.engines, 'prefill'),
    decodeChoice: policy.create(topology.engines, 'decode'),
    flows: new SmallMap(),
    down: new Set(),
    nextTransfer: 1,
  };
}

export function stepProxy(state: ProxyState, input: Input, emit: Emit): void {
  if (input.kind !== 'message') return;
  const message: Message = input.message;
  if (message.kind === 'answer') return onAnswer(state, message, emit);
  if (message.kind === 'abort') return onClientAbort(state, message.request, emit);
  if (message.kind === 'engineDown') return onEngineDown(state, message.engine, emit);
  refuse(emit, 'not-for-the-proxy', { message: nameOfMessage(message) });
}

export function acceptRequest(state: ProxyState, client: ClientRequest, emit: Emit): void {
  const { request } = client.prompt;
  const transfer = state.nextTransfer++;
  const choice = client.ordinary === 'decode' ? state.decodeChoice : state.prefillChoice;
  const first = state.policy.choose(choice, state.down);
  const second = client.ordinary === 'no' ? state.policy.choose(state.decodeChoice, state.down) : first;
  if (first === null || second === null) {
    return emit({
      kind: 'note',
      note: { kind: 'outcome', request, outcome: 'failed', cause: 'no engine is up', tokens: [] },
    });
  }
  emit({
    kind: 'note',
    note: { kind: 'assign', request, transfer, prefill: first.engine, decode: second.engine },
  });
  const whole = client.ordinary !== 'no';
  const isWrite = state.topology.mode === 'write';
  const flow: Flow = {
    request,
    transfer,
    prompt: client.prompt,
    prefill: whole ? -1 : first.engine,
    decode: second.engine,
    phase: whole ? 'Decoding' : isWrite ? 'Both' : 'Prefilling',
    prefillOpen: !whole,
    decodeOpen: whole || isWrite,
  };
  state.flows.set(request, flow);
  // WRITE sends D's leg first, so that the block list is on its way while P works.
  if (flow.decodeOpen)
    sendLeg(
      flow,
      second,
      { leg: whole ? 'whole' : 'decode', remoteEngine: whole ? -1 : first.engine, params: null },
      emit,
    );
  if (flow.prefillOpen)
    sendLeg(flow, first, { leg: 'prefill', remoteEngine: isWrite ? second.engine : -1, params: null }, emit);
}

function sendLeg(
  flow: Flow,
  engine: EngineSpec,
  what: Pick<Generate, 'leg' | 'remoteEngine' | 'params'>,
  emit: Emit,
): void {
  const { request, transfer, prompt } = flow;
  // P computes the prompt and one token, whatever the client asked for.
  const maxTokens = what.leg === 'prefill' ? 1 : prompt.maxTokens;
  emit({
    kind: 'send',
    to: engine.scheduler,
    message: { kind: 'generate', request, transfer, prompt, maxTokens, ...what },
  });
}

function onAnswer(state: ProxyState, answer: Answer, emit: Emit): void {
  const flow = state.flows.get(answer.request);
  // WRITE: D may end before P's answer comes in; an aborted request may still be answered.
  if (flow === undefined || flow.transfer !== answer.transfer) return;
  if (answer.leg === 'prefill') flow.prefillOpen = false;
  else flow.decodeOpen = false;
  if (!answer.ok) return end(state, flow, { outcome: 'failed', cause: answer.cause }, emit);
  if (answer.leg === 'prefill') {
    const wasRead = flow.phase === 'Prefilling';
    if (!move(FLOW_MOVES, flow, 'PrefillDone') || !wasRead) return;
    return startDecode(state, flow, answer.params, emit);
  }
  if (!move(FLOW_MOVES, flow, 'DecodeDone')) return;
  finish(state, flow, { outcome: 'completed', cause: '', tokens: answer.tokens }, emit);
}

/** READ: P is done. The D chosen at first may have gone down since. */
function startDecode(state: ProxyState, flow: Flow, params: Answer['params'], emit: Emit): void {
  if (state.down.has(flow.decode)) {
    const other = state.policy.choose(state.decodeChoice, state.down);
    if (other === null) return end(state, flow, { outcome: 'failed', cause: 'no decode engine is up' }, emit);
    flow.decode = other.engine;
    const { request, transfer, prefill, decode } = flow;
    emit({ kind: 'note', note: { kind: 'assign', request, transfer, prefill, decode } });
  }
  flow.decodeOpen = true;
  const engine = state.topology.engines[flow.decode]!;
  sendLeg(flow, engine, { leg: 'decode', remoteEngine: flow.prefill, params }, emit);
}

function onClientAbort(state: ProxyState, request: RequestId, emit: Emit): void {
  const flow = state.flows.get(request);
  if (flow !== undefined) end(state, flow, { outcome: 'aborted', cause: 'the client went away' }, emit);
}

function onEngineDown(state: ProxyState, engine: EngineId, emit: Emit): void {
  state.down.add(engine);
  for (const flow of state.flows.values()) {
    if (flow.prefill === engine && flow.prefillOpen) flow.prefillOpen = false;
    else if (flow.decode === engine && flow.decodeOpen) flow.decodeOpen = false;
    else continue;
    end(state, flow, { outcome: 'failed', cause: 'an engine went down' }, emit);
  }
}

type Outcome = Omit<Extract<Note, { kind: 'outcome' }>, 'kind' | 'request'>;

function end(
  state: ProxyState,
  flow: Flow,
  how: { readonly outcome: 'failed' | 'aborted'; readonly cause: string },
  emit: Emit,
): void {
  const { request, transfer } = flow;
  move(FLOW_MOVES, flow, how.outcome === 'failed' ? 'Failed' : 'Aborted');
  // P may have finished and be keeping the blocks for D: it must hear of the end too.
  const tell = new Set<EngineId>();
  if (flow.prefill >= 0) tell.add(flow.prefill);
  if (flow.decodeOpen) tell.add(flow.decode);
  for (const engine of tell) {
    if (!state.down.has(engine))
      emit({
        kind: 'send',
        to: state.topology.engines[engine]!.scheduler,
        message: { kind: 'abort', request, transfer },
      });
  }
  finish(state, flow, { ...how, tokens: [] }, emit);
}

function finish(state: ProxyState, flow: Flow, outcome: Outcome, emit: Emit): void {
  state.flows.delete(flow.request);
  emit({ kind: 'note', note: { kind: 'outcome', request: flow.request, ...outcome } });
}

export function proxyWaits(state: ProxyState): Wait[] {
  const waits: Wait[] = [];
  for (const flow of state.flows.values()) {
    const wait = (engine: EngineId, leg: 'prefill' | 'decode'): void => {
      waits.push({
        who: PROXY,
        what: `${leg}-leg`,
        fields: { request: flow.request },
        whom: state.topology.engines[engine]!.scheduler,
      });
    };
    if (flow.prefillOpen) wait(flow.prefill, 'prefill');
    if (flow.decodeOpen) wait(flow.decode, 'decode');
  }
  return waits;
}

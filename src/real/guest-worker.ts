import { isIndex } from '../base/checks.ts';
import { pushAll } from '../base/lists.ts';
import type { ActorId } from '../base/topology.ts';
import type { ConnectorWorker, Finished, Progress, WorkerEnv } from '../connector/plug.ts';
import { StatusCode } from '../io/codes.ts';
import type { Emit, Input, Wait } from '../wire/machine.ts';
import { refuse } from '../wire/notes.ts';
import { type Answer, type ChildEffect, REPORTED } from './answers.ts';
import { GuestError, readValue } from './guest-error.ts';
import type { GuestMeta, GuestRun } from './guest-run.ts';
import { blocksOf, configOf, requestOf, unitsOf } from './told.ts';

/**
 * The worker half of a guest: one rank's process. Each thread of it takes turns of the world, so the tape decides who goes on;
 * the main thread runs the engine's hooks, and between them `get_finished`, as vLLM's engine does after each step.
 */

const MAIN = 0;
/** Turns of the plug: 0 is the engine's, 1 the main thread's between two hooks, then the guest's threads in their order. */
const BETWEEN_HOOKS = 1;
const FIRST_THREAD = 1;
const TIMER = 0;
/** How late a deadline may be noticed. */
const LATE_MICROS = 1_000;
/** Of a kind of wait, as the border takes it. */
const KIND_LETTERS_MAX = 60;
/** From something that may have ended a transfer to the engine's next question. */
const POLL_MICROS = 5;
/** No deadline of a connector is longer than an hour. */
const POLL_MICROS_MAX = 3_600_000_000;

interface State {
  readonly run: GuestRun;
  readonly env: WorkerEnv;
  readonly actors: ReadonlyMap<string, ActorId>;
  hooks: ReadonlySet<string>;
  /** The hook that the main thread is in; `''` for none. */
  hook: string;
  main: 'done' | 'ready' | 'blocked';
  /** When the main thread's next turn between two hooks is due; null for none. */
  dueAt: number | null;
  /** Something has happened in the process since `get_finished` began. */
  isStirred: boolean;
  /** The engine looks again in this time, because the guest looked at the clock. */
  pollMicros: number;
  finishedIds: string[];
  ended: { sent: number[]; received: number[] };
  /** How often each thread was woken, and preempted since. */
  readonly activations: number[];
  readonly slices: number[];
}

export function createGuestWorker(run: GuestRun, env: WorkerEnv): ConnectorWorker {
  const { topology, spec, mode, blockTokens, self, tpRank, views } = env;
  const layers = views.map(unitsOf);
  const config = { ...configOf(topology, spec), name: nameOf(env, self), mode, blockTokens, tpRank, layers };
  const created = run.ask({ op: 'create', actor: self, side: 'worker', config, seed: self, now: 0 });
  const ranks = topology.actors.filter(({ tpRank }) => tpRank >= 0);
  const state: State = {
    run,
    env,
    actors: new Map(ranks.map(({ name, actor }) => [name, actor])),
    hooks: new Set(created.hooks),
    hook: '',
    main: 'done',
    dueAt: null,
    isStirred: false,
    pollMicros: POLL_MICROS,
    finishedIds: [],
    ended: { sent: [], received: [] },
    activations: [],
    slices: [],
  };
  run.ranks.set(self, env);
  let unborn: Answer | null = created;
  /** Threads that the constructor has started wait for the first input: before that there is nobody to ask for a turn. */
  const wakeFirst = (emit: Emit): void => {
    const { effects } = unborn!;
    unborn = null;
    perform(state, effects, emit);
  };
  return {
    startLoadKv(meta, at, emit) {
      if (unborn !== null) wakeFirst(emit);
      const told = meta as GuestMeta | null;
      if (state.hook === '' && told !== null) pushAll(state.finishedIds, told.finished);
      return hook(state, 'start_load_kv', [told?.packed ?? null], at, emit);
    },
    waitForLayerLoad: (layer, at, emit) => hook(state, 'wait_for_layer_load', [layer], at, emit),
    saveKvLayer: (layer, at, emit) => hook(state, 'save_kv_layer', [layer], at, emit),
    waitForSave: (at, emit) => hook(state, 'wait_for_save', [], at, emit),
    getFinished: () => takeEnded(state),
    step(at, input, emit) {
      if (unborn !== null) wakeFirst(emit);
      step(state, at, input, emit);
    },
    census: () => censusOf(state),
    waits: () => (run.ask({ op: 'waits', actor: self }).waits ?? []).map((told) => waitOf(self, told)),
  };
}

/** `Event.wait` at `connector.py:134 in _load_all`: the kind is without the line, so that it is the same after an edit. */
function waitOf(who: ActorId, [what, where, thread]: readonly [string, string, string]): Wait {
  const [place = '', within = ''] = where.split(' in ');
  const letters = `${what} in ${within}`.toLowerCase().replace(/[^a-z]+/g, '-');
  const kind = letters.replace(/^-/, '').slice(0, KIND_LETTERS_MAX).replace(/-$/, '');
  return { who, what: kind, fields: { at: place, thread }, whom: -1 };
}

function nameOf({ topology }: WorkerEnv, actor: ActorId): string {
  return topology.actors[actor]!.name;
}

// --- the main thread ------------------------------------------------------------------------------------------------

/** One call of a hook by the rank: starts it on the main thread, or goes on with what that is in. */
function hook(state: State, name: string, args: readonly unknown[], at: number, emit: Emit): Progress {
  if (state.hook === '') {
    if (!state.hooks.has(name)) return 'done';
    state.hook = name;
    return settle(state, begin(state, name, args, at), at, emit) ? 'done' : progressOf(state);
  }
  if (state.main === 'blocked') return 'blocked';
  const wasIn = state.hook;
  const hasEnded = settle(state, go(state, MAIN, at), at, emit);
  if (!hasEnded) return progressOf(state);
  // It was the engine's question between two hooks: the hook itself begins at the next turn.
  return wasIn === name ? 'done' : 'again';
}

function progressOf({ main }: State): Progress {
  return main === 'blocked' ? 'blocked' : 'again';
}

function begin(state: State, name: string, args: readonly unknown[], at: number): Answer {
  const { run, env } = state;
  const question = { op: 'call', actor: env.self, hook: name, args, now: at, budget: budgetOf(state, MAIN) };
  return sliced(state, MAIN, run.ask(question));
}

function go(state: State, thread: number, at: number): Answer {
  const { run, env } = state;
  return sliced(
    state,
    thread,
    run.ask({ op: 'go', actor: env.self, thread, now: at, budget: budgetOf(state, thread) }),
  );
}

/** Does what an answer asks for; true when the hook that the main thread was in has ended. */
function settle(state: State, answer: Answer, at: number, emit: Emit): boolean {
  perform(state, answer.effects, emit);
  state.main = answer.main ?? state.main;
  const hasEnded = state.hook !== '' && state.main === 'done';
  if (hasEnded) endHook(state, answer, at, emit);
  else if (answer.quiet !== true) askSoon(state, POLL_MICROS, at, emit);
  return hasEnded;
}

function endHook(state: State, { value, clock }: Answer, at: number, emit: Emit): void {
  const wasPoll = state.hook === 'get_finished';
  state.hook = '';
  if (!wasPoll) return askSoon(state, POLL_MICROS, at, emit);
  const { sent, received } = readValue(REPORTED, value, 'get_finished');
  pushAll(state.ended.sent, sent.map(requestOf));
  pushAll(state.ended.received, received.map(requestOf));
  if (state.isStirred) return askSoon(state, POLL_MICROS, at, emit);
  // Whoever asks for the time may wait for it: the engine asks again, less and less often.
  if (clock !== true || state.pollMicros > POLL_MICROS_MAX) return;
  const wait = state.pollMicros * 2;
  askSoon(state, wait, at, emit);
  state.pollMicros = wait;
}

/** A turn of the main thread between two hooks. */
function askSoon(state: State, delayMicros: number, at: number, emit: Emit): void {
  const mayAsk = state.hook === '' || (state.hook === 'get_finished' && state.main === 'ready');
  if (!mayAsk || !state.hooks.has('get_finished')) return;
  state.pollMicros = POLL_MICROS;
  if (state.dueAt !== null && state.dueAt <= at + delayMicros) return;
  state.dueAt = at + delayMicros;
  emit({ kind: 'turn', thread: BETWEEN_HOOKS, delayMicros });
}

function pollFinished(state: State, at: number, emit: Emit): void {
  state.dueAt = null;
  if (state.hook === '') {
    const ids = state.finishedIds;
    state.finishedIds = [];
    state.hook = 'get_finished';
    state.isStirred = false;
    settle(state, begin(state, 'get_finished', [ids], at), at, emit);
  } else if (state.hook === 'get_finished' && state.main === 'ready') {
    settle(state, go(state, MAIN, at), at, emit);
  }
}

function takeEnded(state: State): Finished | null {
  const { sent, received } = state.ended;
  if (sent.length + received.length === 0) return null;
  state.ended = { sent: [], received: [] };
  return { sent, received, failed: [] };
}

function censusOf(state: State): number {
  if (!state.hooks.has('leak_count') || state.hook !== '') return 0;
  return begin(state, 'leak_count', [], 0).value as number;
}

// --- the other threads ----------------------------------------------------------------------------------------------

function step(state: State, at: number, input: Input, emit: Emit): void {
  const { run, env } = state;
  const tell = (told: object): void =>
    stir(state, run.ask({ op: 'tell', actor: env.self, now: at, ...told }), at, emit);
  switch (input.kind) {
    case 'turn':
      if (input.thread === BETWEEN_HOOKS) return pollFinished(state, at, emit);
      return stir(state, go(state, input.thread - FIRST_THREAD, at), at, emit);
    case 'timer':
      return tell({ what: 'fire', thread: input.object });
    case 'completion':
      return tell({ what: 'completion', tag: input.tag, ok: input.code === StatusCode.SUCCESS });
    case 'message': {
      const { message, from } = input;
      if (message.kind !== 'bytes') return refuse(emit, `${message.kind} is no message of a guest`);
      const payload = Buffer.from(message.bytes).toString('hex');
      return tell({ what: 'message', peer: nameOf(env, from), payload });
    }
    default:
      return;
  }
}

/** Another thread than the main one has run, or may. */
function stir(state: State, answer: Answer, at: number, emit: Emit): void {
  if (answer.quiet !== true) state.isStirred = true;
  settle(state, answer, at, emit);
}

/** How many statements the next slice of a thread may have. */
function budgetOf({ env, activations, slices }: State, thread: number): number {
  const [activation, slice] = [activations[thread] ?? 0, slices[thread] ?? 0];
  return env.preemption?.(env.self, thread, activation, slice) ?? 0;
}

/** Counts the slice: a thread that may go on at once was preempted, any other has to be woken first. */
function sliced(state: State, thread: number, answer: Answer): Answer {
  const { activations, slices } = state;
  const isPreempted =
    thread === MAIN
      ? answer.main === 'ready'
      : answer.effects.some(([kind, number]) => kind === 'turn' && number === thread);
  if (isPreempted) slices[thread] = (slices[thread] ?? 0) + 1;
  else {
    activations[thread] = (activations[thread] ?? 0) + 1;
    slices[thread] = 0;
  }
  return answer;
}

// --- what the guest asks for ----------------------------------------------------------------------------------------

function perform(state: State, effects: readonly ChildEffect[], emit: Emit): void {
  for (const effect of effects) performOne(state, effect, emit);
}

function performOne(state: State, effect: ChildEffect, emit: Emit): void {
  switch (effect[0]) {
    case 'turn':
      return emit({ kind: 'turn', thread: effect[1] + FIRST_THREAD, delayMicros: effect[2] });
    case 'main':
      state.main = 'ready';
      return;
    case 'arm':
      return emit({
        kind: 'arm',
        timer: TIMER,
        object: effect[1],
        earliest: effect[2],
        latest: effect[2] + LATE_MICROS,
      });
    case 'stop':
      return emit({ kind: 'stop', timer: TIMER, object: effect[1] });
    case 'log':
      return emit({ kind: 'note', note: { kind: 'log', name: effect[1], fields: effect[2] } });
    case 'connect':
      return connect(state, actorOf(state, effect[1]), emit);
    case 'send': {
      const bytes = new Uint8Array(Buffer.from(effect[2], 'hex'));
      return emit({
        kind: 'send',
        to: actorOf(state, effect[1]),
        message: { kind: 'bytes', port: 'notify', bytes },
      });
    }
    case 'post':
      return post(state, effect, emit);
  }
}

/** The peer describes itself to this rank. */
function connect({ run, env }: State, peer: ActorId, emit: Emit): void {
  const description = run.ranks.get(peer)?.describe(env.self);
  if (description !== undefined) emit({ kind: 'connect', peer, ...description });
}

function actorOf({ actors }: State, name: string): ActorId {
  const actor = actors.get(name);
  if (actor === undefined)
    throw new GuestError({ kind: 'raised', text: `there is no rank ${JSON.stringify(name)}` });
  return actor;
}

/** The judges want to know which blocks an operation touches; they are read off its bytes. */
function post(state: State, effect: Extract<ChildEffect, readonly ['post', ...unknown[]]>, emit: Emit): void {
  const [, operation, peer, tag, name, layer, runs] = effect;
  const request = requestOf(name);
  if (!isIndex(request))
    throw new GuestError({ kind: 'raised', text: `there is no request ${JSON.stringify(name)}` });
  const view = state.env.views[layer];
  const blocksAt = (side: 0 | 1): number[] => (view === undefined ? [] : blocksOf(view, runs, side));
  const batch = { tag, peer: actorOf(state, peer), queuePair: 0, operation, request, layer, part: 0, runs };
  const transfer = state.run.transferOf(state.env.spec.engine, request);
  const named = { ...batch, transfer, localBlocks: blocksAt(0), remoteBlocks: blocksAt(1) };
  emit({ kind: 'post', batch: named });
}

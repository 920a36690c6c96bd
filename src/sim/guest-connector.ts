import { isIndex } from '../base/checks.ts';
import { type ActorId, PROXY } from '../base/topology.ts';
import type {
  Connector,
  ConnectorScheduler,
  ConnectorWorker,
  Finished,
  FinishVerdict,
  Matched,
  Progress,
  RequestView,
} from '../connector/plug.ts';
import type { Wait } from '../wire/machine.ts';
import { enterGuest, type Fault, type Guest, guestEmit, mustReturn, type Rule } from './guest.ts';
import { checkEffect, type EffectBounds } from './guest-effects.ts';
import { FIELDS_RULE, isFields, isName, NAME_RULE } from './guest-facts.ts';

/** The connector under attack, each of its hooks behind the border. */

export interface GuestHost {
  readonly bounds: EffectBounds;
  /** The guest of each actor, to ask what it does. */
  readonly guests: Map<ActorId, Guest>;
  readonly now: () => number;
  readonly tell: (fault: Fault) => void;
}

export function newGuest({ guests, tell }: GuestHost, actor: ActorId, who: string): Guest {
  const guest: Guest = { actor, who, tell, hook: '', effects: 0, again: null };
  if (actor !== PROXY) guests.set(actor, guest);
  return guest;
}

const ANYTHING: Rule = { holds: () => true, must: 'anything' };
const COUNT: Rule = { holds: isIndex, must: 'a whole number from 0 up' };
const PROGRESS: Rule = {
  holds: (value) => value === 'done' || value === 'again',
  must: "'done' or 'again'",
};
const MATCHED: Rule = {
  holds(value, [view, computed]) {
    const { tokens, async } = value as Matched;
    const { promptTokens } = (view as RequestView).prompt;
    const fits = tokens === 0 || (computed as number) + tokens <= promptTokens;
    return isIndex(tokens) && fits && typeof async === 'boolean';
  },
  must: '{ tokens, async }, with no more tokens than the prompt has beyond the computed ones',
};
const VERDICT: Rule = {
  holds(value) {
    const { keepBlocks, params } = value as FinishVerdict;
    return typeof keepBlocks === 'boolean' && typeof params === 'object';
  },
  must: '{ keepBlocks, params }, a boolean and an object or null',
};

const SCHEDULER_HOOKS: { readonly [K in keyof ConnectorScheduler]: Rule } = {
  getNumNewMatchedTokens: MATCHED,
  updateStateAfterAlloc: ANYTHING,
  buildConnectorMeta: ANYTHING,
  hasMeta: ANYTHING,
  requestFinished: VERDICT,
  requestAborted: ANYTHING,
  requestForgotten: ANYTHING,
  census: COUNT,
};

const WORKER_HOOKS = (bounds: EffectBounds): { readonly [K in keyof ConnectorWorker]: Rule } => ({
  startLoadKv: PROGRESS,
  waitForLayerLoad: PROGRESS,
  saveKvLayer: PROGRESS,
  waitForSave: PROGRESS,
  getFinished: {
    holds(value) {
      if (value === null) return true;
      const { sent, received, failed } = value as Finished;
      const isRequest = (request: unknown): boolean => isIndex(request) && request < bounds.requests;
      return [sent, received, failed].every((list) => Array.isArray(list) && list.every(isRequest));
    },
    must: 'null or { sent, received, failed }, lists of requests that there are',
  },
  step: ANYTHING,
  census: COUNT,
  waits: {
    holds(value) {
      const { actors } = bounds.topology;
      const isWait = ({ who, what, fields, whom }: Wait): boolean =>
        actors[who] !== undefined &&
        isName(what) &&
        isFields(fields) &&
        (whom < 0 || actors[whom] !== undefined);
      return Array.isArray(value) && value.every(isWait);
    },
    must: `a list of { who, what, fields, whom }: actors, ${NAME_RULE}, and ${FIELDS_RULE}`,
  },
});

export function guardConnector(connector: Connector, host: GuestHost): Connector {
  const who = `connector ${JSON.stringify(connector.name)}`;
  const workerRules = WORKER_HOOKS(host.bounds);
  return {
    name: connector.name,
    createScheduler(env) {
      const guest = newGuest(host, env.spec.scheduler, who);
      const inner = enterGuest(guest, connector, 'createScheduler', [Object.freeze(env)]);
      return guardScheduler(hooksOf<ConnectorScheduler>(guest, inner, SCHEDULER_HOOKS), guest, host);
    },
    createWorker(env) {
      const guest = newGuest(host, env.self, who);
      const inner = enterGuest(guest, connector, 'createWorker', [Object.freeze(env)]);
      return guardWorker(hooksOf<ConnectorWorker>(guest, inner, workerRules), guest, host);
    },
  };
}

const NONE: readonly unknown[] = [];

/** Calls one hook: the arguments in, a value that keeps its rule out. */
type Call<T> = (hook: keyof T & string, args: readonly unknown[]) => unknown;

function hooksOf<T>(guest: Guest, inner: unknown, rules: Readonly<Record<keyof T & string, Rule>>): Call<T> {
  const names = Object.keys(rules);
  const isWhole = (value: unknown): boolean =>
    names.every((name) => typeof (value as Readonly<Record<string, unknown>>)[name] === 'function');
  mustReturn(guest, { holds: isWhole, must: `an object with the methods ${names.join(', ')}` }, inner);
  return (hook, args) => {
    const value = enterGuest(guest, inner as object, hook, args);
    const rule = rules[hook];
    if (rule !== ANYTHING) mustReturn(guest, rule, value, args);
    return value;
  };
}

function guardScheduler(
  call: Call<ConnectorScheduler>,
  guest: Guest,
  { bounds }: GuestHost,
): ConnectorScheduler {
  const through = guestEmit(guest, (who, effect) => checkEffect(who, effect, bounds));
  return {
    getNumNewMatchedTokens: (view, computed) => call('getNumNewMatchedTokens', [view, computed]) as Matched,
    updateStateAfterAlloc: (view, externalTokens, at, emit) => {
      call('updateStateAfterAlloc', [view, externalTokens, at, through(emit)]);
    },
    buildConnectorMeta: (items, view) => call('buildConnectorMeta', [items, view]),
    hasMeta: () => Boolean(call('hasMeta', NONE)),
    requestFinished: (view) => call('requestFinished', [view]) as FinishVerdict,
    requestAborted: (view) => Boolean(call('requestAborted', [view])),
    requestForgotten: (request) => {
      call('requestForgotten', [request]);
    },
    census: () => call('census', NONE) as number,
  };
}

function guardWorker(call: Call<ConnectorWorker>, guest: Guest, { bounds, now }: GuestHost): ConnectorWorker {
  const through = guestEmit(guest, (who, effect) => checkEffect(who, effect, bounds));
  /** Keeps count of a hook that is not done. */
  const progress = (
    hook: 'startLoadKv' | 'waitForLayerLoad' | 'saveKvLayer' | 'waitForSave',
    args: readonly unknown[],
  ): Progress => {
    const answer = call(hook, args) as Progress;
    if (answer === 'done') guest.again = null;
    else if (guest.again?.hook === hook) guest.again.turns++;
    else guest.again = { hook, since: now(), turns: 1 };
    return answer;
  };
  return {
    startLoadKv: (meta, at, emit) => progress('startLoadKv', [meta, at, through(emit)]),
    waitForLayerLoad: (layer, at, emit) => progress('waitForLayerLoad', [layer, at, through(emit)]),
    saveKvLayer: (layer, at, emit) => progress('saveKvLayer', [layer, at, through(emit)]),
    waitForSave: (at, emit) => progress('waitForSave', [at, through(emit)]),
    getFinished() {
      const finished = call('getFinished', NONE) as Finished | null;
      if (finished === null) return null;
      // What was said stays said, whatever the connector does with its lists.
      const { sent, received, failed } = finished;
      return { sent: [...sent], received: [...received], failed: [...failed] };
    },
    step: (at, input, emit) => {
      call('step', [at, input, through(emit)]);
    },
    census: () => call('census', NONE) as number,
    waits: () => [...(call('waits', NONE) as Wait[])],
  };
}

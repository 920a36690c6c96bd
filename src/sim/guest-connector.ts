import { isIndex } from '../base/checks.ts';
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
import type { Emit, Input, Wait } from '../wire/machine.ts';
import type { StepItem } from '../wire/messages.ts';
import { enterGuest, type Guest, type GuestHost, mustReturn, newGuest, type Rule } from './guest.ts';
import { guardEmit } from './guest-effects.ts';
import { FIELDS_RULE, isFields, isName, NAME_RULE } from './guest-facts.ts';

/** The connector under attack, each of its hooks behind the border. */

const ANYTHING: Rule = { holds: () => true, must: 'anything' };
const COUNT: Rule = { holds: isIndex, must: 'a whole number from 0 up' };
const PROGRESS: Rule = {
  holds: (value) => value === 'done' || value === 'again' || value === 'blocked',
  must: "'done', 'again' or 'blocked'",
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

/** A list of whole numbers below `end`. */
function areBelow(list: unknown, end: number): boolean {
  if (!Array.isArray(list)) return false;
  for (const item of list) if (!isIndex(item) || item >= end) return false;
  return true;
}

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

const WORKER_HOOKS: { readonly [K in keyof ConnectorWorker]: Rule } = {
  startLoadKv: PROGRESS,
  waitForLayerLoad: PROGRESS,
  saveKvLayer: PROGRESS,
  waitForSave: PROGRESS,
  getFinished: {
    holds(value, _, { host }) {
      if (value === null) return true;
      const { sent, received, failed } = value as Finished;
      const { requests } = host.bounds;
      return areBelow(sent, requests) && areBelow(received, requests) && areBelow(failed, requests);
    },
    must: 'null or { sent, received, failed }, lists of requests that there are',
  },
  step: ANYTHING,
  census: COUNT,
  waits: {
    holds(value, _, { host }) {
      const { actors } = host.bounds.topology;
      const isWait = ({ who, what, fields, whom }: Wait): boolean =>
        actors[who] !== undefined &&
        isName(what) &&
        isFields(fields) &&
        (whom < 0 || actors[whom] !== undefined);
      return Array.isArray(value) && value.every(isWait);
    },
    must: `a list of { who, what, fields, whom }: actors, ${NAME_RULE}, and ${FIELDS_RULE}`,
  },
};

export function guardConnector(connector: Connector, host: GuestHost): Connector {
  const who = `connector ${JSON.stringify(connector.name)}`;
  return {
    name: connector.name,
    createScheduler(env) {
      const guest = newGuest(host, env.spec.scheduler, who);
      const inner = enterGuest(guest, connector, 'createScheduler', [Object.freeze(env)]);
      return new GuardedScheduler(guest, inner);
    },
    createWorker(env) {
      const guest = newGuest(host, env.self, who);
      const { preemption } = host;
      const inner = enterGuest(guest, connector, 'createWorker', [Object.freeze({ ...env, preemption })]);
      return new GuardedWorker(guest, inner);
    },
  };
}

const NONE: readonly unknown[] = [];

type Rules = Readonly<Record<string, Rule>>;

/** What a side of the connector must be: all hooks of `rules`, as methods. */
function wholeness(rules: Rules): Rule {
  const names = Object.keys(rules);
  return {
    holds: (value) =>
      names.every((name) => typeof (value as Readonly<Record<string, unknown>>)[name] === 'function'),
    must: `an object with the methods ${names.join(', ')}`,
  };
}

const WHOLE_SCHEDULER = wholeness(SCHEDULER_HOOKS);
const WHOLE_WORKER = wholeness(WORKER_HOOKS);

/** Classes and not closures: a run makes one of them for each actor. */
class Guarded<Side> {
  protected readonly guest: Guest;
  readonly #inner: object;
  readonly #rules: Rules;

  protected constructor(guest: Guest, inner: unknown, whole: Rule, rules: Rules) {
    mustReturn(guest, whole, inner);
    this.guest = guest;
    this.#inner = inner as object;
    this.#rules = rules;
  }

  /** Calls one hook: the arguments in, a value that keeps its rule out. */
  protected call(hook: keyof Side & string, args: readonly unknown[]): unknown {
    const value = enterGuest(this.guest, this.#inner, hook, args);
    const rule = this.#rules[hook]!;
    if (rule !== ANYTHING) mustReturn(this.guest, rule, value, args);
    return value;
  }

  census(): number {
    return this.call('census' as keyof Side & string, NONE) as number;
  }
}

class GuardedScheduler extends Guarded<ConnectorScheduler> implements ConnectorScheduler {
  constructor(guest: Guest, inner: unknown) {
    super(guest, inner, WHOLE_SCHEDULER, SCHEDULER_HOOKS);
  }

  getNumNewMatchedTokens(view: RequestView, computed: number): Matched {
    return this.call('getNumNewMatchedTokens', [view, computed]) as Matched;
  }

  updateStateAfterAlloc(view: RequestView, externalTokens: number, at: number, emit: Emit): void {
    this.call('updateStateAfterAlloc', [view, externalTokens, at, guardEmit(this.guest, emit)]);
  }

  buildConnectorMeta(items: readonly StepItem[], view: (request: number) => RequestView): unknown {
    return this.call('buildConnectorMeta', [items, view]);
  }

  hasMeta(): boolean {
    return Boolean(this.call('hasMeta', NONE));
  }

  requestFinished(view: RequestView): FinishVerdict {
    return this.call('requestFinished', [view]) as FinishVerdict;
  }

  requestAborted(view: RequestView): boolean {
    return Boolean(this.call('requestAborted', [view]));
  }

  requestForgotten(request: number): void {
    this.call('requestForgotten', [request]);
  }
}

class GuardedWorker extends Guarded<ConnectorWorker> implements ConnectorWorker {
  constructor(guest: Guest, inner: unknown) {
    super(guest, inner, WHOLE_WORKER, WORKER_HOOKS);
  }

  startLoadKv(meta: unknown, at: number, emit: Emit): Progress {
    return this.#progress('startLoadKv', [meta, at, guardEmit(this.guest, emit)]);
  }

  waitForLayerLoad(layer: number, at: number, emit: Emit): Progress {
    return this.#progress('waitForLayerLoad', [layer, at, guardEmit(this.guest, emit)]);
  }

  saveKvLayer(layer: number, at: number, emit: Emit): Progress {
    return this.#progress('saveKvLayer', [layer, at, guardEmit(this.guest, emit)]);
  }

  waitForSave(at: number, emit: Emit): Progress {
    return this.#progress('waitForSave', [at, guardEmit(this.guest, emit)]);
  }

  getFinished(): Finished | null {
    const finished = this.call('getFinished', NONE) as Finished | null;
    if (finished === null) return null;
    // What was said stays said, whatever the connector does with its lists.
    const { sent, received, failed } = finished;
    return { sent: [...sent], received: [...received], failed: [...failed] };
  }

  step(at: number, input: Input, emit: Emit): void {
    this.call('step', [at, input, guardEmit(this.guest, emit)]);
  }

  waits(): Wait[] {
    return [...(this.call('waits', NONE) as Wait[])];
  }

  /** Keeps count of a hook that is not done. */
  #progress(
    hook: 'startLoadKv' | 'waitForLayerLoad' | 'saveKvLayer' | 'waitForSave',
    args: readonly unknown[],
  ): Progress {
    const { guest } = this;
    const answer = this.call(hook, args) as Progress;
    if (answer !== 'again') guest.again = null;
    else if (guest.again?.hook === hook) guest.again.turns++;
    else guest.again = { hook, since: guest.host.now(), turns: 1 };
    return answer;
  }
}

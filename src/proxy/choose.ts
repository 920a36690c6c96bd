import type { EngineSpec, Role } from '../base/topology.ts';

/**
 * Who serves the next request. Instances take turns, and so do the DP ranks of each instance, every instance counting
 * for itself: no rank is starved whatever the number of instances. An engine that is down is passed over.
 */
export interface ChoiceState {
  readonly instances: { readonly engines: readonly EngineSpec[]; nextDpRank: number }[];
  nextInstance: number;
}

/** What a policy says of itself and wants to be held to. */
export type PolicyClaim =
  /** No DP rank of an instance is ever two requests ahead of another one, while all engines are up. */
  'dp-ranks-take-turns';

/** A policy of the proxy, asked once for each leg of a request. */
export interface ChoicePolicy {
  /** For people. */
  readonly name?: string;
  /** None for a policy that promises no more than an engine that is up. */
  readonly claims?: readonly PolicyClaim[];
  /** One state for each role, kept by the proxy and handed to `choose`. */
  readonly create: (engines: readonly EngineSpec[], role: Role) => ChoiceState;
  /** An engine of the role that is not down; null when no engine is up. */
  readonly choose: (state: ChoiceState, down: ReadonlySet<number>) => EngineSpec | null;
}

export function createChoice(engines: readonly EngineSpec[], role: Role): ChoiceState {
  const instances: ChoiceState['instances'] = [];
  for (const engine of engines) {
    if (engine.role !== role) continue;
    const known = instances[engine.instance];
    if (known === undefined) instances[engine.instance] = { engines: [engine], nextDpRank: 0 };
    else instances[engine.instance] = { engines: [...known.engines, engine], nextDpRank: 0 };
  }
  return { instances, nextInstance: 0 };
}

export function chooseInTurn(state: ChoiceState, down: ReadonlySet<number>): EngineSpec | null {
  for (let tried = 0; tried < state.instances.length; tried++) {
    const instance = state.instances[state.nextInstance]!;
    state.nextInstance = (state.nextInstance + 1) % state.instances.length;
    const engine = nextRank(instance, down);
    if (engine !== null) return engine;
  }
  return null;
}

function nextRank(instance: ChoiceState['instances'][number], down: ReadonlySet<number>): EngineSpec | null {
  for (let tried = 0; tried < instance.engines.length; tried++) {
    const engine = instance.engines[instance.nextDpRank]!;
    instance.nextDpRank = (instance.nextDpRank + 1) % instance.engines.length;
    if (!down.has(engine.engine)) return engine;
  }
  return null;
}

export const IN_TURN: ChoicePolicy = {
  name: 'in turn',
  claims: ['dp-ranks-take-turns'],
  create: createChoice,
  choose: chooseInTurn,
};

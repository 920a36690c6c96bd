import type { ActorId, EngineId, Topology } from '../base/topology.ts';
import type { Fields } from '../wire/machine.ts';

/**
 * One way in which an invariant breaks, as a row of its file. `says` is a template for src/report, with the ids of the violation
 * in braces; no other code reads it.
 */
export interface Breach<Says extends string = string> {
  readonly invariant: string;
  readonly name: string;
  /** What part of the system it shows at; one of the invariant's sites. */
  readonly site: string;
  readonly says: Says;
}

type NamesIn<Says extends string> = Says extends `${string}{${infer Name}}${infer Rest}`
  ? Name | NamesIn<Rest>
  : never;

/** The ids that the template of a breach names, and any others. */
export type IdsOf<Says extends string> = Fields & { readonly [N in NamesIn<Says>]: Fields[string] };

/** Whose part it is, without numbers that differ from run to run. */
export interface Where {
  readonly role: 'proxy' | 'prefill' | 'decode' | 'none';
  /** The machine of an engine; 'none' for the engine as a whole, and for what is no engine's. */
  readonly machine: 'scheduler' | 'rank' | 'none';
  /** Which of several things of a site: the hook, the thread, the kind of effect, of event or of wait; '' for the only one. */
  readonly part: string;
}

export const NOWHERE: Where = { role: 'none', machine: 'none', part: '' };

export function whereOfActor(topology: Topology, actor: ActorId, part = ''): Where {
  const { engine, tpRank } = topology.actors[actor]!;
  if (engine < 0) return { role: 'proxy', machine: 'none', part };
  return { role: topology.engines[engine]!.role, machine: tpRank < 0 ? 'scheduler' : 'rank', part };
}

export function whereOfEngine({ engines }: Topology, engine: EngineId): Where {
  return { role: engines[engine]!.role, machine: 'none', part: '' };
}

/** Tells that a promise is broken: which way, whose part it is, and the ids of what is at fault. */
export type Fail = <Says extends string>(breach: Breach<Says>, where: Where, ids: IdsOf<Says>) => void;

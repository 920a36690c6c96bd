import type { Fields } from '../wire/machine.ts';
import type { Breach, Where } from './breach.ts';
import type { BreachName, InvariantId, Site } from './registry.ts';

/** One broken invariant, as data: src/report puts it into words. */
export interface Violation extends Where {
  readonly invariant: InvariantId;
  /** The part of the system at which it shows; `role`, `machine` and `part` say whose. */
  readonly site: Site;
  /** Which way it broke. */
  readonly breach: BreachName;
  /** Requests, transfers, engines, actors, layers, blocks, cells, counts: what exactly is at fault. */
  readonly ids: Fields;
  /** Where the code of the connector or policy stood, innermost first, when it was the one that broke. */
  readonly stack?: readonly string[];
  /** Steps taken when it was seen. */
  readonly step: number;
  readonly atMicros: number;
}

/** What is seen, when, and where the guest's code stood, if it was a guest. */
export interface Seen {
  readonly ids: Fields;
  readonly step: number;
  readonly atMicros: number;
  readonly stack: readonly string[];
}

export function violationOf(breach: Breach, where: Where, { ids, step, atMicros, stack }: Seen): Violation {
  const { role, machine, part } = where;
  // Every breach is a row of the registry: its names are those of the types.
  const invariant = breach.invariant as InvariantId;
  const site = breach.site as Site;
  const name = breach.name as BreachName;
  const seen = { invariant, site, role, machine, part, breach: name, ids, step, atMicros };
  return stack.length === 0 ? seen : { ...seen, stack };
}

/** What makes two failures the same. */
export type FailureKey = Pick<Violation, 'invariant' | 'site' | 'role' | 'machine' | 'part'>;

/** Two failures are the same if the same promise broke at the same part of the system. */
export function sameFailure(left: FailureKey, right: FailureKey): boolean {
  return (
    left.invariant === right.invariant &&
    left.site === right.site &&
    left.role === right.role &&
    left.machine === right.machine &&
    left.part === right.part
  );
}

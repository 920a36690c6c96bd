import type { ActorId, Topology } from '../base/topology.ts';

/** The invariants of docs/INVARIANTS.md. */
export const INVARIANTS = {
  I1: 'no block is reused while an operation that names it can still land, and none touches what it was not given',
  I2: 'every request reaches exactly one end, in bounded time, and the client sees it',
  I3: 'when all requests have ended every block is free and every table is empty',
  I4: 'what D reads first is what a single node would have computed',
  I5: 'completions are counted, and blocks freed, exactly once',
  I6: 'every message and operation goes to the right host, DP rank and TP rank',
  I7: 'no message, however odd, ends a thread or an engine',
  I9: 'nothing waits without a bound',
  I10: 'a reported success is true',
  I12: 'what an actor asks of its engine and its NIC can be done',
} as const;

export type InvariantId = keyof typeof INVARIANTS;

/** One broken invariant. `place` names the part of the system, without numbers that differ from run to run. */
export interface Violation {
  readonly invariant: InvariantId;
  readonly place: string;
  /** For people: what exactly, with ids. */
  readonly detail: string;
  /** Where the code of the connector or policy stood, innermost first, when it was the one that broke. */
  readonly stack?: readonly string[];
  /** Steps taken when it was seen. */
  readonly step: number;
  readonly atMicros: number;
}

/** What a violation's place calls a part of an actor. */
export function placeOf(topology: Topology, actor: ActorId, part: string): string {
  const { engine, tpRank } = topology.actors[actor]!;
  if (engine < 0) return `proxy ${part}`;
  return `${topology.engines[engine]!.role} ${tpRank < 0 ? 'scheduler' : 'rank'} ${part}`;
}

/** Two failures are the same if the same promise broke at the same place. */
export function sameFailure(left: Violation, right: Violation): boolean {
  return left.invariant === right.invariant && left.place === right.place;
}

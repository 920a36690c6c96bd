import type { Breach } from './breach.ts';
import type { Hearings, Invariant } from './invariant.ts';
import { I1 } from './invariants/i1-block-reuse.ts';
import { I2 } from './invariants/i2-one-end.ts';
import { I3 } from './invariants/i3-nothing-left.ts';
import { I4 } from './invariants/i4-first-read.ts';
import { I5 } from './invariants/i5-counted-once.ts';
import { I6 } from './invariants/i6-routing.ts';
import { I7 } from './invariants/i7-odd-message.ts';
import { I9 } from './invariants/i9-bounded-wait.ts';
import { I10 } from './invariants/i10-honest-report.ts';
import { I12 } from './invariants/i12-possible-request.ts';

/**
 * Every invariant that is judged, in the order in which its judges hear: when one event breaks two promises, the first is told.
 * I8 waits for restarts, I11 for a proxy that streams (docs/INVARIANTS.md).
 */
const ALL = [I1, I2, I3, I4, I5, I6, I7, I9, I10, I12] as const;

export type InvariantId = (typeof ALL)[number]['id'];
type SitesOf<I> = I extends { readonly sites: infer S } ? keyof S & string : never;
/** The parts of the system at which an invariant can break. */
export type Site = SitesOf<(typeof ALL)[number]>;
type NamesOf<I> = I extends { readonly breaches: infer B } ? keyof B & string : never;
/** The ways in which invariants break, by their names. */
export type BreachName = NamesOf<(typeof ALL)[number]>;

export const INVARIANTS: readonly (Invariant & { readonly id: InvariantId })[] = ALL;

const BY_ID: ReadonlyMap<string, Invariant> = new Map(INVARIANTS.map((row) => [row.id, row]));

export function invariantById(id: string): Invariant | undefined {
  return BY_ID.get(id);
}

export function breachByName(id: InvariantId, name: string): Breach | undefined {
  return BY_ID.get(id)?.breaches[name];
}

/** Who hears of what, in the order of the registry. */
export const HEARING: { readonly [K in keyof Hearings]: readonly Hearings[K][] } = {
  allocate: hearersOf('allocate'),
  free: hearersOf('free'),
  assign: hearersOf('assign'),
  outcome: hearersOf('outcome'),
  misread: hearersOf('misread'),
  loaded: hearersOf('loaded'),
  died: hearersOf('died'),
  spin: hearersOf('spin'),
  sent: hearersOf('sent'),
  report: hearersOf('report'),
  addressed: hearersOf('addressed'),
  posted: hearersOf('posted'),
  landed: hearersOf('landed'),
  ended: hearersOf('ended'),
  endless: hearersOf('endless'),
};

function hearersOf<K extends keyof Hearings>(what: K): Hearings[K][] {
  return INVARIANTS.flatMap(({ hears }: Invariant) => {
    const hear = hears[what];
    return hear === undefined ? [] : [hear];
  });
}

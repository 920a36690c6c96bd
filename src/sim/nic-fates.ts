import { below, finish } from '../base/mix.ts';
import type { ActorId } from '../base/topology.ts';
import type { WorkStatus } from '../io/engine/host.ts';
import type { ChainFate } from '../io/verbs-sim.ts';
import type { Core } from './core.ts';
import { NIC_FAULTS, type NicFaultName } from './scenario.ts';
import { DRAW } from './tape.ts';

/** What the NIC does to what is posted, as draws of the tape. */

/** The fault of one post; the values are tape values: add at the end, never renumber. Those without a name are kinds of `error`. */
export const FATE = {
  none: 0,
  error: 1,
  ackLost: 2,
  silent: 3,
  torn: 4,
  early: 5,
  refused: 6,
  partlyRefused: 7,
  overflow: 8,
  staleKey: 9,
  notReady: 10,
  localLength: 11,
  localProtection: 12,
  remoteAccess: 13,
  remoteOperation: 14,
  notReadyTooLong: 15,
} as const;
export type Fate = (typeof FATE)[keyof typeof FATE];

/** Classes of error that a completion can bring; the first is the plain one. */
const ERRORS: readonly (readonly [Fate, WorkStatus])[] = [
  [FATE.error, 'RETRY_EXC_ERR'],
  [FATE.localLength, 'LOC_LEN_ERR'],
  [FATE.localProtection, 'LOC_PROT_ERR'],
  [FATE.remoteAccess, 'REM_ACCESS_ERR'],
  [FATE.remoteOperation, 'REM_OP_ERR'],
  [FATE.notReadyTooLong, 'RNR_RETRY_EXC_ERR'],
];
const STATUS_OF = new Map(ERRORS);

/** What the faults of a scenario can be of one post, in the tape's numbers. */
const FATES_OF: { readonly [name in NicFaultName]: readonly Fate[] } = {
  error: ERRORS.map(([fate]) => fate),
  ackLost: [FATE.ackLost],
  silent: [FATE.silent],
  torn: [FATE.torn],
  early: [FATE.early],
  refused: [FATE.refused, FATE.partlyRefused],
  overflow: [FATE.overflow],
  staleKey: [FATE.staleKey],
  notReady: [FATE.notReady],
  slow: [],
};

/** Faults that hit a SEND, which alone needs a receive. Nobody waits for its completion, so none is lost. */
const OF_SEND = fatesOf(['error', 'overflow', 'notReady', 'refused']);
const OF_CHAIN = fatesOf(NIC_FAULTS.filter((name) => name !== 'notReady'));

function fatesOf(names: readonly NicFaultName[]): ReadonlySet<Fate> {
  return new Set(names.flatMap((name) => FATES_OF[name]));
}

/** The status that a work request fails with, or null where it does not fail by itself. */
export function statusOf(fate: Fate): WorkStatus | null {
  return STATUS_OF.get(fate) ?? null;
}

const CHAIN_FATES: { readonly [fate: number]: ChainFate } = {
  [FATE.ackLost]: 'ackLost',
  [FATE.silent]: 'silent',
  [FATE.torn]: 'torn',
  [FATE.early]: 'told',
  [FATE.overflow]: 'overflow',
};

export function chainFateOf(fate: Fate): ChainFate {
  return CHAIN_FATES[fate] ?? 'none';
}

/** Draws the fate of one post. `kind` and `object` say what is posted: a layer or a SEND, and its transfer. */
export function drawFate(core: Core, actor: ActorId, kind: number, object: number, isSend: boolean): Fate {
  const { tape, profile, replaying, nicFaults } = core.spec;
  if (!replaying && profile.nic === 0) return FATE.none;
  const occurrence = core.occurrences.next(DRAW.nicFate, actor, kind, object);
  const pick = (hash: number): number => {
    if (below(hash, 64 >> profile.nic) !== 0 || nicFaults.length === 0) return FATE.none;
    const fates = FATES_OF[nicFaults[below(finish(hash), nicFaults.length)]!];
    return fates.length === 0 ? FATE.none : fates[below(finish(hash ^ 0xfa7e), fates.length)]!;
  };
  const fate = tape.choose(DRAW.nicFate, actor, kind, object, occurrence, pick) as Fate;
  // A tape may hold any number, and a seed may draw a fault that this kind of post does not know.
  if (!(isSend ? OF_SEND : OF_CHAIN).has(fate)) return FATE.none;
  core.judge.disturbed();
  return fate;
}

const SLOW_MOST = 400;

/** How many times slower than its profile a rank's NIC is in this run. */
export function drawSlowness(core: Core, actor: ActorId): number {
  const { tape, profile, replaying, nicFaults } = core.spec;
  if (!replaying && (profile.nic === 0 || !nicFaults.includes('slow'))) return 1;
  const pick = (hash: number): number => (below(hash, 4) === 0 ? 1 + below(finish(hash), SLOW_MOST) : 0);
  const extra = Math.min(tape.choose(DRAW.slowNic, actor, 0, 0, 0, pick), SLOW_MOST);
  if (extra > 0) core.judge.disturbed();
  return 1 + extra;
}

/** For how long a receiver has no room. */
export const NOT_READY_MICROS = 2_000;

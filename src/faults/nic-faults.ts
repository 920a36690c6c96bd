import type { WorkStatus } from '../io/engine/host.ts';
import type { ChainFate } from '../io/verbs-sim.ts';

/** What the NIC does to one post. Each field is one thing that the world does; a field that is absent is done not at all. */
export interface NicEffect {
  readonly name: string;
  /** As a draw of the tape tells it. Part of the tape format: never renumber; 0 is no fault. */
  readonly value: number;
  /** Nothing lands, the completion brings this status, the queue pair breaks and what is behind it is flushed. */
  readonly status?: WorkStatus;
  /** How the chain lands and is told otherwise than it should. */
  readonly chain?: ChainFate;
  /** The post is refused for want of memory: at its first work request, or at the middle one. */
  readonly refusedAt?: 'first' | 'middle';
  /** The completion comes at once, before the bytes. */
  readonly tellsEarly?: true;
  /** The completion queue overflows once it has landed. */
  readonly overflows?: true;
  /** The target's memory has got another key when it would land. */
  readonly renewsKey?: true;
  /** The receiver has no room for this long. */
  readonly notReadyMicros?: number;
}

/**
 * One fault of the NIC: its name in a scenario, the effects it may have (a draw picks one), what it can hit, its words. The
 * check of a scenario file, the arbitraries, the world and docs/SIMULATOR.md are made from these rows.
 */
export interface NicFault {
  readonly name: string;
  /** What happens, for the page. */
  readonly does: string;
  /** What the shipped connector comes to with it on the library as it is, for the page. */
  readonly onMori: string;
  /** A protocol can survive it, so that it is in the default mix and tapes may be spoiled with it. */
  readonly survivable: boolean;
  /** A SEND alone needs a receive; nobody waits for its completion, so none is lost. */
  readonly hitsSends: boolean;
  readonly hitsChains: boolean;
  /** None for a fault of a whole NIC, which is drawn once for each rank. */
  readonly effects: readonly NicEffect[];
}

const BOTH = { survivable: true, hitsSends: true, hitsChains: true } as const;
const CHAINS = { survivable: true, hitsSends: false, hitsChains: true } as const;

export const NIC_FAULTS = [
  {
    name: 'error',
    does: 'nothing lands, the completion brings RETRY_EXC, LOC_LEN, LOC_PROT, REM_ACCESS, REM_OP or RNR_RETRY_EXC; the queue pair is in the error state and flushes what is behind',
    onMori: 'I1: told at once, although other queue pairs of the transfer still write',
    ...BOTH,
    effects: [
      { name: 'error', value: 1, status: 'RETRY_EXC_ERR' },
      { name: 'localLength', value: 11, status: 'LOC_LEN_ERR' },
      { name: 'localProtection', value: 12, status: 'LOC_PROT_ERR' },
      { name: 'remoteAccess', value: 13, status: 'REM_ACCESS_ERR' },
      { name: 'remoteOperation', value: 14, status: 'REM_OP_ERR' },
      { name: 'notReadyTooLong', value: 15, status: 'RNR_RETRY_EXC_ERR' },
    ],
  },
  {
    name: 'ackLost',
    does: 'it lands, and the completion is an error',
    onMori: 'I1',
    ...CHAINS,
    effects: [{ name: 'ackLost', value: 2, chain: 'ackLost' }],
  },
  {
    name: 'silent',
    does: 'it lands; neither its completion nor any later one of its queue pair is seen',
    onMori: 'I2, I3: nobody takes the queue pair down',
    ...CHAINS,
    effects: [{ name: 'silent', value: 3, chain: 'silent' }],
  },
  {
    name: 'torn',
    does: 'it lands in up to four pieces, 12 us apart',
    onMori: '-',
    ...CHAINS,
    effects: [{ name: 'torn', value: 4, chain: 'torn' }],
  },
  {
    name: 'early',
    does: 'the completion is seen before the bytes are there; no protocol survives that, so it is not in the default mix',
    onMori: 'I10',
    ...CHAINS,
    survivable: false,
    effects: [{ name: 'early', value: 5, chain: 'told', tellsEarly: true }],
  },
  {
    name: 'refused',
    does: '`ibv_post_send` fails with ENOMEM, at the first work request or midway',
    onMori: 'I1, I3: slots never come back',
    ...BOTH,
    effects: [
      { name: 'refused', value: 6, refusedAt: 'first' },
      { name: 'partlyRefused', value: 7, refusedAt: 'middle' },
    ],
  },
  {
    name: 'overflow',
    does: 'the completion queue overflows: the entry is lost, the queue pair is in the error state, an asynchronous event says so',
    onMori: 'I2, I3',
    ...BOTH,
    effects: [{ name: 'overflow', value: 8, chain: 'overflow', overflows: true }],
  },
  {
    name: 'staleKey',
    does: 'the target has registered its memory anew: REM_ACCESS',
    onMori: 'I1',
    ...CHAINS,
    effects: [{ name: 'staleKey', value: 9, renewsKey: true }],
  },
  {
    name: 'notReady',
    does: 'the receiver of a notification has no room for 2 ms, and all behind it waits',
    onMori: '-',
    survivable: true,
    hitsSends: true,
    hitsChains: false,
    effects: [{ name: 'notReady', value: 10, notReadyMicros: 2_000 }],
  },
  {
    name: 'slow',
    does: "a rank's NIC is up to 400 times slower for the whole run",
    onMori: '-',
    ...CHAINS,
    effects: [],
  },
] as const satisfies readonly NicFault[];

export type NicFaultName = (typeof NIC_FAULTS)[number]['name'];

const ROWS: readonly NicFault[] = NIC_FAULTS;

export const NIC_FAULT_NAMES = NIC_FAULTS.map(({ name }) => name);

export const SURVIVABLE_NIC_FAULTS = NIC_FAULTS.filter(({ survivable }) => survivable).map(
  ({ name }) => name,
);

/** Effects by the number of their draw. */
function effectsOf(rows: readonly NicFault[]): ReadonlyMap<number, NicEffect> {
  return new Map(rows.flatMap(({ effects }) => effects.map((effect) => [effect.value, effect])));
}

const OF_SENDS = effectsOf(ROWS.filter(({ hitsSends }) => hitsSends));
const OF_CHAINS = effectsOf(ROWS.filter(({ hitsChains }) => hitsChains));
const EFFECTS = new Map(ROWS.map(({ name, effects }) => [name, effects]));

/** The effects that a fault of that name may have. */
export function effectsNamed(fault: NicFaultName): readonly NicEffect[] {
  return EFFECTS.get(fault)!;
}

/** What a draw does to a post; null for none, and for what this kind of post does not know. */
export function nicEffectOf(value: number, isSend: boolean): NicEffect | null {
  return (isSend ? OF_SENDS : OF_CHAINS).get(value) ?? null;
}

/** Draws that spoil a tape with what a protocol can survive; 0 takes the fault away. */
export const SURVIVABLE_VALUES: readonly number[] = [
  0,
  ...ROWS.filter(({ survivable }) => survivable).flatMap(({ effects }) => effects.map(({ value }) => value)),
].sort((a, b) => a - b);

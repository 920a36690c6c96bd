import { MESSAGE_FAULTS } from './message-faults.ts';
import { NIC_FAULT_NAMES, SURVIVABLE_NIC_FAULTS } from './nic-faults.ts';

/**
 * The hazards of a scenario: what may happen at all. The type of a scenario's `hazards`, the check of a scenario file, the
 * arbitraries and the table in docs/SIMULATOR.md are made from these rows.
 */
interface Words {
  readonly name: string;
  /** How much of it one schedule draws, for the page. */
  readonly perSchedule: string;
  readonly does: string;
}

/** `switch` is on or off, `choice` one of its values (the first is off), `set` any of them (none is off). */
export type Hazard = Words &
  (
    | { readonly kind: 'switch' }
    | { readonly kind: 'choice'; readonly values: readonly string[] }
    | {
        readonly kind: 'set';
        readonly values: readonly string[];
        /** Those that a protocol can survive. */
        readonly survivable: readonly string[];
      }
  );

const LEVELS = 'level 0, 1, 2 with 3/5, 1/5, 1/5';

export const HAZARDS = [
  {
    name: 'longDelays',
    kind: 'switch',
    perSchedule: 'style 0 to 4, evenly (off: 0 to 2)',
    does: 'delays beyond every time limit of the protocol, see the styles below; without it at most a millisecond',
  },
  ...MESSAGE_FAULTS.map(({ name, does }) => ({ name, kind: 'switch', perSchedule: LEVELS, does }) as const),
  {
    name: 'strays',
    kind: 'choice',
    values: ['none', 'notUtf8', 'any'],
    perSchedule: LEVELS,
    does: "a stranger's bytes: for each rank and kind of stray 1 or 2 in 12, at 1 to 1,500 us. 7 kinds with `any`, 1 with `notUtf8`",
  },
  {
    name: 'aborts',
    kind: 'switch',
    perSchedule: 'always',
    does: 'the client goes away: each request with 1 in 4, at 1 to 40, 150, 400 or 1,000 us after its arrival',
  },
  {
    name: 'crashes',
    kind: 'switch',
    perSchedule: '1 schedule in 8',
    does: 'each rank dies with 1 in (number of ranks), at 1 to 2,500 us',
  },
  {
    name: 'nic',
    kind: 'set',
    values: NIC_FAULT_NAMES,
    survivable: SURVIVABLE_NIC_FAULTS,
    perSchedule: LEVELS,
    does: 'one post in 32 (level 1) or 16 (level 2) meets one of the listed [faults](#faults-of-the-nic)',
  },
] as const satisfies readonly Hazard[];

type ValueOf<H> = H extends { readonly kind: 'switch' }
  ? boolean
  : H extends { readonly kind: 'choice'; readonly values: readonly (infer V)[] }
    ? V
    : H extends { readonly kind: 'set'; readonly values: readonly (infer V)[] }
      ? readonly V[]
      : never;

/** What may happen at all; a draw switches each off in some schedules. */
export type Hazards = { readonly [H in (typeof HAZARDS)[number] as H['name']]: ValueOf<H> };

/** Nothing goes wrong. */
export const NO_HAZARDS = valuesOf(false);

/** Everything that a protocol can survive. */
export const EVERY_HAZARD = valuesOf(true);

/** Every row off, or on as far as it can be survived. */
function valuesOf(isOn: boolean): Hazards {
  const rows: readonly Hazard[] = HAZARDS;
  return Object.fromEntries(
    rows.map((row) => {
      if (row.kind === 'switch') return [row.name, isOn];
      if (row.kind === 'choice') return [row.name, isOn ? row.values.at(-1) : row.values[0]];
      return [row.name, isOn ? row.survivable : []];
    }),
  ) as unknown as Hazards;
}

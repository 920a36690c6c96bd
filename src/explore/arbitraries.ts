import fc from 'fast-check';
import { greatest } from '../base/lists.ts';
import type { Mode } from '../base/topology.ts';
import { HAZARDS, type Hazard, type Hazards } from '../faults/hazards.ts';
import { MESSAGE_FAULTS } from '../faults/message-faults.ts';
import { SURVIVABLE_VALUES } from '../faults/nic-faults.ts';
import type { Scenario } from '../sim/scenario.ts';
import { DRAW, type TapeEntry } from '../sim/tape.ts';
import { SHIPPED_MIX } from '../zoo/shipped.ts';

/**
 * fast-check arbitraries of clusters, workloads, hazards and tapes, to attack a connector from a property suite. The only
 * file that needs fast-check, an optional peer dependency; import it as `moriarty/fast-check`.
 */

function hazardValue(hazard: Hazard): fc.Arbitrary<unknown> {
  if (hazard.kind === 'switch') return fc.boolean();
  if (hazard.kind === 'choice') return fc.nat(hazard.values.length - 1).map((index) => hazard.values[index]);
  return fc.subarray([...hazard.survivable]);
}

const hazards = fc.oneof(
  { weight: 2, arbitrary: fc.constant(SHIPPED_MIX.hazards) },
  {
    weight: 3,
    arbitrary: fc.record(
      Object.fromEntries(HAZARDS.map((hazard) => [hazard.name, hazardValue(hazard)])),
    ) as unknown as fc.Arbitrary<Hazards>,
  },
);

const tpList = fc.constantFrom([1], [2], [4], [1, 2], [1, 2, 4]);
const dpList = fc.constantFrom([1], [1], [1, 2]);

/** Scenarios of small clusters in one mode; give yours the name of your suite. */
export function scenarios(mode: Mode): fc.Arbitrary<Scenario> {
  return fc
    .record({
      prefillInstances: fc.integer({ min: 1, max: 2 }),
      decodeInstances: fc.integer({ min: 1, max: 2 }),
      prefillTp: tpList,
      decodeTp: tpList,
      prefillDp: dpList,
      decodeDp: dpList,
      layers: fc.constantFrom([1], [2], [2, 3], [4]),
      unequalLayers: fc.boolean(),
      layouts: fc.constantFrom('mixed', 'equal'),
      heads: fc.constantFrom(1, 2, 4),
      blockTokens: fc.constantFrom(2, 3, 4),
      blocksPerEngine: fc.integer({ min: 8, max: 16 }),
      batchTokensMax: fc.integer({ min: 3, max: 12 }),
      requestsMax: fc.integer({ min: 1, max: 6 }),
      promptTokensMax: fc.integer({ min: 5, max: 16 }),
      outputTokensMax: fc.integer({ min: 1, max: 6 }),
      ordinaryRequests: fc.boolean(),
      sharedPrefixes: fc.boolean(),
      lookAhead: fc.boolean(),
      queuePairsMax: fc.integer({ min: 1, max: 3 }),
      sendQueueDepths: fc.constantFrom([1], [2], [8, 4, 2], [64]),
      notifications: fc.boolean(),
      hazards,
    })
    .map((drawn) => ({ ...SHIPPED_MIX, ...drawn, mode, name: `property-${mode}` }));
}

/** How to spoil a recorded tape: numbers that are read one after the other; none for no change. */
export const mutations = fc.option(fc.array(fc.nat({ max: 1 << 28 }), { minLength: 4, maxLength: 24 }), {
  freq: 2,
  nil: null,
});

/** Largest value that makes sense for each kind of draw. */
const VALUES: { readonly [draw: number]: number } = {
  [DRAW.shape]: 5,
  [DRAW.workload]: 8,
  [DRAW.fate]: greatest(MESSAGE_FAULTS.map(({ value }) => value)),
  [DRAW.abort]: 1500,
  [DRAW.crash]: 2500,
  [DRAW.stray]: 1500,
  [DRAW.slowNic]: 400,
  [DRAW.preemption]: 32,
};
const DELAYS = [3, 40, 900, 30_000, 700_000, 9_000_000];

/** Drops, alters and moves entries of a recorded tape, as the numbers of {@link mutations} say. */
export function mutateTape(entries: readonly TapeEntry[], numbers: readonly number[]): TapeEntry[] {
  return entries.flatMap((entry, index) => {
    const number = numbers[index % numbers.length]! + index * 7919;
    switch (number % 8) {
      case 0:
      case 1:
        return [];
      case 2:
        return [{ ...entry, value: anotherValue(entry.draw, number >>> 3) }];
      case 3:
        return [entry, { ...entry, occurrence: entry.occurrence + 1 + ((number >>> 3) % 3) }];
      case 4:
        return [entry, { ...entry, object: (number >>> 3) % 8 }];
      default:
        return [entry];
    }
  });
}

function anotherValue(draw: number, number: number): number {
  if (draw === DRAW.nicFate) return SURVIVABLE_VALUES[number % SURVIVABLE_VALUES.length]!;
  const most = VALUES[draw] ?? DELAYS[number % DELAYS.length]!;
  return number % (most + 1);
}

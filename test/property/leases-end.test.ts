import { describe, expect, test } from 'vitest';
import { finish, mix } from '../../src/base/mix.ts';
import { runSeed } from '../../src/explore/run.ts';
import { NO_HAZARDS } from '../../src/faults/hazards.ts';
import { headsOfRank, idleSources, sealingRanks, sourceRanks, targetRanks } from '../../src/kv/view.ts';
import { drawSetup } from '../../src/sim/draws.ts';
import type { Scenario } from '../../src/sim/scenario.ts';
import { seededTape } from '../../src/sim/tape.ts';
import { SHIPPED_MIX } from '../../src/zoo/shipped.ts';
import { newMemory } from '../helpers/world.ts';

// Where nothing is lost or late, a loan ends with its request and never by its time limit, whichever ranks hold copies.

interface Sizes {
  readonly heads: number;
  readonly prefillTp: number;
  readonly decodeTp: number;
}

const ONE_TO_EIGHT = [1, 2, 3, 4, 5, 6, 7, 8];

function canSplit(heads: number, tp: number): boolean {
  return heads % tp === 0 || tp % heads === 0;
}

const SIZES: readonly Sizes[] = ONE_TO_EIGHT.flatMap((heads) =>
  ONE_TO_EIGHT.flatMap((prefillTp) =>
    ONE_TO_EIGHT.filter((decodeTp) => canSplit(heads, prefillTp) && canSplit(heads, decodeTp)).map(
      (decodeTp) => ({ heads, prefillTp, decodeTp }),
    ),
  ),
);

test('every source rank is released by the ranks it serves, or by one other', () => {
  let idle = 0;
  for (const { heads, prefillTp, decodeTp } of SIZES) {
    for (let source = 0; source < prefillTp; source++) {
      const releasing = Array.from({ length: decodeTp }, (_, target) => target).filter(
        (target) =>
          sourceRanks(heads, prefillTp, decodeTp, target).includes(source) ||
          idleSources(heads, prefillTp, decodeTp, target).includes(source),
      );
      expect(sealingRanks(heads, prefillTp, decodeTp, source)).toEqual(releasing);
      expect(releasing.length).toBeGreaterThan(0);
      if (targetRanks(heads, prefillTp, decodeTp, source).length > 0) continue;
      expect(releasing).toHaveLength(1);
      expect(headsOfRank(heads, prefillTp, source).count).toBe(1);
      idle++;
    }
  }
  expect(idle).toBeGreaterThan(100);
});

const memory = newMemory();

/** One undisturbed schedule; microseconds from the last arrival to the last event. */
function serve(scenario: Scenario, seed: number): { expired: number; released: number; lastMicros: number } {
  const { requests } = drawSetup(scenario, seededTape(finish(mix(0x6b76, seed)), false));
  const { result } = runSeed(memory, scenario, seed);
  expect([result.violation, result.blocksLeft]).toEqual([null, 0]);
  expect(result.goals.get('request-completed')).toBe(requests.length);
  return {
    expired: result.goals.get('lease-expired') ?? 0,
    released: result.goals.get('idle-rank-released') ?? 0,
    lastMicros: result.atMicros - Math.max(...requests.map(({ arriveMicros }) => arriveMicros)),
  };
}

describe.each(['read', 'write'] as const)('in %s mode', (mode) => {
  test('no lease expires and all blocks are back within a second, for any sizes', () => {
    let released = 0;
    SIZES.forEach(({ heads, prefillTp, decodeTp }, index) => {
      const scenario: Scenario = {
        ...SHIPPED_MIX,
        mode,
        heads,
        prefillTp: [prefillTp],
        decodeTp: [decodeTp],
        prefillInstances: 1,
        decodeInstances: 1,
        prefillDp: [1 + (index % 2)],
        decodeDp: [1 + (index % 3)],
        layers: [1],
        requestsMax: 3,
        notifications: false,
        hazards: NO_HAZARDS,
      };
      const seen = serve(scenario, index);
      const told = JSON.stringify({ mode, heads, prefillTp, decodeTp, seed: index });
      expect([told, seen.expired]).toEqual([told, 0]);
      expect([told, seen.lastMicros < 1_000_000]).toEqual([told, true]);
      released += seen.released;
    });
    expect(released > 100).toBe(mode === 'read');
  });

  test.each([
    ['a latent cache, P TP 2, D TP 1', 1, 2, 1],
    ['two heads, P TP 4, D TP 2', 2, 4, 2],
  ])('nor in many schedules of %s', (_, heads, prefillTp, decodeTp) => {
    const scenario: Scenario = {
      ...SHIPPED_MIX,
      mode,
      heads,
      prefillTp: [prefillTp],
      decodeTp: [decodeTp],
      hazards: NO_HAZARDS,
    };
    for (let seed = 0; seed < 40; seed++) {
      const { expired, lastMicros } = serve(scenario, seed);
      expect([seed, expired, lastMicros < 1_000_000]).toEqual([seed, 0, true]);
    }
  });
});

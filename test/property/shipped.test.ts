import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Mode } from '../../src/base/topology.ts';
import { type Run, runSeed, runTape } from '../../src/sim/run.ts';
import { type Hazards, type Scenario, SHIPPED_MIX } from '../../src/sim/scenario.ts';
import { DRAW, type TapeEntry } from '../../src/sim/tape.ts';
import { GOALS, type Goal } from '../../src/wire/machine.ts';
import { NO_HAZARDS, newMemory } from '../helpers/world.ts';

// The shipped connector keeps every promise in any cluster, under any workload, fault and order of events.

const memory = newMemory();

const hazards: fc.Arbitrary<Hazards> = fc.oneof(
  { weight: 2, arbitrary: fc.constant(SHIPPED_MIX.hazards) },
  {
    weight: 3,
    arbitrary: fc.record({
      aborts: fc.boolean(),
      drops: fc.boolean(),
      duplicates: fc.boolean(),
      reorders: fc.boolean(),
      corruption: fc.boolean(),
      strays: fc.constantFrom('none', 'notUtf8', 'any'),
      crashes: fc.boolean(),
      longDelays: fc.boolean(),
    }),
  },
);

const tpList = fc.constantFrom([1], [2], [4], [1, 2], [1, 2, 4]);
const dpList = fc.constantFrom([1], [1], [1, 2]);

function scenarios(mode: Mode): fc.Arbitrary<Scenario> {
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
      hazards,
    })
    .map((drawn) => ({ ...SHIPPED_MIX, ...drawn, mode, name: `property-${mode}` }));
}

/** How to spoil a recorded tape: numbers that are read one after the other; none for no change. */
const mutation = fc.option(fc.array(fc.nat({ max: 1 << 28 }), { minLength: 4, maxLength: 24 }), {
  freq: 2,
  nil: null,
});

/** Largest value that makes sense for each kind of draw. */
const VALUES: { readonly [draw: number]: number } = {
  [DRAW.shape]: 5,
  [DRAW.workload]: 8,
  [DRAW.fate]: 4,
  [DRAW.abort]: 1500,
  [DRAW.crash]: 2500,
  [DRAW.stray]: 1500,
};
const DELAYS = [3, 40, 900, 30_000, 700_000, 9_000_000];

/** Drops, alters and moves entries. */
function mutate(entries: readonly TapeEntry[], numbers: readonly number[]): TapeEntry[] {
  return entries.flatMap((entry, index) => {
    const number = numbers[index % numbers.length]! + index * 7919;
    switch (number % 8) {
      case 0:
      case 1:
        return [];
      case 2: {
        const most = VALUES[entry.draw] ?? DELAYS[(number >>> 3) % DELAYS.length]!;
        return [{ ...entry, value: (number >>> 3) % (most + 1) }];
      }
      case 3:
        return [entry, { ...entry, occurrence: entry.occurrence + 1 + ((number >>> 3) % 3) }];
      case 4:
        return [entry, { ...entry, object: (number >>> 3) % 8 }];
      default:
        return [entry];
    }
  });
}

/** What can only happen in one mode. */
const GOALS_OF: { readonly [mode in Mode]: readonly Goal[] } = {
  write: ['grant-before-request', 'write-deferred'],
  read: ['claim-before-lease', 'claim-refused'],
};

/** The run of a case, with what tells it apart when it fails. */
function runCase(
  scenario: Scenario,
  seed: number,
  numbers: readonly number[] | null,
): { result: Run['result']; told: string } {
  const told = `seed ${seed}, scenario ${JSON.stringify(scenario)}`;
  if (numbers === null) return { result: runSeed(memory, scenario, seed).result, told };
  const { tape } = runSeed(memory, scenario, seed, { record: true });
  const entries = mutate(tape.recorded, numbers);
  return {
    result: runTape(memory, scenario, entries).result,
    told: `${told}, tape ${JSON.stringify(entries)}`,
  };
}

describe.each(['write', 'read'] as const)('in %s mode', (mode) => {
  const goals = new Map<Goal, number>();
  const seen = { runs: 0, mutated: 0, steps: 0, tpPairs: new Set<string>(), digests: new Set<string>() };

  test('no schedule of any cluster breaks a promise', () => {
    fc.assert(
      fc.property(scenarios(mode), fc.nat({ max: 1 << 30 }), mutation, (scenario, seed, numbers) => {
        const { result, told } = runCase(scenario, seed, numbers);
        seen.runs++;
        seen.mutated += numbers === null ? 0 : 1;
        seen.steps += result.steps;
        seen.tpPairs.add(`${scenario.prefillTp} ${scenario.decodeTp}`);
        seen.digests.add(result.digest);
        for (const [goal, count] of result.goals) goals.set(goal, (goals.get(goal) ?? 0) + count);
        if (result.violation !== null) throw new Error(`${JSON.stringify(result.violation)}; ${told}`);
      }),
      { seed: 42, numRuns: 3000 },
    );
  });

  test('the schedules were many, different and long enough to mean something', () => {
    expect(seen.runs).toBeGreaterThanOrEqual(3000);
    expect(seen.mutated).toBeGreaterThan(800);
    expect(seen.digests.size).toBeGreaterThan(2900);
    expect(seen.steps / seen.runs).toBeGreaterThan(80);
    expect(seen.tpPairs.size).toBe(25);
  });

  /** Of one mode only, or too rare here: the next test reaches the last. */
  const special: readonly Goal[] = [...GOALS_OF.write, ...GOALS_OF.read, 'queue-pair-rebuilt'];
  const wanted = [...GOALS.filter((goal) => !special.includes(goal)), ...GOALS_OF[mode]];

  test.each(wanted)('they reached %s', (goal) => {
    expect(goals.get(goal) ?? 0).toBeGreaterThan(0);
  });

  test('two engines whose messages are lost or very late keep every promise, over fences and new queue pairs', () => {
    const scenario: Scenario = {
      ...SHIPPED_MIX,
      mode,
      prefillInstances: 1,
      decodeInstances: 1,
      prefillTp: [1],
      decodeTp: [1],
      layers: [3],
      blocksPerEngine: 24,
      requestsMax: 12,
      hazards: { ...NO_HAZARDS, aborts: true, drops: true, longDelays: true },
    };
    let fenced = 0;
    let rebuilt = 0;
    for (let seed = 0; seed < 2000; seed++) {
      const { result, told } = runCase(scenario, seed, null);
      if (result.violation !== null) throw new Error(`${JSON.stringify(result.violation)}; ${told}`);
      fenced += result.goals.get('revoke-fenced') ?? 0;
      rebuilt += result.goals.get('queue-pair-rebuilt') ?? 0;
    }
    expect(fenced).toBeGreaterThan(20);
    expect(rebuilt).toBeGreaterThan(3);
  });
});

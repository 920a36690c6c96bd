import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Mode } from '../../src/base/topology.ts';
import { SHIPPED_GOALS } from '../../src/connector/shipped/goals.ts';
import { mutateTape, mutations, scenarios } from '../../src/explore/arbitraries.ts';
import { type Run, runSeed, runTape } from '../../src/explore/run.ts';
import { NO_HAZARDS } from '../../src/faults/hazards.ts';
import type { Scenario } from '../../src/sim/scenario.ts';
import { WORLD_GOALS } from '../../src/wire/goals.ts';
import { SHIPPED_MIX } from '../../src/zoo/shipped.ts';
import { newMemory } from '../helpers/world.ts';

// The shipped connector keeps every promise in any cluster, under any workload, fault and order of events.

const memory = newMemory();

/** What can only happen in one mode. */
const GOALS_OF: { readonly [mode in Mode]: readonly string[] } = {
  write: ['grant-before-request', 'write-deferred'],
  read: ['claim-before-lease', 'claim-refused', 'idle-rank-released'],
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
  const entries = mutateTape(tape.recorded, numbers);
  return {
    result: runTape(memory, scenario, entries).result,
    told: `${told}, tape ${JSON.stringify(entries)}`,
  };
}

describe.each(['write', 'read'] as const)('in %s mode', (mode) => {
  const goals = new Map<string, number>();
  const seen = { runs: 0, mutated: 0, steps: 0, tpPairs: new Set<string>(), digests: new Set<string>() };

  test('no schedule of any cluster breaks a promise', () => {
    fc.assert(
      fc.property(scenarios(mode), fc.nat({ max: 1 << 30 }), mutations, (scenario, seed, numbers) => {
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
  const special: readonly string[] = [...GOALS_OF.write, ...GOALS_OF.read, 'queue-pair-rebuilt'];
  const all: readonly string[] = [...Object.keys(WORLD_GOALS), ...SHIPPED_GOALS];
  const wanted = [...all.filter((goal) => !special.includes(goal)), ...GOALS_OF[mode]];

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
    for (let seed = 0; seed < 5000; seed++) {
      const { result, told } = runCase(scenario, seed, null);
      if (result.violation !== null) throw new Error(`${JSON.stringify(result.violation)}; ${told}`);
      fenced += result.goals.get('revoke-fenced') ?? 0;
      rebuilt += result.goals.get('queue-pair-rebuilt') ?? 0;
    }
    expect(fenced).toBeGreaterThan(20);
    expect(rebuilt).toBeGreaterThan(3);
  }, 180_000);
});

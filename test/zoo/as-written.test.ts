import { describe, expect, test } from 'vitest';
import { runSeed, runTape } from '../../src/explore/run.ts';
import type { FailureKey } from '../../src/oracle/verdict.ts';
import type { RunResult } from '../../src/sim/run-spec.ts';
import type { Scenario } from '../../src/sim/scenario.ts';
import type { Fields } from '../../src/wire/machine.ts';
import { FAULT_IDS, FAULTS, type FaultId, faultSet } from '../../src/zoo/as-written/faults.ts';
import { AS_WRITTEN_MIX } from '../../src/zoo/as-written/mix.ts';
import { newMemory } from '../helpers/world.ts';

// The zoo's first specimen: the first published connector, each of its known faults alone, all at once, all mended.

const memory = newMemory();

/** Schedules within which each fault must show. */
const SCHEDULES_MAX = 2000;

function withFaults(...faults: FaultId[]): Scenario {
  return { ...AS_WRITTEN_MIX, faults };
}

/** The first schedule that fails, recorded. */
function firstFailure(scenario: Scenario): { seed: number; result: RunResult } {
  for (let seed = 0; seed < SCHEDULES_MAX; seed++) {
    if (runSeed(memory, scenario, seed).result.violation === null) continue;
    return { seed, result: runSeed(memory, scenario, seed, { record: true }).result };
  }
  throw new Error(`no schedule of ${SCHEDULES_MAX} fails`);
}

/** What the connector logged in a run, by name. */
function logsOf({ record }: RunResult, name: string): Fields[] {
  const effects = record.steps.flatMap((step) => step.effects);
  return effects.flatMap((effect) =>
    effect.kind === 'note' && effect.note.kind === 'log' && effect.note.name === name
      ? [effect.note.fields]
      : [],
  );
}

/** What exception ended a thread of the first connector. */
const thrown = ({ violation }: RunResult): unknown => violation!.ids['thrown'];

/** Whether the run shows not only that it fails, but what the fault did. */
const MECHANISMS: { readonly [F in FaultId]: (run: RunResult) => void } = {
  F1: (run) => expect(thrown(run)).toMatch(/not UTF-8, the decoded text is used before it is set/),
  F2: (run) => {
    expect(logsOf(run, 'handshake-runs-already').length).toBeGreaterThan(0);
    expect(thrown(run)).toMatch(/dpSize is used before it is set/);
  },
  F3: (run) => {
    const wrong = logsOf(run, 'layer-registered-with-last-cells');
    expect(wrong.some(({ bytes, recordedBytes }) => bytes !== recordedBytes)).toBe(true);
  },
  F4: ({ violation }) => expect(violation!.breach).toBe('uneven-turns'),
  F5: ({ violation }) => expect(violation!.breach).toBe('uneven-turns'),
  F6: (run) =>
    expect(logsOf(run, 'starts-write-worker')).toContainEqual(
      expect.objectContaining({ worker: 2, running: 1 }),
    ),
  F7: ({ violation }) => expect(violation!.ids['waitsFor']).toBe('ready-flag-of-unset-remote'),
  F8: (run) => expect(thrown(run)).toMatch(/is not among those that wait for their last chunk/),
};

describe.each(FAULT_IDS)('%s alone', (fault) => {
  test(`is found within ${SCHEDULES_MAX} schedules and says what it did`, () => {
    const { result } = firstFailure(withFaults(fault));
    const violation = result.violation!;
    expect(FAULTS[fault].breaks).toContain(violation.invariant);
    const isHere = (place: Partial<FailureKey>): boolean =>
      Object.entries(place).every(([field, value]) => violation[field as keyof FailureKey] === value);
    expect(FAULTS[fault].places.filter(isHere)).toHaveLength(1);
    MECHANISMS[fault](result);
  });
});

test('all faults at once show in one of the first five schedules', () => {
  expect(firstFailure(withFaults(...FAULT_IDS)).seed).toBeLessThan(5);
});

test.each(['read', 'write'] as const)(
  'mended, 1,000 schedules in %s mode run clean and really run',
  (mode) => {
    const goals = new Map<string, number>();
    for (let seed = 0; seed < 1000; seed++) {
      const { violation, waits, goals: reached } = runSeed(memory, { ...withFaults(), mode }, seed).result;
      expect([seed, violation, waits]).toEqual([seed, null, []]);
      for (const [goal, count] of reached) goals.set(goal, (goals.get(goal) ?? 0) + count);
    }
    const count = (goal: string): number => goals.get(goal) ?? 0;
    expect(count('request-completed')).toBeGreaterThan(2500);
    expect(count('ordinary-request')).toBeGreaterThan(500);
    expect(count('handshake-shared')).toBeGreaterThan(10);
    expect(count('message-refused')).toBeGreaterThan(100);
    if (mode === 'read') return;
    expect(count('write-deferred')).toBeGreaterThan(50);
    expect(count('empty-save-step')).toBeGreaterThan(500);
  },
);

test('a tape replays the threads of a run to the last byte', () => {
  for (let seed = 0; seed < 50; seed++) {
    const scenario = withFaults('F6');
    const { result, tape } = runSeed(memory, scenario, seed, { record: true });
    const again = runTape(memory, scenario, tape.recorded).result;
    expect([seed, again.digest, again.violation]).toEqual([seed, result.digest, result.violation]);
  }
});

test('a fault that the connector does not have is refused by name', () => {
  expect(() => faultSet(['F1', 'F9'])).toThrow(/no fault F9/);
});

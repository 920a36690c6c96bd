import { describe, expect, test } from 'vitest';
import { runSeed, runTape } from '../../src/explore/run.ts';
import type { FailureKey } from '../../src/oracle/verdict.ts';
import { EVERYTHING, timeline } from '../../src/report/timeline.ts';
import { violationInWords, waitInWords } from '../../src/report/violation-words.ts';
import type { RunResult } from '../../src/sim/run-spec.ts';
import type { Scenario } from '../../src/sim/scenario.ts';
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

/** Everything that a failed run says to a person. */
function wordsOf({ violation, waits, record }: RunResult): string {
  const { actorNames } = record;
  const hung = waits.map((wait) => waitInWords(wait, actorNames));
  return [violationInWords(violation!, actorNames), ...hung, ...timeline(record, EVERYTHING)].join('\n');
}

/** What the run of each fault must say: not only that it fails, but what the fault did. */
const MECHANISMS: { readonly [F in FaultId]: RegExp } = {
  F1: /thread notify listener died: .*not UTF-8, the decoded text is used before it is set/,
  F2: /background handshake with [PD]\d, which runs already: dpSize is used before it is set/,
  F3: /registered with the last layer's cells of \d+ bytes; its own have \d+/,
  F4: /they do not take turns/,
  F5: /they do not take turns/,
  F6: /starts write worker 2, although 1 is running/,
  F7: /polled \d+ times for ready flag of unset remote/,
  F8: /scheduled request \d+ is not among those that wait for their last chunk/,
};

describe.each(FAULT_IDS)('%s alone', (fault) => {
  test(`is found within ${SCHEDULES_MAX} schedules and says what it did`, () => {
    const { result } = firstFailure(withFaults(fault));
    const violation = result.violation!;
    expect(FAULTS[fault].breaks).toContain(violation.invariant);
    const isHere = (place: Partial<FailureKey>): boolean =>
      Object.entries(place).every(([field, value]) => violation[field as keyof FailureKey] === value);
    expect(FAULTS[fault].places.filter(isHere)).toHaveLength(1);
    expect(wordsOf(result)).toMatch(MECHANISMS[fault]);
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

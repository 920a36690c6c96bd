import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { UsageError } from '../../../src/base/failure.ts';
import { runSeed, runTape } from '../../../src/explore/run.ts';
import { NO_HAZARDS } from '../../../src/faults/hazards.ts';
import { createEventQueue, EVENT, type WorldEvent } from '../../../src/sim/event-queue.ts';
import { idOfName } from '../../../src/sim/key-names.ts';
import {
  createOccurrences,
  DELAY_MICROS_MAX,
  DRAW,
  DRAW_NAMES,
  readTape,
  replayTape,
  seededTape,
  TAPE_ENTRIES_MAX,
  type TapeEntry,
  tapeRows,
} from '../../../src/sim/tape.ts';
import { SHIPPED_MIX } from '../../../src/zoo/shipped.ts';
import { newMemory } from '../../helpers/world.ts';

const memory = newMemory();

describe('a replay', () => {
  test('of what 300 seeds recorded has the same digest, steps, end and tape', () => {
    let entries = 0;
    let faulty = 0;
    const digests = new Set<string>();
    for (let seed = 0; seed < 300; seed++) {
      const first = runSeed(memory, SHIPPED_MIX, seed, { record: true });
      const again = runTape(memory, SHIPPED_MIX, first.tape.recorded, { record: true });
      expect([seed, again.result.digest]).toEqual([seed, first.result.digest]);
      expect(again.result.steps).toBe(first.result.steps);
      expect(again.result.atMicros).toBe(first.result.atMicros);
      expect(again.result.goals).toEqual(first.result.goals);
      expect(tapeRows(again.tape.recorded)).toEqual(tapeRows(first.tape.recorded));
      entries += first.tape.recorded.length;
      faulty += first.tape.recorded.some(({ draw }) => draw >= DRAW.fate) ? 1 : 0;
      digests.add(first.result.digest);
    }
    expect(entries).toBeGreaterThan(3000);
    expect(faulty).toBeGreaterThan(200);
    expect(digests.size).toBeGreaterThan(295);
  });

  test('does not mind the order of its entries, nor entries that nothing asks for', () => {
    let shuffledRuns = 0;
    for (let seed = 0; seed < 30; seed++) {
      const first = runSeed(memory, SHIPPED_MIX, seed, { record: true });
      const extra: TapeEntry = {
        ...{ draw: DRAW.fate, who: 'P9.r9>D9.r9', kind: 'grant' },
        ...{ object: 1, occurrence: 0, value: 1 },
      };
      const again = runTape(memory, SHIPPED_MIX, [extra, ...[...first.tape.recorded].reverse()]);
      expect([seed, again.result.digest]).toEqual([seed, first.result.digest]);
      shuffledRuns += first.tape.recorded.length > 1 ? 1 : 0;
    }
    expect(shuffledRuns).toBeGreaterThan(25);
  });

  test('through rows of keys and back is the same tape', () => {
    let rows = 0;
    for (let seed = 0; seed < 30; seed++) {
      const { tape } = runSeed(memory, SHIPPED_MIX, seed, { record: true });
      const text = JSON.stringify(tapeRows(tape.recorded));
      expect(readTape(JSON.parse(text), 'here')).toEqual(tape.recorded);
      rows += tape.recorded.length;
    }
    expect(rows).toBeGreaterThan(300);
  });

  test('records the same run whether or not it is recorded', () => {
    for (let seed = 300; seed < 340; seed++) {
      const plain = runSeed(memory, SHIPPED_MIX, seed);
      const recorded = runSeed(memory, SHIPPED_MIX, seed, { record: true });
      expect([seed, plain.result.digest]).toEqual([seed, recorded.result.digest]);
      expect([plain.tape.recorded.length, plain.result.record.steps.length]).toEqual([0, 0]);
      expect(recorded.result.record.steps).toHaveLength(recorded.result.steps);
    }
  });
});

describe('the empty tape', () => {
  test('is the plain run: the smallest workload, no fault, no delay, all well', () => {
    const { result, tape } = runTape(memory, SHIPPED_MIX, [], { record: true });
    expect(result.violation).toBeNull();
    expect(tape.recorded).toEqual([]);
    const hurt: readonly string[] = [
      'request-aborted',
      'rank-crashed',
      'message-refused',
      'handshake-retried',
      'seal-repeated',
      'lease-expired',
    ];
    expect(hurt.filter((goal) => result.goals.has(goal))).toEqual([]);
    expect(result.goals.get('request-completed')).toBe(1);
    expect(result.record.steps.some(({ fault, heldMicros }) => fault || heldMicros > 0)).toBe(false);
  });

  test('of a scenario without hazards is that of the same scenario with them', () => {
    const calm = { ...SHIPPED_MIX, hazards: NO_HAZARDS };
    expect(runTape(memory, calm, []).result.digest).toBe(runTape(memory, SHIPPED_MIX, []).result.digest);
  });

  test('differs from a tape with one entry that matters', () => {
    const plain = runTape(memory, SHIPPED_MIX, []).result.digest;
    const longer: TapeEntry = {
      ...{ draw: DRAW.workload, who: 'clients', kind: 'promptTokens' },
      ...{ object: 0, occurrence: 0, value: 3 },
    };
    const other = runTape(memory, SHIPPED_MIX, [longer]);
    expect(other.result.digest).not.toBe(plain);
    expect(other.tape.recorded).toEqual([longer]);
  });
});

describe('draws', () => {
  const key = fc.tuple(
    fc.constantFrom(...Object.values(DRAW)),
    fc.nat({ max: 40 }),
    fc.nat({ max: 20 }),
    fc.nat({ max: 60 }),
    fc.nat({ max: 5 }),
  );

  test('depend on the seed and their key alone, not on what was drawn before', () => {
    fc.assert(
      fc.property(fc.nat(), fc.array(key, { minLength: 1, maxLength: 20 }), (seed, keys) => {
        const whole = seededTape(seed, false);
        const values = keys.map((drawn) => whole.choose(...drawn, (hash) => hash));
        const last = keys.at(-1)!;
        expect(seededTape(seed, false).choose(...last, (hash) => hash)).toBe(values.at(-1));
      }),
      { seed: 42, numRuns: 300 },
    );
  });

  test('are spread evenly over a hundred values', () => {
    const counts = new Array<number>(100).fill(0);
    for (let object = 0; object < 20_000; object++) {
      const tape = seededTape(object & 7, false);
      counts[tape.choose(DRAW.fate, object % 13, object % 5, object, 0, (hash) => hash % 100)]!++;
    }
    expect(Math.min(...counts)).toBeGreaterThan(130);
    expect(Math.max(...counts)).toBeLessThan(280);
  });

  test('of an entry of value 0 are plain and are not recorded', () => {
    const tape = replayTape([
      { draw: DRAW.fate, who: 'P0.r0', kind: '2', object: 3, occurrence: 0, value: 0 },
    ]);
    expect(tape.choose(DRAW.fate, idOfName('P0.r0'), 2, 3, 0, () => 9)).toBe(0);
    expect(tape.recorded).toEqual([]);
  });
});

describe('the counter of occurrences', () => {
  test('counts each key for itself through many growths', () => {
    const occurrences = createOccurrences();
    const reference = new Map<string, number>();
    let state = 1;
    for (let asked = 0; asked < 40_000; asked++) {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      const key = [state % 12, (state >>> 4) % 30, (state >>> 9) % 16, (state >>> 13) % 40] as const;
      const name = key.join('.');
      const before = reference.get(name) ?? 0;
      reference.set(name, before + 1);
      expect(occurrences.next(...key)).toBe(before);
    }
    expect(reference.size).toBeGreaterThan(10_000);
    expect(Math.max(...reference.values())).toBeGreaterThan(3);
  });
});

function codeOf(rows: unknown): string {
  try {
    readTape(rows, 'somewhere');
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    expect(error.message).toContain('somewhere');
    return error.code;
  }
  return 'accepted';
}

describe('a tape from outside', () => {
  const KEY = 'P0.r1>D0.r0/fate.grant/t3/0';
  const row = [KEY, 1];
  test.each([
    ['no list', { 0: row }],
    ['a text', JSON.stringify([row])],
    ['nothing', undefined],
    ['a row that is no list', [{ draw: 4 }]],
    ['no value', [[KEY]]],
    ['a value too many', [[KEY, 1, 2]]],
    ['six integers, as the first format had them', [[4, 1, 2, 3, 0, 1]]],
    ['a fraction', [[KEY, 0.5]]],
    ['a negative number', [[KEY, -1]]],
    ['a text for a value', [[KEY, '1']]],
    ['a number that is not exact', [[KEY, 2 ** 53]]],
    ['not a number', [[KEY, Number.NaN]]],
    ['a value above the largest delay', [[KEY, DELAY_MICROS_MAX + 1]]],
    ['an unknown kind of draw', [['P0.r0/weather.0/0/0', 1]]],
    ['a draw that is a property of every object', [['P0.r0/constructor.0/0/0', 1]]],
    ['no kind', [['P0.r0/fate/t3/0', 1]]],
    ['nobody', [['/fate.grant/t3/0', 1]]],
    ['no occurrence', [['P0.r0/fate.grant/t3', 1]]],
    ['an object that is not exact', [['P0.r0/fate.grant/9999999999999999/0', 1]]],
    ['a key that goes on', [[`${KEY}/0`, 1]]],
    ['a key without an end', [[`${'P'.repeat(200_000)}/fate.grant/t3/0`, 1]]],
    ['a bad row after good ones', [row, row, []]],
    ['too many rows', new Array(TAPE_ENTRIES_MAX + 1).fill(row)],
  ])('is refused with %s', (_, rows) => {
    expect(codeOf(rows)).toBe('TAPE-FORM');
  });

  test.each([
    ['no row', []],
    ['one row', [row]],
    ['the largest value', [[KEY, DELAY_MICROS_MAX]]],
  ])('is read with %s', (_, rows) => {
    expect(codeOf(rows)).toBe('accepted');
    expect(tapeRows(readTape(rows, 'somewhere'))).toEqual(rows);
  });

  test('names every kind of draw once', () => {
    expect(Object.keys(DRAW_NAMES).map(Number)).toEqual(Object.values(DRAW));
    expect(Object.values(DRAW)).toEqual(Object.keys(DRAW).map((_, index) => index));
  });

  test('never makes the world throw, however it is mutilated', () => {
    const seen = { runs: 0, changed: 0, violations: 0 };
    fc.assert(
      fc.property(fc.nat({ max: 400 }), fc.infiniteStream(fc.nat({ max: 1 << 30 })), (seed, stream) => {
        const { tape, result } = runSeed(memory, SHIPPED_MIX, seed, { record: true });
        const next = (): number => stream.next().value as number;
        const rows = tapeRows(tape.recorded).flatMap((drawn) => {
          const action = next() % 6;
          if (action === 0) return [];
          const [key, value] = drawn;
          if (action === 1) return [[key, next() % 5000]];
          if (action === 2) return [drawn, [key.replace(/\d+/, () => String(next() % 50)), value]];
          return [drawn];
        });
        const mutated = runTape(memory, SHIPPED_MIX, readTape(rows, 'mutated'));
        seen.runs++;
        seen.changed += mutated.result.digest === result.digest ? 0 : 1;
        seen.violations += mutated.result.violation === null ? 0 : 1;
        if (mutated.result.violation !== null)
          throw new Error(`${JSON.stringify(rows)} ends in ${JSON.stringify(mutated.result.violation)}`);
      }),
      { seed: 42, numRuns: 300, endOnFailure: true },
    );
    expect(seen.changed).toBeGreaterThan(200);
    expect(seen.violations).toBe(0);
  });
});

test('an event queue gives out what is earliest, and of equals what came first', () => {
  const event = (at: number, order: number): WorldEvent => ({
    kind: EVENT.turn,
    actor: 0,
    at,
    order,
    about: 0,
    input: null,
    payload: null,
    cause: -1,
    heldMicros: 0,
    stopped: false,
  });
  let popped = 0;
  let ties = 0;
  fc.assert(
    fc.property(
      fc.array(fc.option(fc.nat({ max: 12 }), { nil: null, freq: 2 }), { minLength: 20, maxLength: 120 }),
      (moves) => {
        const ready = createEventQueue();
        const reference: WorldEvent[] = [];
        let order = 0;
        const popBoth = (): void => {
          reference.sort((left, right) => left.at - right.at || left.order - right.order);
          const wanted = reference.shift();
          if (wanted !== undefined && reference[0]?.at === wanted.at) ties++;
          expect(ready.pop()).toBe(wanted);
          popped += wanted === undefined ? 0 : 1;
        };
        for (const at of moves) {
          if (at === null) popBoth();
          else {
            const pushed = event(at, order++);
            ready.push(pushed);
            reference.push(pushed);
          }
          expect(ready.size).toBe(reference.length);
        }
        while (reference.length > 0) popBoth();
        expect(ready.pop()).toBeUndefined();
      },
    ),
    { seed: 42, numRuns: 500 },
  );
  expect(popped).toBeGreaterThan(5000);
  expect(ties).toBeGreaterThan(500);
});

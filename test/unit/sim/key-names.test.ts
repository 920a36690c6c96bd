import { describe, expect, test } from 'vitest';
import { layTopology, type Shape } from '../../../src/base/topology.ts';
import { FORMS } from '../../../src/connector/shipped/messages.ts';
import { runSeed, runTape } from '../../../src/explore/run.ts';
import { NO_HAZARDS } from '../../../src/faults/hazards.ts';
import { actorKeys, idOfName, idOfWord, nameOfId } from '../../../src/sim/key-names.ts';
import { kindOf, MESSAGE_KINDS } from '../../../src/sim/network.ts';
import type { Scenario } from '../../../src/sim/scenario.ts';
import {
  createOccurrences,
  DRAW,
  readTape,
  replayTape,
  seededTape,
  tapeRows,
} from '../../../src/sim/tape.ts';
import { SHIPPED_MIX } from '../../../src/zoo/shipped.ts';
import { newMemory } from '../../helpers/world.ts';

const SMALL: Shape = {
  ...{ mode: 'write', prefillInstances: 1, decodeInstances: 1 },
  ...{ prefillDp: 1, decodeDp: 1, prefillTp: 1, decodeTp: 1 },
};

describe('the number of a name', () => {
  test('is one of its own for every actor and pair of the largest cluster', () => {
    const largest = { prefillInstances: 3, decodeInstances: 3, prefillDp: 4, decodeDp: 4 };
    const topology = layTopology({ ...SMALL, ...largest, prefillTp: 8, decodeTp: 8 });
    const { actors, pairs } = actorKeys(topology);
    const count = topology.actors.length;
    expect(count).toBe(1 + 6 * 4 * 9);
    expect(new Set([...actors, ...pairs]).size).toBe(count + count * count);
    expect(Math.min(...actors)).toBeGreaterThan(2 ** 32);
    expect(nameOfId(pairs[2 * count + 3]!)).toBe('P0.r0>P0.r1');
  });

  test('of an actor is the same in a cluster that has others besides', () => {
    const [one, two] = [
      layTopology(SMALL),
      layTopology({ ...SMALL, prefillDp: 2, prefillTp: 2, decodeTp: 4 }),
    ];
    const idIn = (topology: typeof one, name: string): number =>
      actorKeys(topology).actors[topology.actors.findIndex((actor) => actor.name === name)]!;
    expect(idIn(two, 'P0/0.r0')).toBe(idIn(one, 'P0.r0'));
    expect(idIn(two, 'D0.r0')).toBe(idIn(one, 'D0.r0'));
    expect(idIn(two, 'P0/1.r0')).not.toBe(idIn(two, 'P0/0.r0'));
  });

  test('is never that of a plain number, and digits are one', () => {
    for (const word of ['0', '7', '1000000']) expect(idOfWord(word)).toBe(Number(word));
    expect(idOfWord('grant')).toBe(idOfName('grant'));
    expect(nameOfId(idOfName('grant'))).toBe('grant');
    expect(nameOfId(12)).toBe('12');
  });
});

describe('kinds of messages without a bound', () => {
  /** All that go today, and a thousand more. */
  const names = [
    ...Object.keys(MESSAGE_KINDS),
    ...Object.keys(FORMS),
    ...Array.from({ length: 1000 }, (_, at) => `new${at}`),
  ];

  test('have a number each, and share no draw and no count with another pair, kind or object', () => {
    expect(Object.keys(MESSAGE_KINDS).length + Object.keys(FORMS).length).toBe(16);
    const ids = names.map((name) => kindOf({ kind: 'peer', name }));
    expect(new Set(ids).size).toBe(names.length);
    const { pairs } = actorKeys(layTopology({ ...SMALL, prefillTp: 2, decodeTp: 2 }));
    const occurrences = createOccurrences();
    for (const kind of ids)
      for (const pair of pairs) expect(occurrences.next(DRAW.fate, pair, kind, 1)).toBe(0);
    expect(occurrences.next(DRAW.fate, pairs[1]!, ids[16]!, 1)).toBe(1);
  });

  test('are drawn for apart: what a tape says of the seventeenth is said of no other', () => {
    const entry = {
      draw: DRAW.fate,
      who: 'P0.r0>D0.r0',
      kind: 'new0',
      object: 1,
      occurrence: 0,
      value: 1,
    } as const;
    const tape = replayTape([entry]);
    const { pairs } = actorKeys(layTopology(SMALL));
    let told = 0;
    for (const pair of pairs)
      for (const name of names)
        told += tape.choose(DRAW.fate, pair, kindOf({ kind: 'peer', name }), 1, 0, () => 9);
    expect(told).toBe(1);
    expect(tape.recorded).toEqual([entry]);
    const drawn = seededTape(7, false);
    const values = names.map((name) =>
      drawn.choose(DRAW.fate, pairs[0]!, kindOf({ kind: 'peer', name }), 1, 0, (hash) => hash),
    );
    expect(new Set(values).size).toBe(names.length);
  });

  test('objects count to their last bit', () => {
    const occurrences = createOccurrences();
    for (const object of [1, 1 + 2 ** 32, 1 + 2 ** 33])
      expect(occurrences.next(DRAW.fate, 1, 2, object)).toBe(0);
  });
});

describe('a tape', () => {
  const memory = newMemory();
  const scenario: Scenario = { ...SHIPPED_MIX, mode: 'write', hazards: { ...NO_HAZARDS, longDelays: true } };

  test('says who, what, which and how often in a line of text', () => {
    const { tape } = runSeed(memory, scenario, 5, { record: true });
    const keys = tapeRows(tape.recorded).map(([key]) => key);
    expect(keys.some((key) => /^D\d\.r\d>P\d\.r\d\/deliverDelay\.grant\/t\d+\/\d$/.test(key))).toBe(true);
    expect(keys.some((key) => /^cluster\/shape\.\w+\/0\/0$/.test(key))).toBe(true);
    expect(keys.some((key) => /^clients\/workload\.\w+\/r\d\/0$/.test(key))).toBe(true);
    for (const key of keys) expect(key).toMatch(/^[\w.+>]+\/[a-zA-Z]+\.\w+\/[a-z]?\d+\/\d+$/);
  });

  test('tells the same delays in a larger cluster that has its actors', () => {
    const rows: [string, number][] = [
      ['proxy>P0/deliverDelay.generate/r0/0', 5_000],
      ['D0.r0>P0.r0/deliverDelay.grant/t1/0', 7_000],
    ];
    for (const [instances, tp] of [
      [1, 1],
      [2, 1],
      [3, 2],
    ] as const) {
      const shape = {
        prefillInstances: instances,
        decodeInstances: instances,
        prefillTp: [tp],
        decodeTp: [tp],
      };
      const { tape, result } = runTape(memory, { ...scenario, ...shape }, readTape(rows, 'here'), {
        record: true,
      });
      expect(tapeRows(tape.recorded)).toEqual(rows);
      const held = result.record.steps.filter(({ heldMicros }) => heldMicros > 0);
      const nameOf = (actor: number): string => result.record.actorNames[actor]!;
      expect(held.map(({ actor, heldMicros }) => [nameOf(actor), heldMicros])).toEqual([
        ['P0', 5_000],
        ['P0.r0', 7_000],
      ]);
    }
  });
});

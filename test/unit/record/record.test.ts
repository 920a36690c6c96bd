import { describe, expect, test } from 'vitest';
import { runSeed } from '../../../src/explore/run.ts';
import { messageRow } from '../../../src/record/messages.ts';
import { LIST_KEPT, plainFields, TEXT_KEPT } from '../../../src/record/plain.ts';
import { EFFECTS_KEPT } from '../../../src/record/record.ts';
import { EVENT } from '../../../src/sim/event-queue.ts';
import { Recorder } from '../../../src/sim/recorder.ts';
import { AS_WRITTEN_MIX } from '../../../src/zoo/as-written/mix.ts';
import { SHIPPED_MIX } from '../../../src/zoo/shipped.ts';
import { newMemory } from '../../helpers/world.ts';

const memory = newMemory();

/** Only numbers, names, switches and lists of numbers below the fields of a row. */
function oddIn(value: unknown, path: string): string[] {
  if (['number', 'string', 'boolean'].includes(typeof value)) return [];
  if (Array.isArray(value)) return value.flatMap((entry, at) => oddIn(entry, `${path}[${at}]`));
  if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype)
    return [path];
  return Object.entries(value).flatMap(([name, field]) => oddIn(field, `${path}.${name}`));
}

describe('the record of a run', () => {
  test.each([
    ['shipped', SHIPPED_MIX],
    ['as written', { ...AS_WRITTEN_MIX, faults: ['F6'] }],
    ['shipped on the library as it is', { ...SHIPPED_MIX, engine: 'mori' as const }],
  ])('is plain data that survives JSON: %s', (_, scenario) => {
    const kinds = new Set<string>();
    for (let seed = 0; seed < 20; seed++) {
      const { record, steps } = runSeed(memory, scenario, seed, { record: true }).result;
      expect(record.steps).toHaveLength(steps);
      expect(oddIn(record.steps, 'steps')).toEqual([]);
      expect(JSON.parse(JSON.stringify(record))).toEqual(record);
      for (const { event, effects } of record.steps)
        for (const { kind } of [event, ...effects]) kinds.add(kind);
    }
    for (const kind of ['arrive', 'message', 'turn', 'land', 'completion', 'send', 'post', 'note', 'connect'])
      expect(kinds).toContain(kind);
  });

  test('is not made unless somebody asked for it, and changes no step', () => {
    const without = runSeed(memory, SHIPPED_MIX, 7).result;
    const recorded = runSeed(memory, SHIPPED_MIX, 7, { record: true }).result;
    expect(without.record.steps).toEqual([]);
    expect(recorded.record.steps.length).toBeGreaterThan(50);
    expect(recorded.digest).toBe(without.digest);
  });

  test('tells the blocks, the layer and the queue pair of what lands, and the fields of what is asked for', () => {
    const { record } = runSeed(memory, { ...SHIPPED_MIX, mode: 'write' }, 7, { record: true }).result;
    const landed = record.steps.flatMap(({ event }) => (event.kind === 'land' ? [event] : []));
    const data = landed.filter(({ carried }) => carried.carries === 'batch');
    expect(data.length).toBeGreaterThan(0);
    for (const { queuePair, carried } of data) {
      expect(queuePair).toBeGreaterThanOrEqual(0);
      expect(carried.layer).toBeGreaterThanOrEqual(0);
      expect(carried.blocks.length).toBeGreaterThan(0);
    }
    const posts = record.steps.flatMap(({ effects }) =>
      effects.flatMap((effect) => (effect.kind === 'post' ? [effect.batch] : [])),
    );
    for (const { segments, bytes, remoteBlocks } of posts) {
      expect(Number.isInteger(segments) && segments > 0).toBe(true);
      expect(bytes).toBeGreaterThan(0);
      expect(remoteBlocks.length).toBeGreaterThan(0);
    }
    expect(posts.length).toBeGreaterThan(0);
  });

  test('keeps a bounded number of effects and says how many it left out', () => {
    const recorder = new Recorder();
    const turn = { kind: 'turn', thread: 1 } as const;
    const event = {
      ...{ kind: EVENT.turn, actor: 1, at: 0, order: 0, about: 0, input: turn, payload: null },
      ...{ cause: -1, heldMicros: 0, stopped: false },
    };
    const steps = EFFECTS_KEPT.ofRun / EFFECTS_KEPT.ofStep + 1;
    for (let step = 0; step < steps; step++) {
      recorder.open(event, step, step);
      for (let count = 0; count < EFFECTS_KEPT.ofStep + 3; count++)
        recorder.write({ kind: 'stop', timer: 1, object: count });
    }
    expect(recorder.steps.map(({ effects }) => effects.length)).toEqual([
      ...new Array(steps - 1).fill(EFFECTS_KEPT.ofStep),
      0,
    ]);
    expect(recorder.steps[0]!.effectsLeftOut).toBe(3);
    expect(recorder.steps.at(-1)!.effectsLeftOut).toBe(EFFECTS_KEPT.ofStep + 3);
  });
});

describe('a row', () => {
  test('is a copy: what its maker does with its own lists later does not show', () => {
    const blocks = [1, 2];
    const row = plainFields({ kind: 'free', blocks });
    blocks.push(3);
    expect(row).toEqual({ kind: 'free', blocks: [1, 2] });
  });

  test('leaves out what is no plain field, and cuts what is too long', () => {
    const row = plainFields({
      nested: { a: 1 },
      list: new Array(LIST_KEPT + 5).fill(0),
      make: () => 1,
      n: 3,
    });
    expect(row).toEqual({ list: new Array(LIST_KEPT).fill(0), n: 3, cut: 5 });
    expect(plainFields({ text: 'x'.repeat(TEXT_KEPT + 2) })).toEqual({ text: 'x'.repeat(TEXT_KEPT), cut: 2 });
  });

  test('of bytes tells how many there are', () => {
    const bytes = new Uint8Array(LIST_KEPT + 9).fill(7);
    expect(messageRow({ kind: 'bytes', port: 'notify', bytes })).toEqual({
      kind: 'bytes',
      port: 'notify',
      bytes: new Array(LIST_KEPT).fill(7),
      length: LIST_KEPT + 9,
    });
  });
});

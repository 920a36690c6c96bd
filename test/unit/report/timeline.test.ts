import { describe, expect, test } from 'vitest';
import { runSeed } from '../../../src/explore/run.ts';
import type { EffectRow, NoteRow } from '../../../src/record/effects.ts';
import { messageRow } from '../../../src/record/messages.ts';
import type { StepRow } from '../../../src/record/record.ts';
import { effectInWords, isShown } from '../../../src/report/effect-words.ts';
import { recordAsJson } from '../../../src/report/record-json.ts';
import { EVERYTHING, PAGE, pageOf, timeline } from '../../../src/report/timeline.ts';
import { AS_WRITTEN_MIX } from '../../../src/zoo/as-written/mix.ts';
import { SHIPPED_MIX } from '../../../src/zoo/shipped.ts';
import { newMemory } from '../../helpers/world.ts';

const NAMES = ['proxy', 'P0', 'P0.r0', 'D0', 'D0.r0'];

function stepOf(step: number, change: Partial<StepRow> = {}): StepRow {
  return {
    ...{ step, atMicros: step * 10, actor: 2, event: { kind: 'turn', thread: 1 }, effects: [] },
    ...{ effectsLeftOut: 0, cause: step - 1, heldMicros: 0, fault: false, transfer: -1, request: -1 },
    ...change,
  };
}

const note = (of: NoteRow): EffectRow => ({ kind: 'note', note: of });
const POLL = note({ kind: 'spin', thread: 'main', waitsFor: 'a-flag' });
const FREE = note({ kind: 'free', request: 1, blocks: [3, 4] });

describe('a page', () => {
  test('has one row for steps of an actor that look the same, whoever else acts between them', () => {
    const steps = [0, 1, 2, 3, 4, 5].map((step) =>
      step % 2 === 0 ? stepOf(step, { effects: [POLL] }) : stepOf(step, { actor: 4, effects: [FREE] }),
    );
    const { chosen, left } = pageOf(steps, 10);
    expect(chosen.map(({ step, repeats }) => [step.step, repeats])).toEqual([
      [0, 3],
      [1, 3],
    ]);
    expect(left).toBe(0);
  });

  test('tells steps apart by what a reader sees: not by times or attempts, but by blocks and delays', () => {
    const claim = (attempt: number, transfer = 1): Partial<StepRow> => ({
      event: {
        kind: 'message',
        from: 4,
        message: messageRow({ kind: 'peer', name: 'claim', transfer, attempt }),
      },
    });
    const rows = (...changes: Partial<StepRow>[]): number =>
      pageOf(
        changes.map((change, step) => stepOf(step, change)),
        10,
      ).chosen.length;
    expect(rows(claim(1), claim(2))).toBe(1);
    expect(rows(claim(1), claim(1, 2))).toBe(2);
    expect(rows({ ...claim(1) }, { ...claim(1), heldMicros: 3 })).toBe(2);
    const lent = (blocks: number[]): Partial<StepRow> => ({
      effects: [note({ kind: 'free', request: 1, blocks })],
    });
    expect(rows(lent([1]), lent([1]))).toBe(1);
    expect(rows(lent([1]), lent([2]))).toBe(2);
  });

  test('keeps the failing step, faults and held causes before polling, and leaves out turns of no consequence', () => {
    const steps = [
      stepOf(0, { fault: true, event: { kind: 'crash' }, cause: -1 }),
      stepOf(1, { heldMicros: 40, cause: -1 }),
      stepOf(2, { actor: 4, effects: [POLL], cause: -1 }),
      stepOf(3, { actor: 3, cause: -1 }),
      stepOf(4, { actor: 1, effects: [FREE], cause: 1 }),
    ];
    const chosen = (lines: number): number[] => pageOf(steps, lines).chosen.map(({ step }) => step.step);
    expect(chosen(3)).toEqual([0, 1, 4]);
    expect(chosen(10)).toEqual([0, 1, 2, 4]);
  });

  test('is the same in lines and as a document', () => {
    const { record } = runSeed(newMemory(), SHIPPED_MIX, 7, { record: true }).result;
    const lines = timeline(record, PAGE);
    const document = recordAsJson(record, PAGE);
    expect(document.rows).toHaveLength(PAGE.linesMax);
    expect(document.left).toBeGreaterThan(0);
    expect(lines.slice(0, -1).map((line) => Number(line.slice(0, 5)))).toEqual(
      document.rows.map(({ step }) => step),
    );
    expect(lines.at(-1)).toContain(String(document.left));
    expect(document.actors).toEqual(record.actorNames);
    expect(JSON.parse(JSON.stringify(document))).toEqual(document);
  });
});

describe('words', () => {
  test('are there for exactly the effects that are shown', () => {
    let shown = 0;
    for (const scenario of [SHIPPED_MIX, AS_WRITTEN_MIX]) {
      for (let seed = 0; seed < 10; seed++) {
        const { record } = runSeed(newMemory(), scenario, seed, { record: true }).result;
        for (const effect of record.steps.flatMap(({ effects }) => effects)) {
          expect([effect.kind, effectInWords(effect, record) !== '']).toEqual([effect.kind, isShown(effect)]);
          shown += isShown(effect) ? 1 : 0;
        }
      }
    }
    expect(shown).toBeGreaterThan(500);
  });

  test('of a step: what happened and what came of it, cut to the width, delay and repetition kept', () => {
    const steps = [
      stepOf(3, { event: { kind: 'abort', request: 1 }, effects: [FREE], heldMicros: 7 }),
      stepOf(4, { event: { kind: 'abort', request: 1 }, effects: [FREE] }),
    ];
    expect(timeline({ actorNames: NAMES, messageWords: {}, steps }, EVERYTHING)).toEqual([
      '    3       30us P0.r0    the client of request 1 goes away -> frees blocks 3 4 of request 1 [held back 7 us] (2 times)',
    ]);
    expect(timeline({ actorNames: NAMES, messageWords: {}, steps }, { linesMax: 9, widthMax: 50 })).toEqual([
      '    3       30us P0.r0    the client of request... [held back 7 us] (2 times)',
    ]);
  });

  test('of a turn: only what came of it, and how many effects were not kept', () => {
    const steps = [stepOf(3, { effects: [FREE], effectsLeftOut: 12 })];
    expect(timeline({ actorNames: NAMES, messageWords: {}, steps }, EVERYTHING)).toEqual([
      '    3       30us P0.r0    frees blocks 3 4 of request 1; and 12 more effects',
    ]);
  });
});

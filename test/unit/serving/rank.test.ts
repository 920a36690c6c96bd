import { describe, expect, test } from 'vitest';
import type { ConnectorWorker, Progress } from '../../../src/connector/plug.ts';
import type { RankModel } from '../../../src/serving/model.ts';
import { createRank, stepRank } from '../../../src/serving/rank.ts';
import type { Effect, Input } from '../../../src/wire/machine.ts';

/** A rank whose connector answers `start_load_kv` as told, and counts how often it is asked. */
function rankWith(answers: Progress[]): { step: (input: Input) => Effect['kind'][]; asked: () => number } {
  let asked = 0;
  const connector: ConnectorWorker = {
    startLoadKv: () => answers[asked++] ?? 'done',
    waitForLayerLoad: () => 'done',
    saveKvLayer: () => 'done',
    waitForSave: () => 'done',
    getFinished: () => null,
    step: () => undefined,
    census: () => 0,
    waits: () => [],
  };
  const spec = {
    engine: 0,
    role: 'decode',
    instance: 0,
    dpRank: 0,
    dpSize: 1,
    scheduler: 1,
    ranks: [2],
  } as const;
  const config = { self: 2, spec, tpRank: 0, layers: 1, layersPerTurn: 1, turnMicros: () => 1 };
  const model = { runLayers: () => undefined } as unknown as RankModel;
  const rank = createRank(config, connector, model);
  const step = (input: Input): Effect['kind'][] => {
    const kinds: Effect['kind'][] = [];
    stepRank(rank, 0, input, (effect) => kinds.push(effect.kind));
    return kinds;
  };
  return { step, asked: () => asked };
}

const STEP: Input = {
  kind: 'message',
  from: 1,
  message: { kind: 'runStep', step: 0, items: [], meta: null },
};
const TURN: Input = { kind: 'turn', thread: 0 };
const TIMER: Input = { kind: 'timer', timer: 0, object: 0 };

describe('a hook that is not done', () => {
  test("'again' is asked again at the rank's next turn", () => {
    const { step, asked } = rankWith(['again', 'done']);
    expect(step(STEP)).toEqual(['turn']);
    expect(step(TURN)).toEqual([]);
    expect(asked()).toBe(2);
  });

  test("'blocked' is asked again only after the connector has had an input, once for all of them", () => {
    const { step, asked } = rankWith(['blocked', 'blocked', 'done']);
    expect(step(STEP)).toEqual([]);
    expect(asked()).toBe(1);
    expect(step(TIMER)).toEqual(['turn']);
    expect(step(TIMER)).toEqual([]);
    expect(step(TURN)).toEqual([]);
    expect(asked()).toBe(2);
    expect(step(TIMER)).toEqual(['turn']);
    step(TURN);
    expect(asked()).toBe(3);
    expect(step(TIMER)).toEqual([]);
  });
});

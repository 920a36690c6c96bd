import { describe, expect, test } from 'vitest';
import { SURPRISE_NAMES, type SurpriseName, surprisesOf } from '../../../src/io/engine/surprises.ts';
import { addPair, createRig, type PairOptions } from './rig.ts';
import { type Scene, SHOWINGS } from './surprise-showings.ts';

/** The switches of one fidelity with one of them turned over. */
function sceneOf(fidelity: 'mori' | 'sound', name: SurpriseName, on: boolean): Scene {
  const rig = createRig();
  const surprises = { ...surprisesOf(fidelity), [name]: on };
  const options: PairOptions = { fidelity, surprises };
  const pair: Scene['pair'] = (config = {}, more = {}) =>
    addPair(rig, config, { ...options, ...more, surprises: { ...surprises, ...more.surprises } });
  return { rig, options, pair };
}

describe('each surprise', () => {
  test('is shown', () => {
    expect(Object.keys(SHOWINGS).sort()).toEqual([...SURPRISE_NAMES].sort());
    expect(SURPRISE_NAMES.length).toBeGreaterThan(20);
  });

  test.each(SURPRISE_NAMES)('%s is there in the library', (name) => {
    const { see, mori } = SHOWINGS[name];
    expect(see(sceneOf('mori', name, true))).toEqual(mori);
  });

  test.each(SURPRISE_NAMES)('%s is gone from the sound engine', (name) => {
    const { see, sound } = SHOWINGS[name];
    expect(see(sceneOf('sound', name, false))).toEqual(sound);
  });

  test.each(SURPRISE_NAMES)('%s alone makes the difference in the sound engine', (name) => {
    const { see, mori, sound } = SHOWINGS[name];
    expect(see(sceneOf('sound', name, true))).not.toEqual(sound);
    expect(mori).not.toEqual(sound);
  });
});

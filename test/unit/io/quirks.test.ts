import { describe, expect, test } from 'vitest';
import { QUIRK_NAMES, type QuirkName, quirksOf } from '../../../src/io/engine/quirks.ts';
import { type Scene, SHOWINGS } from './quirk-showings.ts';
import { addPair, createRig, type PairOptions } from './rig.ts';

/** The switches of one fidelity with one of them turned over. */
function sceneOf(fidelity: 'mori' | 'sound', name: QuirkName, on: boolean): Scene {
  const rig = createRig();
  const quirks = { ...quirksOf(fidelity), [name]: on };
  const options: PairOptions = { fidelity, quirks };
  const pair: Scene['pair'] = (config = {}, more = {}) =>
    addPair(rig, config, { ...options, ...more, quirks: { ...quirks, ...more.quirks } });
  return { rig, options, pair };
}

describe('each quirk', () => {
  test('is shown', () => {
    expect(Object.keys(SHOWINGS).sort()).toEqual([...QUIRK_NAMES].sort());
    expect(QUIRK_NAMES.length).toBeGreaterThan(20);
  });

  test.each(QUIRK_NAMES)('%s is there in the library', (name) => {
    const { see, mori } = SHOWINGS[name];
    expect(see(sceneOf('mori', name, true))).toEqual(mori);
  });

  test.each(QUIRK_NAMES)('%s is gone from the sound engine', (name) => {
    const { see, sound } = SHOWINGS[name];
    expect(see(sceneOf('sound', name, false))).toEqual(sound);
  });

  test.each(QUIRK_NAMES)('%s alone makes the difference in the sound engine', (name) => {
    const { see, mori, sound } = SHOWINGS[name];
    expect(see(sceneOf('sound', name, true))).not.toEqual(sound);
    expect(mori).not.toEqual(sound);
  });
});

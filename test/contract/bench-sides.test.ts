import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Shape } from '../../src/cli/bench/native-rounds.ts';
import { Baseline, Bridge, HALF } from '../../src/cli/bench/native-sides.ts';
import { availability } from '../helpers/native.ts';

/** The two programs of `bench native` answer a round alike: the C program is what was built, not what is in the tree. */

/** As many batches as fill the region once. */
const SHAPE: Shape = { bytes: 65_536, operations: 4, window: 2, batches: HALF / 65_536 / 4, posts: 5 };
const { missing, note } = availability('shm');

describe.skipIf(missing)(`a round of either program${note}`, () => {
  let baseline: Baseline;
  // Not at once: a group that is left out is read all the same, and then there may be no such program.
  beforeAll(() => {
    baseline = new Baseline('shm');
  });
  afterAll(() => baseline.close());

  test('is timed, and the bytes of the bridge are where they belong', async () => {
    const bridge = new Bridge('shm', new Uint8Array(2 * HALF), SHAPE.operations);
    for (const timed of [bridge.run(SHAPE), await baseline.run(SHAPE), await baseline.run(SHAPE)]) {
      expect(Object.keys(timed)).toEqual(['seconds', 'cpuSeconds', 'waitedSeconds', 'postMicros']);
      expect(timed.seconds).toBeGreaterThan(0);
      expect(timed.waitedSeconds).toBeGreaterThanOrEqual(0);
      expect(timed.postMicros).toBeGreaterThan(0);
    }
    bridge.close();
  });

  test('of the C program that has ended is asked for in vain: the command says what to build', async () => {
    const ended = new Baseline('shm');
    ended.close();
    await expect(ended.run(SHAPE)).rejects.toThrow(/NATIVE|build:native/);
  });
});

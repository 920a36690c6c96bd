import { expect, test } from 'vitest';
import { runTape } from '../../../src/explore/run.ts';
import type { Scenario } from '../../../src/sim/scenario.ts';
import { readTape } from '../../../src/sim/tape.ts';
import { SHIPPED_MIX } from '../../../src/zoo/shipped.ts';
import { newMemory } from '../../helpers/world.ts';

/** READ, the library as it is: one batch with chains that wait for room, and an error of the first of them. */
const MORI_READ: Scenario = { ...SHIPPED_MIX, engine: 'mori', mode: 'read' };
const TAPE = [
  [1, 0, 1, 0, 0, 1],
  [1, 0, 2, 0, 0, 1],
  [1, 0, 10, 0, 0, 1],
  [1, 0, 12, 0, 0, 4],
  [1, 0, 14, 0, 0, 1],
  [1, 0, 11, 0, 0, 2],
  [1, 0, 13, 0, 0, 1],
  [12, 8, 1001, 3, 0, 14],
  [7, 8, 0, 3, 0, 12],
  [8, 8, 0, 3, 1, 7],
];

test('a chain that is posted after its batch was told to have failed is still its poster’s, and judged', () => {
  const { violation } = runTape(newMemory(), MORI_READ, readTape(TAPE, 'here')).result;
  expect(violation).toMatchObject({
    ...{ invariant: 'I1', site: 'blocks', breach: 'block-of-another' },
    ids: { operation: 'read', deed: 'lands-on', holder: -1 },
  });
});

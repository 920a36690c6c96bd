import { expect, test } from 'vitest';
import { runTape } from '../../../src/explore/run.ts';
import type { Scenario } from '../../../src/sim/scenario.ts';
import { readTape } from '../../../src/sim/tape.ts';
import { SHIPPED_MIX } from '../../../src/zoo/shipped.ts';
import { newMemory } from '../../helpers/world.ts';

/** READ, the library as it is: one batch with chains that wait for room, and an error of the first of them. */
const MORI_READ: Scenario = { ...SHIPPED_MIX, engine: 'mori', mode: 'read' };
const TAPE = [
  ['cluster/shape.prefillTp/0/0', 1],
  ['cluster/shape.decodeTp/0/0', 1],
  ['cluster/shape.queuePairs/0/0', 1],
  ['cluster/shape.requests/0/0', 4],
  ['cluster/shape.spreads/0/0', 1],
  ['cluster/shape.depth/0/0', 2],
  ['cluster/shape.notifies/0/0', 1],
  ['D0.r0/nicFate.send1/3/0', 14],
  ['D0.r0/landDelay.0/t3/0', 12],
  ['D0.r0/completeDelay.0/t3/1', 7],
];

test('a chain that is posted after its batch was told to have failed is still its poster’s, and judged', () => {
  const { violation } = runTape(newMemory(), MORI_READ, readTape(TAPE, 'here')).result;
  expect(violation).toMatchObject({
    ...{ invariant: 'I1', site: 'blocks', breach: 'block-of-another' },
    ids: { operation: 'read', deed: 'lands-on', holder: -1 },
  });
});

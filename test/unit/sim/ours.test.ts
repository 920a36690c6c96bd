import { expect, test } from 'vitest';
import { BrokenBelief } from '../../../src/base/failure.ts';
import { runCampaign } from '../../../src/explore/campaign.ts';
import { runSeed } from '../../../src/explore/run.ts';
import type { WorldMemory } from '../../../src/sim/memory.ts';
import { SHIPPED_MIX } from '../../../src/zoo/shipped.ts';
import { newMemory } from '../../helpers/world.ts';

/** The forward pass of a rank, which is ours, fails in the middle of a step that a connector has a part in. */
function failing(error: Error): WorldMemory {
  const memory = newMemory();
  const attend = (): never => {
    throw error;
  };
  return { ...memory, kernels: { ...memory.kernels, attend } };
}

test.each([
  new RangeError('Maximum call stack size exceeded'),
  new TypeError("Cannot read properties of undefined (reading 'x')"),
])('an error of ours, %s, is never a verdict about the connector', (error) => {
  const memory = failing(error);
  const run = (): unknown => runSeed(memory, SHIPPED_MIX, 0);
  expect(run).toThrow(BrokenBelief);
  expect(run).toThrow(/INV-WORLD-1: .*Maximum call|INV-WORLD-1: .*Cannot read/);
  const range = { seedFrom: 0, goOn: (done: number) => done < 2, stopAtFirst: false };
  const { findings, harness } = runCampaign(memory, { scenario: SHIPPED_MIX, ...range });
  expect(findings).toEqual([]);
  expect(harness.kept[0]).toMatchObject({ code: 'INV-WORLD-1', seed: 0 });
});

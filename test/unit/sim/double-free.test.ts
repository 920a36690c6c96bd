import { expect, test, vi } from 'vitest';
import { shipped } from '../../../src/connector/shipped/index.ts';
import { NO_HAZARDS } from '../../../src/faults/hazards.ts';
import { SHIPPED_MIX } from '../../../src/zoo/shipped.ts';
import { newMemory, runConnector } from '../../helpers/world.ts';

// A bug planted in the little vLLM itself: whatever a request frees, it frees twice.
vi.mock('../../../src/serving/served.ts', async (original) => {
  const real = await original<typeof import('../../../src/serving/served.ts')>();
  const free: typeof real.free = (state, served, emit) => {
    const { blocks } = served;
    real.free(state, served, emit);
    served.blocks = blocks;
    real.free(state, served, emit);
  };
  return { ...real, free };
});

test('a scheduler that frees twice is I5, not a failure of the harness', () => {
  const { violation } = runConnector(newMemory(), { ...SHIPPED_MIX, hazards: NO_HAZARDS }, shipped, 1);
  expect(violation).toMatchObject({
    ...{ invariant: 'I5', site: 'block-pool', machine: 'scheduler', breach: 'freed-twice' },
    ids: { block: expect.any(Number), request: expect.any(Number) },
  });
});

import fc from 'fast-check';
import { expect, test } from 'vitest';
import { layTopology, type Mode } from '../../../src/base/topology.ts';
import type { RequestView } from '../../../src/connector/plug.ts';
import { matchedTokens } from '../../../src/connector/remote-tokens.ts';
import { shipped } from '../../../src/connector/shipped/index.ts';

/** What the shipped connector's scheduler says to a request that it has not seen before. */
function shippedMatched(
  mode: Mode,
  leg: RequestView['leg'],
  promptTokens: number,
  computed: number,
): unknown {
  const topology = layTopology({
    mode,
    prefillInstances: 1,
    decodeInstances: 1,
    prefillDp: 1,
    decodeDp: 1,
    prefillTp: 1,
    decodeTp: 1,
  });
  const scheduler = shipped.createScheduler({
    topology,
    mode,
    spec: topology.engines[1]!,
    blockTokens: 4,
  } as never);
  const prompt = { request: 1, promptTokens, maxTokens: 1, lineageAddress: 0, blockKeys: [] };
  const view = { request: 1, transfer: 1, leg, prompt, remoteEngine: 0, params: null, computed, blocks: [] };
  return scheduler.getNumNewMatchedTokens(view, computed);
}

test('the rule is that of the shipped scheduler', () => {
  const tokens = fc.nat({ max: 50 });
  fc.assert(
    fc.property(
      fc.constantFrom('read' as const, 'write' as const),
      fc.constantFrom('prefill' as const, 'decode' as const, 'whole' as const),
      tokens,
      tokens,
      (mode, leg, promptTokens, computed) => {
        const ours = matchedTokens(mode, leg, promptTokens, computed);
        expect(ours).toEqual(shippedMatched(mode, leg, promptTokens, computed));
        expect(ours.tokens).toBeGreaterThanOrEqual(0);
      },
    ),
    { seed: 42, numRuns: 300 },
  );
});

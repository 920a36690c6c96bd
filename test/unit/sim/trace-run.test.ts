import { expect, test } from 'vitest';
import { LLAMA_3_8B, runTrace, TRACE_DEFAULTS, tracePages } from '../../../src/explore/trace-run.ts';
import { readKernelBytes } from '../../../src/node/kernel-bytes.ts';
import { instantiateKernels } from '../../../src/sim/load-kernels.ts';

test.each(['write', 'read'] as const)('a request of 200,000 blocks goes through in %s mode', (mode) => {
  const options = {
    ...TRACE_DEFAULTS,
    mode,
    prefillInstances: 1,
    decodeInstances: 1,
    blockTokens: 1,
    blocksPerEngine: 250_000,
    batchTokensMax: 50_000,
    model: { ...LLAMA_3_8B, layers: 1 },
  };
  const inputTokens = 200_000;
  const hashIds = Array.from({ length: Math.ceil(inputTokens / 512) }, (_, id) => id);
  const trace = [{ timestampMillis: 0, inputTokens, outputTokens: 2, hashIds }];
  const kernels = instantiateKernels(readKernelBytes(), tracePages(trace, options));
  const { summary, result } = runTrace(kernels, trace, options);
  expect(result.violation).toBeNull();
  expect(summary).toMatchObject({ completed: 1, failed: 0, blocksLeft: 0 });
});

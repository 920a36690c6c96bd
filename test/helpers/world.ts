import type { Connector } from '../../src/connector/plug.ts';
import { DIFF_PAGES } from '../../src/explore/fabric-diff/workload.ts';
import { type Run, runSeed } from '../../src/explore/run.ts';
import { readKernelBytes } from '../../src/node/kernel-bytes.ts';
import { type ChoicePolicy, IN_TURN } from '../../src/proxy/choose.ts';
import { instantiateKernels } from '../../src/sim/load-kernels.ts';
import { CHECK_PAGES, CHECK_SIZES, createWorldMemory, type WorldMemory } from '../../src/sim/memory.ts';
import type { Scenario } from '../../src/sim/scenario.ts';
import { SHIPPED_MIX } from '../../src/zoo/shipped.ts';

/** What tests that run whole clusters share. */

export function newMemory(): WorldMemory {
  return createWorldMemory(instantiateKernels(readKernelBytes(), CHECK_PAGES), CHECK_SIZES);
}

/** With room for the drawn batches of a diff. */
export function diffMemory(): WorldMemory {
  return createWorldMemory(instantiateKernels(readKernelBytes(), DIFF_PAGES), CHECK_SIZES);
}

/** One P and one D with a single rank each, one queue pair, WRITE: where a story has one thread. */
export const ONE_OF_EACH: Scenario = {
  ...SHIPPED_MIX,
  mode: 'write',
  prefillInstances: 1,
  decodeInstances: 1,
  prefillTp: [1],
  decodeTp: [1],
  queuePairsMax: 1,
};

/** One schedule of a scenario with somebody else's connector, and perhaps policy, in it. */
export function runConnector(
  memory: WorldMemory,
  scenario: Scenario,
  connector: Connector,
  seed: number,
  policy: ChoicePolicy = IN_TURN,
): Run['result'] {
  return runSeed(memory, scenario, seed, { parts: () => ({ connector, policy }) }).result;
}

import type { Connector } from '../../src/connector/plug.ts';
import { PROFILES } from '../../src/io/nic.ts';
import { readKernelBytes } from '../../src/node/kernel-bytes.ts';
import { IN_TURN } from '../../src/proxy/choose.ts';
import { CELL_GRAIN } from '../../src/sim/cluster.ts';
import { drawProfile, drawSetup } from '../../src/sim/draws.ts';
import { instantiateKernels } from '../../src/sim/load-kernels.ts';
import { CHECK_PAGES, CHECK_SIZES, createWorldMemory, type WorldMemory } from '../../src/sim/memory.ts';
import { CHECK_NETWORK } from '../../src/sim/network.ts';
import { layPrompt } from '../../src/sim/prompts.ts';
import { CHECK_MICROS_MAX, CHECK_STEPS_MAX } from '../../src/sim/run.ts';
import type { Hazards, Scenario } from '../../src/sim/scenario.ts';
import { STRAY_KINDS } from '../../src/sim/strays.ts';
import { seededTape } from '../../src/sim/tape.ts';
import { type RunResult, runWorld } from '../../src/sim/world.ts';

/** What tests that run whole clusters share. */

export function newMemory(): WorldMemory {
  return createWorldMemory(instantiateKernels(readKernelBytes(), CHECK_PAGES), CHECK_SIZES);
}

export const NO_HAZARDS: Hazards = {
  aborts: false,
  drops: false,
  duplicates: false,
  reorders: false,
  corruption: false,
  strays: 'none',
  crashes: false,
  longDelays: false,
};

/** One schedule of a scenario with somebody else's connector in it. */
export function runConnector(
  memory: WorldMemory,
  scenario: Scenario,
  connector: Connector,
  seed: number,
): RunResult {
  const { blockTokens, blocksPerEngine: blocks, batchTokensMax } = scenario;
  const tape = seededTape(seed, false);
  const setup = drawSetup(scenario, tape);
  return runWorld({
    setup,
    layPrompts: () => setup.requests.map((request) => layPrompt(setup, request, blockTokens, memory)),
    limits: { blockTokens, blocks, batchTokensMax, batchRequestsMax: 8 },
    grain: CELL_GRAIN,
    network: CHECK_NETWORK,
    nic: PROFILES.plain,
    connector,
    policy: IN_TURN,
    tape,
    replaying: false,
    profile: drawProfile(scenario, seed),
    strayKinds: scenario.hazards.strays === 'none' ? 0 : STRAY_KINDS,
    memory,
    record: false,
    stepsMax: CHECK_STEPS_MAX,
    microsMax: CHECK_MICROS_MAX,
  });
}

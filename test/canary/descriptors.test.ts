import { expect, test } from 'vitest';
import type { ActorId } from '../../src/base/topology.ts';
import type { Connector, WorkerEnv } from '../../src/connector/plug.ts';
import { NO_HAZARDS } from '../../src/faults/hazards.ts';
import { packMemoryDesc, unpackMemoryDesc } from '../../src/io/descriptors.ts';
import type { Scenario } from '../../src/sim/scenario.ts';
import type { Description } from '../../src/wire/machine.ts';
import { SHIPPED_MIX } from '../../src/zoo/shipped.ts';
import { newMemory, runConnector } from '../helpers/world.ts';
import { plantInEffects } from './plant.ts';

/** What a rank knows of a peer is in the descriptors that it got: others in their place go to another end. */

const memory = newMemory();
const CALM: Scenario = {
  ...SHIPPED_MIX,
  prefillInstances: 1,
  decodeInstances: 2,
  prefillTp: [1],
  decodeTp: [1],
  hazards: NO_HAZARDS,
};

/** Connects with what `forge` makes of a peer's description; `envs` are those of all ranks of the run. */
function forging(
  forge: (
    said: Description,
    peer: ActorId,
    env: WorkerEnv,
    envs: ReadonlyMap<ActorId, WorkerEnv>,
  ) => Description,
): Connector {
  const envs = new Map<ActorId, WorkerEnv>();
  return plantInEffects((env) => {
    envs.set(env.self, env);
    return (effect, pass) => {
      if (effect.kind !== 'connect') return pass(effect);
      const { peer, engineDesc, memoryDesc } = effect;
      pass({ kind: 'connect', peer, ...forge({ engineDesc, memoryDesc }, peer, env, envs) });
    };
  });
}

/** The invariants that some seeds break. */
function seen(connector: Connector, scenario: Scenario, seeds = 60): string[] {
  const invariants = new Set<string>();
  for (let seed = 0; seed < seeds; seed++) {
    const { violation } = runConnector(memory, scenario, connector, seed);
    if (violation !== null) invariants.add(violation.invariant);
  }
  return [...invariants].sort();
}

const forgedMemory = (change: (desc: ReturnType<typeof unpackMemoryDesc>) => object) =>
  forging(({ engineDesc, memoryDesc }) => {
    const desc = unpackMemoryDesc(memoryDesc);
    return { engineDesc, memoryDesc: packMemoryDesc({ ...desc, ...change(desc) }) };
  });

test('what the peers said leads to them, and nothing is amiss', () => {
  const connector = forging((said) => said);
  expect(seen(connector, CALM)).toEqual([]);
});

test('the description of another D leads there: a write lands in blocks that nobody lent', () => {
  const connector = forging((said, peer, env, envs) => {
    const { actors, engines } = env.topology;
    const { engine, role } = engines[actors[peer]!.engine]!;
    const other = engines.find((one) => one.role === role && one.engine !== engine);
    return envs.get(other?.ranks[0] ?? -1)?.describe(env.self) ?? said;
  });
  expect(seen(connector, { ...CALM, mode: 'write' })).toContain('I1');
});

test.each([
  ['a memory that was never registered', forgedMemory(({ id }) => ({ id: id + 100 }))],
  ['a memory of an engine that nobody knows', forgedMemory(() => ({ engineKey: 'nobody' }))],
])('%s moves nothing, and the loads fail', (_, connector) => {
  // Nothing was out of the ordinary that would excuse it.
  expect(seen(connector, CALM, 20)).toEqual(['I10']);
});

import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { runTape } from '../../src/explore/run.ts';
import { NO_HAZARDS } from '../../src/faults/hazards.ts';
import type { Scenario } from '../../src/sim/scenario.ts';
import { readTape } from '../../src/sim/tape.ts';
import { SHIPPED_MIX } from '../../src/zoo/shipped.ts';
import { plantInEffects } from '../canary/plant.ts';
import { newMemory, ONE_OF_EACH, runConnector } from '../helpers/world.ts';

// What the property suite has found in the shipped connector, the scheduler and the judges, each shrunk.

const memory = newMemory();

/** One P and one D with little of everything. */
const TINY: Scenario = {
  ...ONE_OF_EACH,
  sharedPrefixes: false,
  ordinaryRequests: false,
  hazards: NO_HAZARDS,
};

/** The whole tape of a run of 663 steps. */
const FENCED_WRITE = JSON.parse(readFileSync(new URL('fenced-write.json', import.meta.url), 'utf8')) as [
  string,
  number,
][];

interface Found {
  readonly what: string;
  readonly scenario: Scenario;
  readonly rows: readonly (readonly [string, number])[];
}

const TAPES: readonly Found[] = [
  {
    // The fence found no queue pair to reset; the old reply then made new ones, and an old grant used them.
    what: 'a handshake reply that is older than a fence opens no way into freed blocks',
    scenario: {
      ...TINY,
      layers: [2, 3],
      heads: 4,
      blockTokens: 2,
      blocksPerEngine: 16,
      batchTokensMax: 5,
      requestsMax: 5,
      promptTokensMax: 8,
      prefillTp: [1, 2],
      decodeTp: [2],
      hazards: { ...NO_HAZARDS, aborts: true, reorders: true },
    },
    rows: [
      ['cluster/shape.prefillTp/0/0', 1],
      ['cluster/shape.requests/0/0', 1],
      ['clients/abort.0/r0/0', 100],
      ['proxy>P0/deliverDelay.generate/r1/0', 1000000],
      ['D0.r1>P0.r1/deliverDelay.metaReply/0/0', 337086],
    ],
  },
  {
    // It preempted itself, was admitted again, and computed the same tokens anew, until the load was there.
    what: 'a request that lacks one block does not compute in a circle while a load holds the others',
    scenario: {
      ...TINY,
      layers: [1],
      heads: 1,
      blockTokens: 3,
      blocksPerEngine: 8,
      batchTokensMax: 3,
      requestsMax: 3,
      promptTokensMax: 10,
      unequalLayers: false,
      sendQueueDepths: [1],
    },
    rows: [
      ['cluster/shape.requests/0/0', 3],
      ['clients/workload.outputTokens/r0/0', 2],
      ['clients/workload.promptTokens/r1/0', 5],
      ['P0.r0/completeDelay.0/t2/5', 832235],
    ],
  },
  {
    what: 'a write posted on a queue pair that was fenced is no breach: it cannot land',
    scenario: {
      ...SHIPPED_MIX,
      mode: 'write',
      prefillInstances: 1,
      decodeInstances: 1,
      requestsMax: 8,
      hazards: { ...NO_HAZARDS, drops: true, longDelays: true },
    },
    rows: FENCED_WRITE,
  },
  {
    what: 'a load may fail because P has refused the request for its size',
    scenario: {
      ...SHIPPED_MIX,
      mode: 'write',
      decodeInstances: 1,
      layers: [4],
      blockTokens: 2,
      blocksPerEngine: 9,
      batchTokensMax: 4,
      requestsMax: 1,
      promptTokensMax: 16,
      outputTokensMax: 5,
      prefillTp: [4],
      decodeTp: [2],
      decodeDp: [1, 2],
      queuePairsMax: 1,
      sendQueueDepths: [2],
      hazards: { ...NO_HAZARDS, duplicates: true, corruption: true, crashes: true },
    },
    rows: [
      ['cluster/shape.decodeDp/0/0', 1],
      ['cluster/shape.order/0/0', 5],
      ['cluster/shape.unequal/0/0', 1],
      ['cluster/shape.lookAhead/0/0', 1],
      ['cluster/shape.notifies/0/0', 7],
      ['clients/workload.gap/r0/0', 5],
      ['clients/workload.promptTokens/r0/0', 10],
      ['clients/workload.outputTokens/r0/0', 1],
      ['clients/workload.ordinary/r0/0', 6],
      ['clients/workload.family/r0/0', 1],
      ['clients/workload.sharedBlocks/r0/0', 1],
      ['proxy>D0/deliverDelay.generate/r0/0', 12],
      ['proxy>P0/deliverDelay.generate/r0/0', 64],
      ['D0/turnDelay.0/0/0', 41],
      ['D0>D0.r0/deliverDelay.runStep/s0/0', 18],
      ['D0.r1/timerDelay.4/1/0', 58],
      ['D0.r1>P0.r1/deliverDelay.grant/1/0', 59],
      ['P0>proxy/deliverDelay.answer/r0/0', 20],
      ['D0.r0/timerDelay.4/1/0', 19],
      ['D0.r0>P0.r0/deliverDelay.grant/1/0', 3],
      ['P0.r0/timerDelay.6/1/0', 16],
      ['P0.r1/timerDelay.6/1/0', 39],
      ['D0.r0>P0.r0/deliverDelay.revoke/1/0', 42],
    ],
  },
];

describe('what was found once stays mended:', () => {
  test.each(TAPES)('$what', ({ scenario, rows }) => {
    const { result, tape } = runTape(memory, scenario, readTape(rows, 'here'));
    // A tape whose entries are not asked for any more tells another story.
    expect(tape.recorded).toHaveLength(rows.length);
    expect(result.violation).toBeNull();
  });
});

test('what was queued on a session that a newer grant outdates is given up, not forgotten', () => {
  // Without the fence itself only the new epoch tells the initiator; its queued work requests were lost with the session.
  const connector = plantInEffects(() => (effect, pass) => {
    if (effect.kind !== 'fence') pass(effect);
  });
  const scenario: Scenario = {
    ...TINY,
    decodeTp: [1],
    lookAhead: false,
    promptTokensMax: 8,
    outputTokensMax: 2,
    blocksPerEngine: 5,
    requestsMax: 12,
    queuePairsMax: 2,
    sharedPrefixes: true,
    hazards: { ...NO_HAZARDS, aborts: true, drops: true, longDelays: true },
  };
  const result = runConnector(memory, scenario, connector, 5738);
  expect(result.violation).toBeNull();
  expect(result.goals.get('revoke-fenced')).toBeGreaterThan(0);
});

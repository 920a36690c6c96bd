import { describe, expect, test } from 'vitest';
import type { Connector, WorkerEnv } from '../../src/connector/plug.ts';
import { runSeed } from '../../src/explore/run.ts';
import { NO_HAZARDS } from '../../src/faults/hazards.ts';
import type { BreachName, Site } from '../../src/oracle/registry.ts';
import type { Violation } from '../../src/oracle/verdict.ts';
import { IN_TURN } from '../../src/proxy/choose.ts';
import type { Scenario } from '../../src/sim/scenario.ts';
import type { Effect, PostedBatch } from '../../src/wire/machine.ts';
import { SHIPPED_MIX } from '../../src/zoo/shipped.ts';
import { newMemory, ONE_OF_EACH } from '../helpers/world.ts';
import { plantInBatches, plantInEffects } from './plant.ts';

/** What a connector asks for that cannot be done, and what it touches beyond what it was given: told on, by its name. */

const memory = newMemory();
const CALM: Scenario = { ...ONE_OF_EACH, mode: 'both', hazards: NO_HAZARDS };
/** Ranks that have siblings. */
const PAIRS: Scenario = { ...CALM, prefillTp: [2], decodeTp: [2], requestsMax: 3 };

/** The first violation of some seeds. Recorded, so that what tells of it is tried too. */
function firstViolation(connector: Connector, scenario: Scenario, seeds: number): Violation | null {
  const parts = () => ({ connector, policy: IN_TURN });
  for (let seed = 0; seed < seeds; seed++) {
    const { violation } = runSeed(memory, scenario, seed, { parts, record: true }).result;
    if (violation !== null) return violation;
  }
  return null;
}

/** Number `at` of the last run becomes `value`. */
const inRun = (at: 0 | 1 | 2, value: number) => (batch: PostedBatch) => {
  const runs = [...batch.runs];
  runs[runs.length - 3 + at] = value;
  return { ...batch, runs };
};
const set = (change: object) => (batch: PostedBatch) => ({ ...batch, ...change }) as PostedBatch;

const BATCHES: readonly (readonly [
  string,
  (batch: PostedBatch, env: WorkerEnv) => PostedBatch,
  BreachName | BreachName[],
])[] = [
  ['a local offset that is no number', inRun(0, Number.NaN), 'batch-odd-run'],
  ['a remote offset between two bytes', inRun(1, 1.5), 'batch-odd-run'],
  ['a remote offset below zero', inRun(1, -16), 'batch-odd-run'],
  ['an endless run', inRun(2, Number.POSITIVE_INFINITY), 'batch-odd-run'],
  ['bytes below zero', inRun(2, -1), 'batch-odd-run'],
  ['a run past the end of a region', inRun(2, 2 ** 40), 'batch-leaves-region'],
  ['no runs', set({ runs: [] }), 'batch-no-runs'],
  ['no list of runs', set({ runs: undefined }), 'batch-no-runs'],
  ['two numbers for a run', set({ runs: [0, 16] }), 'batch-odd-runs'],
  ['a queue pair that does not exist', set({ queuePair: 99 }), 'batch-no-queue-pair'],
  ['a queue pair that is no number', set({ queuePair: Number.NaN }), 'batch-no-queue-pair'],
  ['a queue pair below zero', set({ queuePair: -1 }), 'batch-no-queue-pair'],
  ['a peer that does not exist', set({ peer: 99 }), 'peer-unknown'],
  ['a peer that is no number', set({ peer: Number.NaN }), 'peer-unknown'],
  ['itself as its peer', (batch, { self }) => ({ ...batch, peer: self }), 'peer-of-own-engine'],
  ['a scheduler as its peer', (batch, { spec }) => ({ ...batch, peer: spec.scheduler }), 'peer-has-no-nic'],
  ['the proxy as its peer', set({ peer: 0 }), 'peer-has-no-nic'],
  [
    'a sibling as its peer',
    (batch, { spec, tpRank }) => ({ ...batch, peer: spec.ranks[1 - tpRank]! }),
    'peer-of-own-engine',
  ],
  ['a layer that the model has not', set({ layer: 9 }), 'batch-no-layer'],
  ['a tag that is no number', set({ tag: Number.NaN }), 'batch-odd-number'],
  ['a request that nobody made', set({ request: 77 }), 'batch-no-request'],
  [
    'the request of another',
    (batch) => ({ ...batch, request: batch.request ^ 1 }),
    ['batch-no-request', 'request-of-another'],
  ],
  ['an operation that there is not', set({ operation: 'send' }), 'batch-odd-operation'],
  ['a block that does not exist', set({ remoteBlocks: [99] }), 'batch-no-block'],
  ['a block that is no number', set({ localBlocks: [Number.NaN] }), 'batch-no-block'],
  ['no list of blocks', set({ localBlocks: undefined }), 'batch-no-block-list'],
];

describe('a batch that cannot be posted is the mistake of its poster:', () => {
  test.each(BATCHES)('%s', (_, change, breach) => {
    const connector = plantInBatches(change);
    const violation = firstViolation(connector, PAIRS, 10)!;
    expect(violation).toMatchObject({ invariant: 'I12', site: 'effect', machine: 'rank', part: 'post' });
    expect([breach].flat()).toContain(violation.breach);
    expect(violation.ids).toMatchObject({ actor: expect.any(Number) });
  });
});

/** Each effect of that kind is changed, or left out. */
function inEffects<K extends Effect['kind']>(kind: K, change: object | null): Connector {
  return plantInEffects(() => (effect, pass) => {
    if (effect.kind !== kind) pass(effect);
    else if (change !== null) pass({ ...effect, ...change } as Effect);
  });
}

/** What makes shipped fence and reset. */
const ROUGH: Scenario = {
  ...CALM,
  requestsMax: 8,
  hazards: { ...NO_HAZARDS, aborts: true, drops: true, crashes: true, longDelays: true, nic: ['silent'] },
};

const EFFECTS: readonly (readonly [string, Connector, Scenario, BreachName, string])[] = [
  ['never connected', inEffects('connect', null), CALM, 'never-connected', 'post'],
  ['connects to nobody', inEffects('connect', { peer: 99 }), CALM, 'peer-unknown', 'connect'],
  ['connects to the proxy', inEffects('connect', { peer: 0 }), CALM, 'peer-has-no-nic', 'connect'],
  [
    'connects without a descriptor',
    inEffects('connect', { memoryDesc: undefined }),
    CALM,
    'odd-descriptor',
    'connect',
  ],
  [
    'connects with an endless descriptor',
    inEffects('connect', { engineDesc: new Uint8Array(5000) }),
    CALM,
    'odd-descriptor',
    'connect',
  ],
  [
    'connects with bytes that are no descriptor',
    inEffects('connect', { engineDesc: Uint8Array.of(0xc1) }),
    CALM,
    'unreadable-descriptor',
    'connect',
  ],
  ['fences nobody', inEffects('fence', { peer: -1 }), ROUGH, 'peer-unknown', 'fence'],
  ['resets nobody', inEffects('reset', { peer: 0.5 }), ROUGH, 'peer-unknown', 'reset'],
  ['posts nothing', inEffects('post', { batch: null }), CALM, 'posts-no-batch', 'post'],
  ['sends to nobody', inEffects('send', { to: 99 }), CALM, 'sends-to-nobody', 'send'],
  ['sends nothing', inEffects('send', { message: undefined }), CALM, 'sends-no-message', 'send'],
  ['arms a timer for no time', inEffects('arm', { latest: Number.NaN }), CALM, 'odd-time', 'arm'],
  ['asks for what there is not', inEffects('connect', { kind: 'conect' }), CALM, 'no-effect', 'effect'],
];

describe('an effect that cannot be is the mistake of who asked for it:', () => {
  test.each(EFFECTS)('%s', (_, connector, scenario, breach, part) => {
    const violation = firstViolation(connector, scenario, 150)!;
    expect(violation).toMatchObject({ invariant: 'I12', site: 'effect', machine: 'rank', breach, part });
  });
});

const lastRun = (batch: PostedBatch, by: number): PostedBatch => inRun(2, batch.runs.at(-1)! + by)(batch);

const BEYOND: readonly (readonly [string, (batch: PostedBatch, env: WorkerEnv) => PostedBatch, Site[]])[] = [
  [
    'one slot past the grant',
    (batch, { views }) => lastRun(batch, views[batch.layer]!.parts[0]!.bytes),
    // Past the last slot of a block lies, in some layouts, a block that the batch does not name.
    ['slots', 'blocks', 'post'],
  ],
  ['one byte past the grant', (batch) => lastRun(batch, 1), ['slots', 'blocks', 'post']],
  [
    'one more block than it names',
    (batch) =>
      batch.localBlocks.length < 2 ? batch : { ...batch, remoteBlocks: batch.remoteBlocks.slice(1) },
    ['post'],
  ],
  ['blocks of which it names none', set({ localBlocks: [], remoteBlocks: [] }), ['post']],
  [
    'the block next to its own',
    (batch, { views }) => {
      const { blockStride } = views[batch.layer]!.parts[0]!;
      const [local, remote, bytes] = batch.runs as [number, number, number];
      return { ...batch, runs: [...batch.runs, local, remote + blockStride, bytes] };
    },
    ['slots', 'blocks', 'post'],
  ],
];

describe('a batch that touches more than it was given breaks I1:', () => {
  test.each(
    BEYOND.flatMap(([name, change, sites]) =>
      (['write', 'read'] as const).map((mode) => ({ name, mode, change, sites })),
    ),
  )('$name, in $mode mode', ({ mode, change, sites }) => {
    const connector = plantInBatches((batch, env) => (env.views.length > 0 ? change(batch, env) : batch));
    // Equal layouts on both sides: the run next to the last one is the next slot on either.
    const scenario: Scenario = {
      ...SHIPPED_MIX,
      mode,
      layouts: 'equal',
      lookAhead: false,
      hazards: NO_HAZARDS,
    };
    const violation = firstViolation(connector, scenario, 40)!;
    expect(violation.invariant).toBe('I1');
    expect(sites).toContain(violation.site);
  });
});

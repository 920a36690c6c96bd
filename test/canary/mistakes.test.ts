import { describe, expect, test } from 'vitest';
import type { Connector, WorkerEnv } from '../../src/connector/plug.ts';
import { runSeed } from '../../src/explore/run.ts';
import { NO_HAZARDS } from '../../src/faults/hazards.ts';
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

const BATCHES: readonly (readonly [string, (batch: PostedBatch, env: WorkerEnv) => PostedBatch, RegExp])[] = [
  [
    'a local offset that is no number',
    inRun(0, Number.NaN),
    /not counted in bytes: run \d+ .* local offset NaN/,
  ],
  ['a remote offset between two bytes', inRun(1, 1.5), /not counted in bytes: .* remote offset 1.5/],
  ['a remote offset below zero', inRun(1, -16), /not counted in bytes: .* remote offset -16/],
  ['an endless run', inRun(2, Number.POSITIVE_INFINITY), /not counted in bytes: run \d+ of Infinity bytes/],
  ['bytes below zero', inRun(2, -1), /not counted in bytes: run \d+ of -1 bytes/],
  ['a run past the end of a region', inRun(2, 2 ** 40), /leaves a region: run \d+ of 1099511627776 bytes/],
  ['no runs', set({ runs: [] }), /has no runs/],
  ['no list of runs', set({ runs: undefined }), /has no runs/],
  ['two numbers for a run', set({ runs: [0, 16] }), /has 2 numbers as its runs/],
  ['a queue pair that does not exist', set({ queuePair: 99 }), /is for queue pair 99 of \d/],
  ['a queue pair that is no number', set({ queuePair: Number.NaN }), /is for queue pair NaN of \d/],
  ['a queue pair below zero', set({ queuePair: -1 }), /is for queue pair -1 of \d/],
  ['a peer that does not exist', set({ peer: 99 }), /goes to actor 99, who does not exist/],
  ['a peer that is no number', set({ peer: Number.NaN }), /goes to actor NaN, who does not exist/],
  [
    'itself as its peer',
    (batch, { self }) => ({ ...batch, peer: self }),
    /goes to .*, which is of its own engine/,
  ],
  [
    'a scheduler as its peer',
    (batch, { spec }) => ({ ...batch, peer: spec.scheduler }),
    /which is no rank and has no NIC/,
  ],
  ['the proxy as its peer', set({ peer: 0 }), /goes to proxy, which is no rank and has no NIC/],
  [
    'a sibling as its peer',
    (batch, { spec, tpRank }) => ({ ...batch, peer: spec.ranks[1 - tpRank]! }),
    /of its own engine/,
  ],
  ['a layer that the model has not', set({ layer: 9 }), /is of layer 9 of \d/],
  ['a tag that is no number', set({ tag: Number.NaN }), /has tag NaN/],
  ['a request that nobody made', set({ request: 77 }), /is of request 77 of \d/],
  [
    'the request of another',
    (batch) => ({ ...batch, request: batch.request ^ 1 }),
    /request \d+ (of|in transfer) /,
  ],
  ['an operation that there is not', set({ operation: 'send' }), /is a send, neither read nor write/],
  ['a block that does not exist', set({ remoteBlocks: [99] }), /names remote block 99 of \d/],
  ['a block that is no number', set({ localBlocks: [Number.NaN] }), /names local block NaN of \d/],
  ['no list of blocks', set({ localBlocks: undefined }), /has no list of local blocks/],
];

describe('a batch that cannot be posted is the mistake of its poster:', () => {
  test.each(BATCHES)('%s', (_, change, words) => {
    const connector = plantInBatches(change);
    const violation = firstViolation(connector, PAIRS, 10)!;
    expect(violation.invariant).toBe('I12');
    expect(violation.place).toMatch(/^(prefill|decode) rank post$/);
    expect(violation.detail).toMatch(/^[PD]0\.r[01] posts /);
    expect(violation.detail).toMatch(words);
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

const EFFECTS: readonly (readonly [string, Connector, Scenario, RegExp])[] = [
  ['never connected', inEffects('connect', null), CALM, /rank post: .* to which it never connected/],
  [
    'connects to nobody',
    inEffects('connect', { peer: 99 }),
    CALM,
    /rank connect: .* actor 99, who does not exist/,
  ],
  [
    'connects to the proxy',
    inEffects('connect', { peer: 0 }),
    CALM,
    /rank connect: .* proxy, which is no rank/,
  ],
  [
    'connects in no epoch',
    inEffects('connect', { epoch: Number.NaN }),
    CALM,
    /rank connect: .* in epoch NaN/,
  ],
  [
    'connects in an epoch before the first',
    inEffects('connect', { epoch: -1 }),
    CALM,
    /rank connect: .* in epoch -1/,
  ],
  ['fences nobody', inEffects('fence', { peer: -1 }), ROUGH, /rank fence: .* actor -1, who does not exist/],
  ['resets nobody', inEffects('reset', { peer: 0.5 }), ROUGH, /rank reset: .* actor 0.5, who does not exist/],
  ['posts nothing', inEffects('post', { batch: null }), CALM, /rank post: .* posts a batch that is none/],
  ['sends to nobody', inEffects('send', { to: 99 }), CALM, /rank send: .* sends to actor 99/],
  [
    'sends nothing',
    inEffects('send', { message: undefined }),
    CALM,
    /rank send: .* sends undefined, which is no message/,
  ],
  [
    'arms a timer for no time',
    inEffects('arm', { latest: Number.NaN }),
    CALM,
    /rank arm: .* arms a timer for \[/,
  ],
  [
    'asks for what there is not',
    inEffects('connect', { kind: 'conect' }),
    CALM,
    /asks for conect, which is no effect/,
  ],
];

describe('an effect that cannot be is the mistake of who asked for it:', () => {
  test.each(EFFECTS)('%s', (_, connector, scenario, words) => {
    const violation = firstViolation(connector, scenario, 150)!;
    expect(violation.invariant).toBe('I12');
    expect(`${violation.place}: ${violation.detail}`).toMatch(words);
  });
});

const lastRun = (batch: PostedBatch, by: number): PostedBatch => inRun(2, batch.runs.at(-1)! + by)(batch);

const BEYOND: readonly (readonly [string, (batch: PostedBatch, env: WorkerEnv) => PostedBatch, RegExp])[] = [
  [
    'one slot past the grant',
    (batch, { views }) => lastRun(batch, views[batch.layer]!.parts[0]!.bytes),
    /^(prefill|decode) (slots|blocks)$/,
  ],
  ['one byte past the grant', (batch) => lastRun(batch, 1), /^(prefill|decode) (slots|blocks)$/],
  [
    'one more block than it names',
    (batch) =>
      batch.localBlocks.length < 2 ? batch : { ...batch, remoteBlocks: batch.remoteBlocks.slice(1) },
    /^(prefill|decode) rank post$/,
  ],
  [
    'blocks of which it names none',
    set({ localBlocks: [], remoteBlocks: [] }),
    /^(prefill|decode) rank post$/,
  ],
  [
    'the block next to its own',
    (batch, { views }) => {
      const { blockStride } = views[batch.layer]!.parts[0]!;
      const [local, remote, bytes] = batch.runs as [number, number, number];
      return { ...batch, runs: [...batch.runs, local, remote + blockStride, bytes] };
    },
    /^(prefill|decode) (slots|blocks|rank post)$/,
  ],
];

describe('a batch that touches more than it was given breaks I1:', () => {
  test.each(
    BEYOND.flatMap(([name, change, place]) =>
      (['write', 'read'] as const).map((mode) => ({ name, mode, change, place })),
    ),
  )('$name, in $mode mode', ({ mode, change, place }) => {
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
    expect([violation.invariant, violation.detail]).toEqual(['I1', violation.detail]);
    expect(violation.place).toMatch(place);
  });
});

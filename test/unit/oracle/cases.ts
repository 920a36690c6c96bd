import { expect } from 'vitest';
import { layTopology, PROXY, type Shape, type Topology } from '../../../src/base/topology.ts';
import { layView } from '../../../src/kv/view.ts';
import type { Breach } from '../../../src/oracle/breach.ts';
import { mapCache } from '../../../src/oracle/cache-map.ts';
import { SPINS_MAX } from '../../../src/oracle/invariants/i9-bounded-wait.ts';
import { Judge } from '../../../src/oracle/judge.ts';
import { breachByName, type InvariantId } from '../../../src/oracle/registry.ts';
import type { Note, PostedBatch } from '../../../src/wire/machine.ts';
import type { Message } from '../../../src/wire/messages.ts';

// Two P and two D with two DP ranks each: engines 0 to 3 prefill, 4 to 7 decode; a scheduler and one rank each.
const SHAPE: Shape = {
  mode: 'write',
  prefillInstances: 2,
  decodeInstances: 2,
  prefillDp: 2,
  decodeDp: 2,
  prefillTp: 1,
  decodeTp: 1,
};
const TOPOLOGY = layTopology(SHAPE);
/** The same with two TP ranks each: of two KV heads each rank holds one. */
const PAIRS = layTopology({ ...SHAPE, prefillTp: 2, decodeTp: 2 });
export const [P, P_OTHER] = [TOPOLOGY.engines[0]!, TOPOLOGY.engines[1]!];
export const [D, D_OTHER] = [TOPOLOGY.engines[4]!, TOPOLOGY.engines[5]!];
const [P_PAIR, D_PAIR] = [PAIRS.engines[P.engine]!.ranks, PAIRS.engines[D.engine]!.ranks];
export const P_RANK = P.ranks[0]!;
export const D_RANK = D.ranks[0]!;

interface Setting {
  readonly isLoaded?: boolean;
  readonly checksTokens?: boolean;
  readonly ranksTakeTurns?: boolean;
  readonly topology?: Topology;
  /** Blocks of D that an operation can still touch. */
  readonly endangered?: readonly number[];
}

/** A judge and what it said. */
export function setUp(setting: Setting = {}): {
  judge: Judge;
  /** Where each promise broke. */
  said: string[];
  /** Which way. */
  breaches: string[];
} {
  const { topology = TOPOLOGY } = setting;
  const { isLoaded = true, checksTokens = true, ranksTakeTurns = true, endangered = [] } = setting;
  const said: string[] = [];
  const breaches: string[] = [];
  const judge = new Judge({
    topology,
    blocksPerEngine: topology.engines.map(() => 6),
    requests: [
      { request: 0, promptTokens: 4, reference: [11, 12], aborts: false, fits: true },
      { request: 1, promptTokens: 4, reference: [21], aborts: true, fits: true },
      { request: 2, promptTokens: 4, reference: [31], aborts: false, fits: false },
    ],
    cacheOf: () => CACHE,
    checksTokens,
    ranksTakeTurns,
    heads: 2,
    isLoaded: () => isLoaded,
    findDanger: (engine, blocks) => {
      const block =
        engine === D.engine ? blocks.find((candidate) => endangered.includes(candidate)) : undefined;
      return block === undefined ? null : { block, request: 0 };
    },
    fail: (breach, { role, machine, part }, ids) => {
      const { invariant, site, name, says } = breach as Breach;
      expect(breachByName(invariant as InvariantId, name)).toBe(breach);
      // The words name no id that is not told.
      for (const [, id] of says.matchAll(/\{(\w+)\}/g)) expect(Object.keys(ids)).toContain(id);
      const words = [invariant, role, machine, site, part].filter((word) => word !== 'none' && word !== '');
      said.push(words.join(' '));
      breaches.push(`${invariant} ${name}`);
    },
  });
  return { judge, said, breaches };
}

/** Of each rank: one layer of 6 blocks of 4 tokens, 16 bytes each. */
const CACHE = mapCache([
  layView(0, 0, {
    order: 'BN',
    blockCount: 6,
    blockUnits: 4,
    unitTokens: 1,
    cellBytes: 16,
    headFirst: 0,
    headCount: 1,
  }),
]);
/** Where a token of a block lies. */
export const byteOf = (block: number, token = 0): number => block * 64 + token * 16;

export function batch(change: Partial<PostedBatch> = {}): PostedBatch {
  return {
    tag: 1,
    peer: D_RANK,
    queuePair: 0,
    operation: 'write',
    transfer: 1,
    request: 0,
    layer: 0,
    part: 0,
    runs: [byteOf(0), byteOf(3), 64],
    localBlocks: [0],
    remoteBlocks: [3],
    ...change,
  };
}

export const allocate = (blocks: readonly number[], request = 0): Note => ({
  kind: 'allocate',
  request,
  blocks,
});
export const free = (blocks: readonly number[], request = 0): Note => ({ kind: 'free', request, blocks });
export const share = (blocks: readonly number[], request = 0): Note => ({ kind: 'share', request, blocks });
export const outcome = (
  end: 'completed' | 'failed' | 'aborted',
  tokens: readonly number[] = [11, 12],
  request = 0,
): Note => ({ kind: 'outcome', request, outcome: end, cause: 'x', tokens });
export const reported = (end: 'sent' | 'received' | 'failed', request = 0): Message => ({
  kind: 'report',
  tpRank: 0,
  sent: [],
  received: [],
  failed: [],
  [end]: [request],
});
export const assign = (prefill: number, decode: number, transfer = 1): Note => ({
  kind: 'assign',
  request: 0,
  transfer,
  prefill,
  decode,
});
const loaded: Note = { kind: 'loaded', request: 0, transfer: 1, blocks: [3], tokenTo: 4, lineageAddress: 0 };
const misread: Note = {
  kind: 'misread',
  request: 0,
  layer: 0,
  token: 1,
  head: 0,
  part: 1,
  expected: 1,
  actual: 2,
  block: 3,
};

export const external = (tokenFrom: number, tokenTo: number, request = 0): Note => ({
  kind: 'external',
  request,
  tokenFrom,
  tokenTo,
});

/** P has block 0 and D has block 3, both for request 0, and D waits for its prompt. */
export function held(judge: Judge): void {
  judge.note(P.scheduler, allocate([0]));
  judge.note(D.scheduler, allocate([3]));
  judge.note(D.scheduler, external(0, 4));
}

export const read = (change: Partial<PostedBatch> = {}): PostedBatch =>
  batch({
    operation: 'read',
    peer: P_RANK,
    localBlocks: [3],
    remoteBlocks: [0],
    runs: [byteOf(3), byteOf(0), 64],
    ...change,
  });

/** A batch lands as a whole. */
export const land = (judge: Judge, from: number, landed: PostedBatch): void =>
  judge.landed(from, landed, landed.runs, -1);

type Script = (judge: Judge) => void;
export interface Case {
  readonly name: string;
  readonly says: string;
  readonly illegal: Script;
  /** As near to the illegal one as a sequence can be that breaks no promise. */
  readonly legal: Script;
  readonly setting?: Setting;
  readonly legalSetting?: Setting;
}

export const CASES: readonly Case[] = [
  {
    name: 'a second end of one request',
    says: 'I2 proxy outcome',
    illegal(judge) {
      judge.note(PROXY, outcome('completed'));
      judge.note(PROXY, outcome('aborted'));
    },
    legal(judge) {
      judge.note(PROXY, outcome('completed'));
      judge.note(PROXY, outcome('aborted', [], 1));
    },
  },
  {
    name: 'an answer with a wrong token',
    says: 'I4 answer',
    illegal: (judge) => judge.note(PROXY, outcome('completed', [11, 13])),
    legal: (judge) => judge.note(PROXY, outcome('completed', [11, 12])),
  },
  {
    name: 'an answer that is too short',
    says: 'I4 answer',
    illegal: (judge) => judge.note(PROXY, outcome('completed', [11])),
    legal: (judge) => judge.note(PROXY, outcome('completed', [])),
    legalSetting: { checksTokens: false },
  },
  {
    name: 'an answer that is too long',
    says: 'I4 answer',
    illegal: (judge) => judge.note(PROXY, outcome('completed', [11, 12, 13])),
    legal: (judge) => judge.note(PROXY, outcome('aborted', [])),
  },
  {
    name: 'a wrong cell under attention',
    says: 'I4 decode rank attention',
    illegal: (judge) => judge.note(D_RANK, misread),
    legal: (judge) => judge.note(D_RANK, { kind: 'firstToken', request: 0 }),
  },
  {
    name: 'a block freed more often than held',
    says: 'I5 decode scheduler block-pool',
    illegal(judge) {
      held(judge);
      judge.note(D.scheduler, free([3]));
      judge.note(D.scheduler, free([3]));
    },
    legal(judge) {
      held(judge);
      judge.note(D.scheduler, share([3], 1));
      judge.note(D.scheduler, free([3]));
      judge.note(D.scheduler, free([3], 1));
    },
  },
  {
    name: 'one end of a transfer reported twice by one rank',
    says: 'I5 decode rank report',
    illegal(judge) {
      judge.sent(D_RANK, D.scheduler, reported('received'));
      judge.sent(D_RANK, D.scheduler, reported('received'));
    },
    legal(judge) {
      judge.sent(D_RANK, D.scheduler, reported('received'));
      judge.sent(P_RANK, P.scheduler, reported('sent'));
      judge.sent(D_RANK, D.scheduler, reported('received', 1));
    },
  },
  {
    name: 'a message about a transfer to an engine that has no part in it',
    says: 'I6 prefill rank routing',
    illegal(judge) {
      judge.note(PROXY, assign(P.engine, D.engine));
      judge.sent(P_RANK, D_OTHER.ranks[0]!, {
        kind: 'peer',
        name: 'seal',
        transfer: 1,
        ok: true,
        tpSize: 1,
        attempt: 0,
      });
    },
    legal(judge) {
      judge.note(PROXY, assign(P.engine, D.engine));
      judge.sent(P_RANK, D_RANK, {
        kind: 'peer',
        name: 'seal',
        transfer: 1,
        ok: true,
        tpSize: 1,
        attempt: 0,
      });
      judge.sent(D_RANK, P_RANK, { kind: 'peer', name: 'sealAck', transfer: 1, attempt: 0 });
    },
  },
  {
    name: 'a message about a transfer from an engine that has no part in it',
    says: 'I6 prefill rank routing',
    illegal(judge) {
      judge.note(PROXY, assign(P.engine, D.engine));
      judge.sent(P_OTHER.ranks[0]!, D_RANK, { kind: 'peer', name: 'sealAck', transfer: 1, attempt: 0 });
    },
    legal(judge) {
      judge.note(PROXY, assign(P_OTHER.engine, D.engine));
      judge.sent(P_OTHER.ranks[0]!, D_RANK, { kind: 'peer', name: 'sealAck', transfer: 1, attempt: 0 });
    },
  },
  {
    name: 'a write to an engine that has no part in the transfer',
    says: 'I6 prefill rank routing',
    illegal(judge) {
      judge.note(PROXY, assign(P.engine, D.engine));
      held(judge);
      judge.note(D_OTHER.scheduler, allocate([3]));
      judge.note(D_OTHER.scheduler, external(0, 4));
      judge.posted(P_RANK, batch({ peer: D_OTHER.ranks[0]! }), true);
    },
    legal(judge) {
      judge.note(PROXY, assign(P.engine, D.engine));
      held(judge);
      judge.posted(P_RANK, batch(), true);
    },
  },
  {
    name: 'a message to a TP rank of the right engine that holds none of the heads',
    says: 'I6 prefill rank routing',
    illegal(judge) {
      judge.note(PROXY, assign(P.engine, D.engine));
      judge.sent(P_PAIR[0]!, D_PAIR[1]!, { kind: 'peer', name: 'sealAck', transfer: 1, attempt: 0 });
    },
    legal(judge) {
      judge.note(PROXY, assign(P.engine, D.engine));
      judge.sent(P_PAIR[0]!, D_PAIR[0]!, { kind: 'peer', name: 'sealAck', transfer: 1, attempt: 0 });
      judge.sent(P_PAIR[1]!, D_PAIR[1]!, { kind: 'peer', name: 'sealAck', transfer: 1, attempt: 0 });
    },
    setting: { topology: PAIRS },
    legalSetting: { topology: PAIRS },
  },
  {
    name: 'a DP rank that is passed over twice',
    says: 'I6 proxy rank-choice prefill',
    illegal(judge) {
      judge.note(PROXY, assign(0, 4, 1));
      judge.note(PROXY, assign(0, 5, 2));
    },
    legal(judge) {
      judge.note(PROXY, assign(0, 4, 1));
      judge.note(PROXY, assign(1, 5, 2));
      judge.note(PROXY, assign(2, 6, 3));
      judge.note(PROXY, assign(1, 5, 4));
    },
  },
  {
    name: 'a thread that died',
    says: 'I7 decode rank thread notify',
    illegal: (judge) => judge.note(D_RANK, { kind: 'died', thread: 'notify', cause: 'x' }),
    legal: (judge) => judge.note(D_RANK, { kind: 'refused', reason: 'x', fields: {} }),
  },
  {
    name: 'a thread that polls without end',
    says: 'I9 decode rank thread notify',
    illegal(judge) {
      for (let spun = 0; spun <= SPINS_MAX; spun++)
        judge.note(D_RANK, { kind: 'spin', thread: 'notify', waitsFor: 'x' });
    },
    legal(judge) {
      for (let spun = 0; spun <= SPINS_MAX; spun++) {
        if (spun === SPINS_MAX) judge.sent(D_RANK, P_RANK, { kind: 'peer', name: 'metaRequest', attempt: 0 });
        judge.note(D_RANK, { kind: 'spin', thread: 'notify', waitsFor: 'x' });
        judge.note(P_RANK, { kind: 'spin', thread: 'notify', waitsFor: 'x' });
        if (spun === SPINS_MAX - 1)
          judge.sent(P_RANK, D_RANK, { kind: 'peer', name: 'metaRequest', attempt: 0 });
      }
    },
  },
  {
    name: 'a load reported before it is there',
    says: 'I10 decode rank load-report',
    illegal: (judge) => judge.note(D_RANK, loaded),
    legal: (judge) => judge.note(D_RANK, loaded),
    setting: { isLoaded: false },
  },
  {
    name: 'a request that failed although nothing went down',
    says: 'I10 proxy outcome',
    illegal: (judge) => judge.note(PROXY, outcome('failed')),
    legal(judge) {
      judge.note(PROXY, outcome('failed', [], 2));
      judge.engineDied(D.engine);
      judge.note(PROXY, outcome('failed'));
    },
  },
  {
    name: 'a load reported as failed although nothing went wrong',
    says: 'I10 decode rank report',
    illegal: (judge) => judge.sent(D_RANK, D.scheduler, reported('failed')),
    legal(judge) {
      judge.sent(D_RANK, D.scheduler, reported('failed', 1));
      judge.disturbed();
      judge.sent(D_RANK, D.scheduler, reported('failed'));
    },
  },
];

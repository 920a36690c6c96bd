import { PROXY } from '../../../src/base/topology.ts';
import {
  allocate,
  assign,
  batch,
  byteOf,
  type Case,
  D,
  D_RANK,
  external,
  free,
  held,
  land,
  P,
  P_RANK,
  read,
  share,
} from './cases.ts';

/** What an operation may touch, and who says what of it (I1, I12). */
export const OPERATION_CASES: readonly Case[] = [
  {
    name: 'a block handed out while an operation can still touch it',
    says: 'I1 decode scheduler block-pool',
    illegal(judge) {
      held(judge);
      judge.note(D.scheduler, allocate([4, 2], 1));
    },
    legal(judge) {
      held(judge);
      judge.note(P.scheduler, allocate([2], 1));
      judge.note(D.scheduler, allocate([4, 1], 1));
    },
    setting: { endangered: [2] },
    legalSetting: { endangered: [2] },
  },
  {
    name: 'a block handed out while another request holds it',
    says: 'I1 decode scheduler block-pool',
    illegal(judge) {
      held(judge);
      judge.note(D.scheduler, allocate([4, 3], 1));
    },
    legal(judge) {
      held(judge);
      judge.note(D.scheduler, free([3]));
      judge.note(D.scheduler, allocate([4, 3], 1));
    },
  },
  {
    name: 'a write posted on a block that nobody holds',
    says: 'I1 decode blocks',
    illegal(judge) {
      judge.note(P.scheduler, allocate([0]));
      judge.posted(P_RANK, batch(), true);
    },
    legal(judge) {
      judge.note(P.scheduler, allocate([0]));
      judge.posted(P_RANK, batch(), false);
      judge.note(D.scheduler, allocate([3]));
      judge.note(D.scheduler, external(0, 4));
      judge.posted(P_RANK, batch(), true);
    },
  },
  {
    name: 'a write that lands on a block of another request',
    says: 'I1 decode blocks',
    illegal(judge) {
      held(judge);
      judge.posted(P_RANK, batch(), true);
      judge.note(D.scheduler, free([3]));
      judge.note(D.scheduler, allocate([3], 1));
      land(judge, P_RANK, batch());
    },
    legal(judge) {
      held(judge);
      judge.posted(P_RANK, batch(), true);
      land(judge, P_RANK, batch());
      judge.note(D.scheduler, free([3]));
      judge.note(D.scheduler, allocate([3], 1));
    },
  },
  {
    name: 'a write from a block that was freed',
    says: 'I1 prefill blocks',
    illegal(judge) {
      held(judge);
      judge.note(P.scheduler, free([0]));
      judge.posted(P_RANK, batch(), true);
    },
    legal(judge) {
      held(judge);
      judge.note(P.scheduler, share([0], 1));
      judge.note(P.scheduler, free([0]));
      judge.posted(P_RANK, batch(), true);
    },
  },
  {
    name: 'a read that lands in a block of another request',
    says: 'I1 decode blocks',
    illegal(judge) {
      judge.note(P.scheduler, allocate([0]));
      judge.note(D.scheduler, allocate([3], 1));
      land(judge, D_RANK, read());
    },
    legal(judge) {
      judge.note(P.scheduler, allocate([0], 1));
      judge.note(P.scheduler, share([0]));
      judge.note(D.scheduler, allocate([3]));
      judge.note(D.scheduler, external(0, 4));
      land(judge, D_RANK, read());
    },
  },
  {
    name: 'a read from a block that P no longer holds',
    says: 'I1 prefill blocks',
    illegal(judge) {
      held(judge);
      judge.note(P.scheduler, free([0]));
      land(judge, D_RANK, read());
    },
    legal(judge) {
      held(judge);
      judge.note(P.scheduler, free([0]));
      judge.engineDied(P.engine);
      land(judge, D_RANK, read());
    },
  },
  {
    name: 'a read from a block of another request',
    says: 'I1 prefill blocks',
    illegal(judge) {
      held(judge);
      judge.note(P.scheduler, allocate([1], 1));
      judge.posted(D_RANK, read({ remoteBlocks: [1], runs: [byteOf(3), byteOf(1), 64] }), true);
    },
    legal(judge) {
      held(judge);
      judge.note(P.scheduler, allocate([1]));
      judge.note(D.scheduler, allocate([2]));
      judge.posted(D_RANK, read(), true);
    },
  },
  {
    name: 'a write one token past what D waits for',
    says: 'I1 decode slots',
    illegal(judge) {
      held(judge);
      judge.note(D.scheduler, external(1, 3));
      judge.posted(P_RANK, batch({ runs: [byteOf(0, 1), byteOf(3, 1), 48] }), true);
    },
    legal(judge) {
      held(judge);
      judge.note(D.scheduler, external(1, 3));
      judge.posted(P_RANK, batch({ runs: [byteOf(0, 1), byteOf(3, 1), 32] }), true);
    },
  },
  {
    name: 'a write one token before what D waits for',
    says: 'I1 decode slots',
    illegal(judge) {
      held(judge);
      judge.note(D.scheduler, external(1, 4));
      land(judge, P_RANK, batch());
    },
    legal(judge) {
      held(judge);
      land(judge, P_RANK, batch());
    },
  },
  {
    name: 'a read one token past the prompt',
    says: 'I1 prefill slots',
    illegal(judge) {
      held(judge);
      judge.note(P.scheduler, allocate([1]));
      judge.posted(D_RANK, read({ remoteBlocks: [1], runs: [byteOf(3), byteOf(1), 16] }), true);
    },
    legal(judge) {
      held(judge);
      judge.note(P.scheduler, allocate([1]));
      judge.posted(D_RANK, read({ runs: [byteOf(3, 3), byteOf(0, 3), 16] }), true);
    },
  },
  {
    name: 'a write into a freed block that it does not name',
    says: 'I1 decode blocks',
    illegal(judge) {
      held(judge);
      judge.note(D.scheduler, free([3]));
      land(judge, P_RANK, batch({ localBlocks: [], remoteBlocks: [] }));
    },
    legal(judge) {
      held(judge);
      land(judge, P_RANK, batch({ localBlocks: [], remoteBlocks: [] }));
    },
  },
  {
    name: 'a write into a block that it does not name',
    says: 'I1 prefill rank post',
    illegal(judge) {
      held(judge);
      judge.posted(P_RANK, batch({ remoteBlocks: [2] }), true);
    },
    legal(judge) {
      held(judge);
      judge.posted(P_RANK, batch({ localBlocks: [0, 1], remoteBlocks: [2, 3] }), true);
    },
  },
  {
    name: 'a batch for a request that its transfer is not of',
    says: 'I12 prefill rank effect post',
    illegal(judge) {
      judge.note(PROXY, assign(P.engine, D.engine));
      judge.posted(P_RANK, batch({ request: 1 }), false);
    },
    legal(judge) {
      judge.note(PROXY, assign(P.engine, D.engine));
      judge.posted(P_RANK, batch(), false);
    },
  },
];

import { PROXY } from '../../../src/base/topology.ts';
import type { EndlessRun, RunEnd } from '../../../src/oracle/invariant.ts';
import type { Judge } from '../../../src/oracle/judge.ts';
import { type Case, D, D_RANK, outcome, P_RANK } from './cases.ts';

/** A run in which all requests have ended and nothing is left, but for what a case changes. */
function end(judge: Judge, change: Partial<RunEnd> = {}): void {
  for (const request of [0, 1, 2]) judge.note(PROXY, outcome('aborted', [], request));
  judge.ended(endOf(change));
}

const endOf = (change: Partial<RunEnd>): RunEnd => ({
  waits: () => [],
  pools: () => [],
  tables: () => undefined,
  queues: () => [],
  ...change,
});

const pool = (free: number): RunEnd['pools'] => {
  const { engine, scheduler } = D;
  return () => [{ engine, scheduler, free, total: 6, requests: free === 6 ? [] : [1] }];
};

const BUSY: EndlessRun = {
  ...{ why: 'steps', steps: 60_000, atMicros: 5, again: null },
  busiest: { actor: D_RANK, event: 'timer', count: 59_000 },
};
const AGAIN = { actor: P_RANK, hook: 'saveKvLayer', guest: 'connector "mine"', since: 4, turns: 300 };

/** What is left when nothing more can happen, and runs that have no end. */
export const END_CASES: readonly Case[] = [
  {
    name: 'a request without an end for which somebody waits',
    says: 'I2 decode rank wait seal',
    illegal: (judge) =>
      judge.ended(
        endOf({
          waits: () => [
            { who: PROXY, what: 'decode-leg', fields: { request: 0 }, whom: D_RANK },
            { who: D_RANK, what: 'seal', fields: { transfer: 7 }, whom: -1 },
          ],
        }),
      ),
    legal: (judge) => end(judge),
  },
  {
    name: 'a request without an end for which nobody waits',
    says: 'I2 nobody',
    illegal: (judge) => judge.ended(endOf({})),
    legal: (judge) => end(judge),
  },
  {
    name: 'a block that is held at the end',
    says: 'I3 decode pool',
    illegal: (judge) => end(judge, { pools: pool(5) }),
    legal: (judge) => end(judge, { pools: pool(6) }),
  },
  {
    name: 'a record that a connector keeps',
    says: 'I3 decode rank tables',
    illegal: (judge) => end(judge, { tables: (tell) => tell(D_RANK, 2) }),
    legal: (judge) => end(judge, { tables: (tell) => tell(D_RANK, 0) }),
  },
  {
    name: 'a send-queue slot that is never given back',
    says: 'I3 send-queue',
    illegal: (judge) => end(judge, { queues: () => [{ actor: P_RANK, slots: 1, batches: 0 }] }),
    legal: (judge) => end(judge, { queues: () => [{ actor: P_RANK, slots: 0, batches: 0 }] }),
  },
  {
    name: 'a batch without an end',
    says: 'I3 batches',
    illegal: (judge) => end(judge, { queues: () => [{ actor: P_RANK, slots: 0, batches: 1 }] }),
    legal: (judge) => end(judge, { queues: () => [] }),
  },
  {
    name: 'a run of too many steps',
    says: 'I9 decode rank event timer',
    illegal: (judge) => judge.endless(BUSY),
    legal: (judge) => end(judge),
  },
  {
    name: 'requests without an end in all the time there is',
    says: 'I9 decode rank event timer',
    illegal: (judge) => judge.endless({ ...BUSY, why: 'time' }),
    legal: (judge) => end(judge),
  },
  {
    name: 'a hook that is never done',
    says: 'I9 prefill rank hook saveKvLayer',
    illegal: (judge) => judge.endless({ ...BUSY, again: AGAIN }),
    legal: (judge) => end(judge),
  },
];

import { StatusCode } from '../../../src/io/codes.ts';
import type { Call } from '../../../src/io/engine/state.ts';
import type { Showing } from './quirk-showings.ts';
import { apart, finishCall, type Pair, type Rig, type Row, start } from './rig.ts';

/** The quirks of what is posted in which order, and of posts that fail; the rest is in quirk-showings.ts. */

export function run(
  rig: Rig,
  { initiator, session }: Pair,
  id: number,
  rows: readonly Row[],
  single = false,
): Call {
  const call = start(initiator, session, { rows, id, single });
  finishCall(rig, call);
  return call;
}

export const ONE: readonly Row[] = [[0, 0, 64]];

export const POST_SHOWINGS = {
  failedPostDegradesAll: {
    see: ({ rig, pair }) => {
      // The fourth of six chains fails, on queue pair 1; the first and the third are on queue pair 0, without a signal.
      const config = { qpPerTransfer: 2, postBatchSize: 1, enableNotification: false };
      const made = pair(config, { quirks: { lastChainSignals: true } });
      let posts = 0;
      rig.hooks.posted = () => {
        posts += 1;
        if (posts === 3) rig.sim.postFailure = { posted: 0, errno: 12 };
      };
      run(rig, made, 0, apart(6));
      return [2, 3].map((id) => {
        const { code, message } = run(rig, made, id, ONE, true).status;
        return [code, message];
      });
    },
    mori: [
      [StatusCode.ERR_RDMA_OP, 'EP is degraded, rejecting new submissions'],
      [StatusCode.SUCCESS, 'success'],
    ],
    sound: [
      [StatusCode.SUCCESS, 'success'],
      [StatusCode.SUCCESS, 'success'],
    ],
  },
  tiesShuffle: {
    see: ({ rig, pair }) => {
      const made = pair();
      const locals: number[] = [];
      rig.hooks.posted = (_, { workRequests }) => {
        locals.push(...workRequests.map(({ sges }) => sges[0].offset));
      };
      // Eighteen requests, all but the last for one place.
      run(rig, made, 1, [...Array.from({ length: 17 }, (_, at) => [at, 1000, 8] as const), [17, 0, 8]]);
      return locals;
    },
    mori: [17, 9, 16, 15, 14, 13, 12, 11, 10, 0, 8, 7, 6, 5, 4, 3, 2, 1],
    sound: [17, ...Array.from({ length: 17 }, (_, at) => at)],
  },
} satisfies Readonly<Record<string, Showing>>;

import { move } from '../../base/moves.ts';
import { ceilDiv } from '../chunks.ts';
import { StatusCode } from '../codes.ts';
import {
  type BatchEntries,
  formWorkRequests,
  type SubmissionLimits,
  TOO_MANY,
  UINT32_MAX,
} from '../submission.ts';
import { CALL_MOVES } from './call-moves.ts';
import type { Call, Endpoint, IOEngine, RdmaSession, Result } from './state.ts';

/** How a batch is shared out to worker threads (mori-io.md A9). */

/** What one thread submits, and over which queue pairs. */
export interface SliceShare {
  readonly endpoints: readonly Endpoint[];
  readonly lkeys: readonly number[];
  readonly rkeys: readonly number[];
  readonly depths: readonly number[];
  readonly entries: BatchEntries;
  readonly limits: SubmissionLimits;
}

/**
 * Slices in input order, before any sorting or merging; slice k goes to the queue pair that stands k behind the
 * transfer's id. Each is submitted by itself over that one queue pair.
 */
export function sliceForWorkers(
  engine: IOEngine,
  session: RdmaSession,
  call: Call,
  whole: SliceShare,
): SliceShare[] | Result {
  const refusal = refusalBeforeSlicing(engine, call, whole);
  if (refusal !== null) return refusal;
  const count = whole.entries.sizes.length;
  const queuePairs = session.endpoints.length;
  const length = ceilDiv(count, Math.min(queuePairs, session.workers));
  return Array.from({ length: ceilDiv(count, length) }, (_, slice) => {
    const at = (slice + (call.transferId % queuePairs)) % queuePairs;
    return shareOf(engine, whole, at, slice * length, (slice + 1) * length);
  });
}

function shareOf(engine: IOEngine, whole: SliceShare, at: number, from: number, to: number): SliceShare {
  const { localOffsets, remoteOffsets, sizes } = whole.entries;
  const keys = engine.quirks.workersUseFirstKeys ? 0 : at;
  const endpoint = whole.endpoints[at];
  return {
    endpoints: [endpoint],
    lkeys: [whole.lkeys[keys]],
    rkeys: [whole.rkeys[keys]],
    depths: [whole.depths[at]],
    entries: {
      localOffsets: localOffsets.slice(from, to),
      remoteOffsets: remoteOffsets.slice(from, to),
      sizes: sizes.slice(from, to),
    },
    limits: {
      ...whole.limits,
      endpoints: 1,
      maxSge: endpoint.sizes.sge,
      maxMessageBytes: endpoint.maxMessageBytes,
      sizelessEndpoint: 0,
      merge: whole.limits.chunking === null,
    },
  };
}

/** With chunking upstream counts the pieces of the whole batch first, so what cannot be counted stops it all. */
function refusalOfCount({ entries, limits }: SliceShare): Result | null {
  if (limits.chunking === null) return null;
  const code = StatusCode.ERR_INVALID_ARGS;
  if (entries.sizes.some((size) => size > UINT32_MAX))
    return { code, message: 'single request size exceeds UINT32_MAX; split it before submitting' };
  return limits.maxMessageBytes === 0 ? { code, message: TOO_MANY } : null;
}

/** Upstream reads past the shorter lists, and checks next to nothing before the slices (0.4, 0.12). */
function refusalBeforeSlicing(engine: IOEngine, call: Call, whole: SliceShare): Result | null {
  const refusal = refusalOfCount(whole);
  if (refusal !== null) return refusal;
  const { localOffsets, remoteOffsets, sizes } = whole.entries;
  const sameLength = localOffsets.length === sizes.length && remoteOffsets.length === sizes.length;
  if (!sameLength && engine.quirks.assertsAbort) {
    engine.ended = 'a batch with lists of different lengths was given to worker threads';
    engine.host.processEnds('undefined behaviour', engine.ended);
    move(CALL_MOVES, call, 'Returned');
    return { code: StatusCode.ERR_INVALID_ARGS, message: engine.ended };
  }
  if (sameLength && engine.quirks.sliceValidation) return null;
  const formed = formWorkRequests(whole.entries, whole.limits);
  return formed.ok ? null : { code: formed.code, message: formed.message };
}

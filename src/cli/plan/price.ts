import { RDMA_DEFAULTS } from '../../io/rdma-config.ts';
import { type BatchEntries, formWorkRequests, type SubmissionLimits } from '../../io/submission.ts';

/** From runs to what the engine posts. */

/** Of a queue pair at MoRI-IO's defaults; 1 GiB is the usual largest message of a port. */
const SGE_MAX = 4;
const MESSAGE_BYTES_MAX = 2 ** 30;

/** A request holds its size in 32 bits. */
const REQUEST_BYTES_MAX = 2 ** 31;

/** Runs that are shown to the engine at a time. */
const SLICE = 65_536;

/**
 * How many work requests the engine makes of one batch of runs (P offset, D offset, bytes), or why it refuses it.
 * Source: mori-io.md A7.
 */
export function countWorkRequests(
  runs: ArrayLike<number>,
  mode: 'read' | 'write',
  chunking: boolean,
): number | string {
  const limits = limitsOf(chunking);
  const [local, remote] = mode === 'write' ? [0, 1] : [1, 0];
  const order = orderBy(runs, remote);
  let count = 0;
  for (let from = 0; from < order.length; ) {
    const to = sliceEnd(runs, order, from, remote);
    const formed = formWorkRequests(requestsOf(runs, order.subarray(from, to), local, remote), limits);
    if (!formed.ok) return `the engine: ${formed.message}`;
    count += formed.workRequests.length;
    from = to;
  }
  return count;
}

/** One request for each run; a run that is too long for one is several, which the engine joins again as far as it can. */
function requestsOf(runs: ArrayLike<number>, rows: Uint32Array, local: number, remote: number): BatchEntries {
  const [localOffsets, remoteOffsets, sizes]: [number[], number[], number[]] = [[], [], []];
  for (const row of rows) {
    const bytes = runs[row + 2]!;
    for (let done = 0; done < bytes; done += REQUEST_BYTES_MAX) {
      localOffsets.push(runs[row + local]! + done);
      remoteOffsets.push(runs[row + remote]! + done);
      sizes.push(Math.min(REQUEST_BYTES_MAX, bytes - done));
    }
  }
  return { localOffsets, remoteOffsets, sizes };
}

function limitsOf(chunking: boolean): SubmissionLimits {
  const { chunkBytes, maxChunksPerTransfer, qpPerTransfer } = RDMA_DEFAULTS;
  return {
    localBytes: Number.MAX_SAFE_INTEGER,
    remoteBytes: Number.MAX_SAFE_INTEGER,
    endpoints: qpPerTransfer,
    maxSge: SGE_MAX,
    maxMessageBytes: MESSAGE_BYTES_MAX,
    chunking: chunking ? { chunkBytes, maxChunks: maxChunksPerTransfer } : null,
    merge: true,
    rangeWraps: false,
  };
}

/** Where each run begins in the list, in the order of one column. */
function orderBy(runs: ArrayLike<number>, column: number): Uint32Array {
  const order = Uint32Array.from({ length: runs.length / 3 }, (_, row) => 3 * row);
  const isSorted = order.every((row, place) => place === 0 || runs[row - 3 + column]! <= runs[row + column]!);
  return isSorted ? order : order.sort((a, b) => runs[a + column]! - runs[b + column]! || a - b);
}

/** The first gap on the remote side behind a slice: nothing is merged over a gap, so slices add up. */
function sliceEnd(runs: ArrayLike<number>, order: Uint32Array, from: number, remote: number): number {
  let to = Math.min(order.length, from + SLICE);
  while (to < order.length) {
    const last = order[to - 1]!;
    if (runs[last + remote]! + runs[last + 2]! !== runs[order[to]! + remote]) break;
    to++;
  }
  return to;
}

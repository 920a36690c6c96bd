import { filled, least } from '../base/lists.ts';
import { type ChunkRules, ceilDiv, chunkGeometry, cut } from './chunks.ts';
import { StatusCode } from './codes.ts';
import { introsort } from './introsort.ts';

/**
 * From a batch of requests to work requests and chains (mori-io.md A7). Offsets are relative to the registered regions.
 * An offset below zero stands for its 64-bit two's complement, so that -1 is 2^64 - 1, as upstream's size_t holds it.
 */

/** A batch as upstream takes it: three lists side by side. */
export interface BatchEntries {
  readonly localOffsets: readonly number[];
  readonly remoteOffsets: readonly number[];
  readonly sizes: readonly number[];
}

export interface SubmissionLimits {
  /** Registered bytes of each side. */
  readonly localBytes: number;
  readonly remoteBytes: number;
  /** Queue pairs of the session. */
  readonly endpoints: number;
  /** Scatter-gather entries of one work request, by the first endpoint. */
  readonly maxSge: number;
  /** The smallest max_msg_sz of all endpoints. */
  readonly maxMessageBytes: number;
  /** The endpoint that reports none, if one does; the first where nothing is said. */
  readonly sizelessEndpoint?: number;
  /** Null without chunking. */
  readonly chunking: ChunkRules | null;
  /** Worker slices with chunking do not merge, nor sort (A9). */
  readonly merge: boolean;
  /** Upstream adds offset and size in 64 bits, so a range may wrap past the check (0.14). */
  readonly rangeWraps: boolean;
  /** More than 16 requests that tie are posted as upstream's unstable sort leaves them; they keep their order otherwise. */
  readonly tiesShuffle?: boolean;
}

/** One entry of a scatter-gather list: a stretch of local memory. */
export interface Sge {
  readonly offset: number;
  readonly bytes: number;
}

export interface WorkRequest {
  readonly remoteOffset: number;
  /** Sum over the entries. */
  readonly bytes: number;
  readonly sges: readonly Sge[];
  /** What its completion adds to the finished count: the requests merged into it, or 1 with chunking. */
  readonly credits: number;
}

export interface Refusal {
  readonly ok: false;
  readonly code: StatusCode;
  readonly message: string;
}

export type Formed =
  | { readonly ok: true; readonly workRequests: readonly WorkRequest[]; readonly total: number }
  | Refusal;

export const UINT32_MAX = 2 ** 32 - 1;
const INT32_MAX = 2 ** 31 - 1;
export const TOO_MANY = 'final WR count exceeds int range';
const NOTHING: Formed = { ok: true, workRequests: [], total: 0 };

/** Checks 1 to 9, order, merge and chunks. An empty batch is fine and forms nothing. */
export function formWorkRequests(entries: BatchEntries, limits: SubmissionLimits): Formed {
  const count = entries.sizes.length;
  if (entries.localOffsets.length !== count || entries.remoteOffsets.length !== count) {
    return invalid('lengths of local offsets, remote offsets or sizes mismatch');
  }
  if (count === 0) return NOTHING;
  const refusal = refusalBefore(entries, limits);
  if (refusal !== null) return refusal;
  const merged = merge(entries, limits);
  return limits.chunking === null
    ? refuseOversized(merged, count, limits.maxMessageBytes)
    : chunk(merged, limits.chunking, limits);
}

/** Checks 3 to 7, or null. */
function refusalBefore(entries: BatchEntries, limits: SubmissionLimits): Refusal | null {
  if (limits.endpoints === 0) return invalid('no endpoints');
  if (limits.chunking !== null && limits.chunking.maxChunks <= 0) return invalid('maxChunks must be >= 1');
  const { localOffsets, remoteOffsets, sizes } = entries;
  for (let index = 0; index < sizes.length; index += 1) {
    const size = sizes[index];
    if (size > UINT32_MAX) {
      return invalid(`single request size ${size} exceeds UINT32_MAX; split it before submitting`);
    }
    const inside =
      isInside(localOffsets[index], size, limits.localBytes, limits.rangeWraps) &&
      isInside(remoteOffsets[index], size, limits.remoteBytes, limits.rangeWraps);
    if (!inside) return invalid('length out of range');
  }
  if (limits.maxMessageBytes > 0) return null;
  const message = `RDMA endpoint local max_msg_sz is unavailable for ep ${limits.sizelessEndpoint ?? 0}`;
  return { ok: false, code: StatusCode.ERR_BAD_STATE, message };
}

/** Check 6. A sum that stays below zero is a huge unsigned number; one that crosses zero has wrapped. */
export function isInside(offset: number, size: number, registeredBytes: number, wraps: boolean): boolean {
  const end = offset + size;
  return (wraps ? end >= 0 : offset >= 0) && end <= registeredBytes;
}

/** A work request that may still grow. */
interface Growing {
  remoteOffset: number;
  bytes: number;
  sges: { offset: number; bytes: number }[];
  credits: number;
}

/** Walks the requests in order of the remote offset and joins what continues on the remote side. */
function merge(entries: BatchEntries, limits: SubmissionLimits): Growing[] {
  const { localOffsets, remoteOffsets, sizes } = entries;
  const maxSge = Math.max(limits.maxSge, 1);
  // Without merging upstream keeps the order of the caller.
  const order = limits.merge ? orderByRemote(remoteOffsets, limits.tiesShuffle === true) : null;
  const formed: Growing[] = [];
  let last: Growing | undefined;
  for (let place = 0; place < sizes.length; place += 1) {
    const index = order === null ? place : order[place];
    const offset = localOffsets[index];
    const bytes = sizes[index];
    const remoteOffset = remoteOffsets[index];
    if (limits.merge && last !== undefined && joins(last, offset, remoteOffset, bytes, maxSge)) continue;
    last = { remoteOffset, bytes, sges: [{ offset, bytes }], credits: 1 };
    formed.push(last);
  }
  return formed;
}

/** Adds a request to a work request if it may; says whether it did. */
function joins(last: Growing, offset: number, remoteOffset: number, bytes: number, maxSge: number): boolean {
  if (remoteOffset !== last.remoteOffset + last.bytes) return false;
  const tail = last.sges[last.sges.length - 1];
  if (offset === tail.offset + tail.bytes && tail.bytes + bytes <= UINT32_MAX) tail.bytes += bytes;
  else if (last.sges.length < maxSge) last.sges.push({ offset, bytes });
  else return false;
  last.bytes += bytes;
  last.credits += 1;
  return true;
}

/**
 * Null when the list is in order. Otherwise indices; ties in input order, or as upstream's unstable sort leaves them, which
 * differs above 16 entries.
 */
export function orderByRemote(remoteOffsets: readonly number[], tiesShuffle: boolean): number[] | null {
  let sorted = true;
  for (let index = 1; index < remoteOffsets.length && sorted; index += 1) {
    sorted = unsignedOrder(remoteOffsets[index - 1], remoteOffsets[index]) <= 0;
  }
  if (sorted) return null;
  const compare = (left: number, right: number): number =>
    unsignedOrder(remoteOffsets[left], remoteOffsets[right]);
  if (tiesShuffle) return introsort(remoteOffsets.length, (left, right) => compare(left, right) < 0);
  return remoteOffsets.map((_, index) => index).sort(compare);
}

/** An offset below zero is a huge one. */
function unsignedOrder(left: number, right: number): number {
  if (left < 0 !== right < 0) return left < 0 ? 1 : -1;
  return left - right;
}

/** Check 8. */
function refuseOversized(formed: readonly WorkRequest[], total: number, maxMessageBytes: number): Formed {
  const at = formed.findIndex((request) => request.bytes > maxMessageBytes);
  if (at < 0) return { ok: true, workRequests: formed, total };
  return invalid(
    `merged RDMA WR ${at} length ${formed[at].bytes} exceeds local max_msg_sz ${maxMessageBytes}; ` +
      'enable RDMA transfer chunking or reduce batch size',
  );
}

/** Cuts what needs it and keeps the rest as it is; each final work request counts as one. Check 9. */
function chunk(formed: readonly Growing[], rules: ChunkRules, limits: SubmissionLimits): Formed {
  const { maxMessageBytes } = limits;
  const needs = formed.map(
    ({ bytes, sges }) => bytes > maxMessageBytes || sges.some((sge) => sge.bytes > rules.chunkBytes),
  );
  const atMost = formed.reduce((sum, { bytes, sges }, index) => {
    return sum + (needs[index] ? chunkGeometry(bytes, rules, maxMessageBytes).wanted + sges.length : 1);
  }, 0);
  if (atMost > INT32_MAX) return invalid(TOO_MANY);
  const workRequests = formed.flatMap((request, index) =>
    needs[index] ? cutRequest(request, rules, maxMessageBytes) : [{ ...request, credits: 1 }],
  );
  return { ok: true, workRequests, total: workRequests.length };
}

function cutRequest(request: WorkRequest, rules: ChunkRules, maxMessageBytes: number): WorkRequest[] {
  let { remoteOffset } = request;
  return cut(request.sges, rules, maxMessageBytes).map((sge) => {
    const piece = { remoteOffset, bytes: sge.bytes, sges: [sge], credits: 1 };
    remoteOffset += sge.bytes;
    return piece;
  });
}

function invalid(message: string): Refusal {
  return { ok: false, code: StatusCode.ERR_INVALID_ARGS, message };
}

export interface ChainLimits {
  readonly endpoints: number;
  /** -1 spreads the work requests evenly; 0 and below act as 1. */
  readonly postBatchSize: number;
  /** The send queue depth of each endpoint. */
  readonly depths: readonly number[];
  /** Upstream signals an endpoint's last chain and what fills its queue (0.10); otherwise every chain is signaled. */
  readonly signalsLastOnly: boolean;
}

/** One ibv_post_send: the work requests [first, end) for one endpoint. */
export interface Chain {
  readonly endpoint: number;
  readonly first: number;
  readonly end: number;
  /** Whether its last work request asks for a completion. */
  readonly signaled: boolean;
}

/** Work requests of one chain (A7). */
export function chainLength(workRequests: number, limits: ChainLimits): number {
  const { postBatchSize, endpoints } = limits;
  const wanted = postBatchSize === -1 ? ceilDiv(workRequests, endpoints) : postBatchSize;
  return Math.max(least(limits.depths, wanted), 1);
}

/** Deals chains to endpoints in turn, starting at the transfer's id, and places the signals. */
export function planChains(workRequests: number, transferId: number, limits: ChainLimits): Chain[] {
  const { endpoints, depths, signalsLastOnly } = limits;
  const length = chainLength(workRequests, limits);
  const chainCount = ceilDiv(workRequests, length);
  const unsignaled = filled(endpoints, 0);
  const chains: Chain[] = [];
  for (let index = 0; index < chainCount; index += 1) {
    const endpoint = (index + (transferId % endpoints)) % endpoints;
    const first = index * length;
    const end = Math.min(first + length, workRequests);
    unsignaled[endpoint] += end - first;
    const isLast = index + endpoints >= chainCount;
    const signaled = !signalsLastOnly || isLast || unsignaled[endpoint] >= depths[endpoint];
    if (signaled) unsignaled[endpoint] = 0;
    chains.push({ endpoint, first, end, signaled });
  }
  return chains;
}

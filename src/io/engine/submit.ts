import { StatusCode } from '../codes.ts';
import { endWait, insertRecord, reserveCredit, wait } from './credit.ts';
import { startRepair } from './repair.ts';
import type { Endpoint, IOEngine, RdmaBackend, Slice, Transfer } from './state.ts';
import {
  batchExceedsCapacity,
  batchQueueFull,
  type CreditFigures,
  DEGRADED,
  postFailed,
  type SubmissionFigures,
} from './texts.ts';

const NONE: readonly Transfer[] = [];

/**
 * Posting the chains of a slice (mori-io.md A7, A8, checks 10 and 11). Earlier chains stay posted when a later one fails.
 */

/** Posts as far as credit goes; true when the slice has its result. */
export function advanceSlice(engine: IOEngine, backend: RdmaBackend, slice: Slice): boolean {
  while (slice.result === null && slice.next < slice.chains.length) {
    const { endpoint: index, first, end } = slice.chains[slice.next];
    const endpoint = slice.endpoints[index];
    const reservation = reserveCredit(endpoint, end - first);
    if (reservation === 'no-room') {
      wait(engine, backend, endpoint, slice.call, slice);
      return false;
    }
    endWait(engine, backend, slice);
    if (reservation === 'degraded') failSlice(engine, backend, slice, DEGRADED);
    else if (reservation === 'exceeds')
      failSlice(
        engine,
        backend,
        slice,
        batchExceedsCapacity(creditFigures(backend, slice), figuresOf(slice)),
      );
    else postChain(engine, backend, slice);
  }
  slice.result ??= { code: StatusCode.IN_PROGRESS, message: '' };
  return true;
}

/** The time to wait for credit is up (A8). */
export function expireSlice(engine: IOEngine, backend: RdmaBackend, slice: Slice): void {
  const text = batchQueueFull(creditFigures(backend, slice), figuresOf(slice));
  endWait(engine, backend, slice);
  failSlice(engine, backend, slice, text);
}

function figuresOf({ batchSize, endpoints }: Slice): SubmissionFigures {
  return { batchSize, queuePairs: endpoints.length };
}

function creditFigures(backend: RdmaBackend, slice: Slice): CreditFigures {
  const chain = slice.chains[slice.next];
  const { depth, sizes } = slice.endpoints[chain.endpoint];
  return {
    endpoint: chain.endpoint,
    depth,
    requested: chain.end - chain.first,
    max: sizes.sendWr,
    backoffMicros: backend.backoffMicros,
  };
}

function postChain(engine: IOEngine, backend: RdmaBackend, slice: Slice): void {
  const { endpoint: index, first, end, signaled } = slice.chains[slice.next];
  const endpoint = slice.endpoints[index];
  const { openPosted, openCredits, workRequests } = slice;
  openPosted[index] += end - first;
  for (let at = first; at < end; at += 1) openCredits[index] += workRequests[at].credits;
  const tailId = signaled
    ? insertRecord(endpoint.ledger, {
        posted: openPosted[index],
        credits: openCredits[index],
        transfer: slice.transfer,
        orphaned: NONE,
      })
    : 0;
  if (signaled) slice.transfer.moving += 1;
  const { posted, errno } = engine.host.postSend(endpoint.local.qpn, {
    operation: slice.call.operation,
    transferId: slice.call.transferId,
    lkey: slice.lkeys[index],
    rkey: slice.rkeys[index],
    workRequests,
    first,
    end,
    signaled,
    tailId,
    innerId: engine.quirks.innerFailureHides ? 0 : tailId,
  });
  if (errno !== 0) {
    undoUnposted(engine, slice, index, tailId, posted);
    reportPostFailure(engine, backend, slice, posted, errno);
    return;
  }
  if (signaled) openPosted[index] = openCredits[index] = 0;
  slice.next += 1;
}

/**
 * What was not posted gives its credit back at once; what was has no signaled tail and becomes an orphan. Upstream does
 * the same with the earlier unsignaled chains of all other queue pairs, but not with those of this one unless something
 * of the failed chain was posted.
 */
function undoUnposted(engine: IOEngine, slice: Slice, index: number, tailId: number, posted: number): void {
  const { degradedSticks, failedPostDegradesAll } = engine.quirks;
  const { first, end, signaled } = slice.chains[slice.next];
  const endpoint = slice.endpoints[index];
  const unposted = end - first - posted;
  if (signaled && endpoint.ledger.records.delete(tailId)) slice.transfer.moving -= 1;
  endpoint.depth -= unposted;
  slice.openPosted[index] -= unposted;
  if (posted > 0) orphan(slice, index, degradedSticks);
  if (!failedPostDegradesAll) return;
  for (let other = 0; other < slice.endpoints.length; other += 1)
    if (other !== index) orphan(slice, other, true);
}

/** Unsignaled work requests of a slice on one endpoint become a record of their own, which takes an id as any other. */
function orphan(slice: Slice, index: number, degrades: boolean): void {
  const endpoint = slice.endpoints[index];
  const { ledger } = endpoint;
  if (slice.openPosted[index] === 0) return;
  ledger.nextId += 1;
  ledger.orphans += slice.openPosted[index];
  ledger.orphaned.push(slice.transfer);
  slice.transfer.moving += 1;
  slice.openPosted[index] = 0;
  if (degrades) endpoint.degraded = true;
}

function reportPostFailure(
  engine: IOEngine,
  backend: RdmaBackend,
  slice: Slice,
  posted: number,
  errno: number,
): void {
  const { endpoint, first, end } = slice.chains[slice.next];
  const sges = slice.workRequests[Math.min(first + posted, end - 1)].sges.length;
  const maxSge = slice.endpoints[endpoint].sizes.sge;
  const failed = { errno, posted, wanted: end - first, sges, maxSge };
  failSlice(engine, backend, slice, postFailed(failed, figuresOf(slice)));
}

/** Ends a slice with ERR_RDMA_OP. Upstream forgets the unsignaled chains before; we may keep them as orphans. */
function failSlice(engine: IOEngine, backend: RdmaBackend, slice: Slice, message: string): void {
  slice.result = { code: StatusCode.ERR_RDMA_OP, message };
  if (engine.quirks.creditLeaks) return;
  for (let index = 0; index < slice.endpoints.length; index += 1) orphan(slice, index, false);
  slice.endpoints.forEach((endpoint, index) => {
    drainOrphans(engine, endpoint, slice.lkeys[index], slice.rkeys[index]);
    // Nothing else would ever tell that they have ended.
    const isUndrained = endpoint.ledger.orphans > 0 && endpoint.health === 'up' && !endpoint.degraded;
    if (isUndrained && !engine.quirks.brokenForGood) startRepair(engine, backend, endpoint);
  });
}

/**
 * Posts one signaled work request of no bytes that stands for all orphans before it, so that their slots come back when
 * it completes (sound). Its own slot is free, because what caused the orphans was not posted in full.
 */
export function drainOrphans(engine: IOEngine, endpoint: Endpoint, lkey: number, rkey: number): void {
  const { ledger } = endpoint;
  if (ledger.orphans === 0 || endpoint.degraded || reserveCredit(endpoint, 1) !== 'reserved') return;
  const { orphaned } = ledger;
  const tailId = insertRecord(ledger, { posted: ledger.orphans + 1, credits: 0, transfer: null, orphaned });
  const outcome = engine.host.postSend(endpoint.local.qpn, {
    operation: 'write',
    transferId: -1,
    lkey,
    rkey,
    workRequests: [{ remoteOffset: 0, bytes: 0, sges: [{ offset: 0, bytes: 0 }], credits: 0 }],
    first: 0,
    end: 1,
    signaled: true,
    tailId,
    innerId: tailId,
  });
  if (outcome.errno === 0) {
    ledger.orphans = 0;
    ledger.orphaned = [];
    return;
  }
  ledger.records.delete(tailId);
  endpoint.depth -= 1;
}

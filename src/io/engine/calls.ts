import { filled } from '../../base/lists.ts';
import { move } from '../../base/moves.ts';
import { failed, StatusCode } from '../codes.ts';
import { type BatchEntries, type Chain, chainLength, formWorkRequests, planChains } from '../submission.ts';
import { setStatusCode, type TransferStatus, updateStatus } from '../transfer-status.ts';
import { CALL_MOVES } from './call-moves.ts';
import { endWait, isAdmitted, takeWaiters } from './credit.ts';
import { failCall, tellFailure } from './ending.ts';
import { advanceNotification, expireNotification } from './notify.ts';
import { connectAnew } from './repair.ts';
import type {
  Call,
  Endpoint,
  IOEngine,
  RdmaBackend,
  RdmaSession,
  Result,
  Slice,
  Transfer,
  Waiter,
} from './state.ts';
import { advanceSlice, drainOrphans, expireSlice } from './submit.ts';
import { type SliceShare, sliceForWorkers } from './workers.ts';

/** The life of a call: slices are posted, then the target is notified, then upstream's caller is let go (A7, A9, A10). */

export function createCall(operation: 'read' | 'write', transferId: number, status: TransferStatus): Call {
  return {
    operation,
    transferId,
    status,
    session: null,
    phase: 'creating',
    slices: [],
    reserved: [],
    waiter: null,
    owesNotification: false,
    threw: null,
    dataDone: false,
  };
}

/** A session call. `single` is Read or Write of one range: it never uses workers and posts chains of one (A7). */
export function startCall(
  engine: IOEngine,
  backend: RdmaBackend,
  session: RdmaSession,
  call: Call,
  entries: BatchEntries,
  single: boolean,
): void {
  setStatusCode(call.status, StatusCode.IN_PROGRESS);
  for (let index = 0; index < session.endpoints.length; index += 1) {
    connectAnew(engine, backend, session.endpoints[index]);
    drainOrphans(engine, session.endpoints[index], session.lkeys[index], session.rkeys[index]);
  }
  call.session = session;
  move(CALL_MOVES, call, 'SessionReady');
  const transfer: Transfer = {
    call,
    status: call.status,
    total: 0,
    finished: 0,
    moving: 0,
    failure: null,
  };
  const shares = refusalOf(engine, backend, session) ?? sharesOf(engine, session, call, entries, single);
  if (engine.ended !== null) return;
  if ('code' in shares) {
    conclude(engine, backend, call, shares);
    return;
  }
  call.slices = shares.map((share) => makeSlice(engine, backend, call, transfer, share, single));
  for (const slice of call.slices) advanceSlice(engine, backend, slice);
  settle(engine, backend, call);
}

function refusalOf(engine: IOEngine, backend: RdmaBackend, session: RdmaSession): Result | null {
  if (engine.quirks.deadKeysStay || !backend.dead.has(session.local.id)) return null;
  return { code: StatusCode.ERR_BAD_STATE, message: 'the local memory of this session was deregistered' };
}

/** The whole call as one share, or one for each worker; or what refuses it before any is made. */
function sharesOf(
  engine: IOEngine,
  session: RdmaSession,
  call: Call,
  entries: BatchEntries,
  single: boolean,
): SliceShare[] | Result {
  const { lkeys, rkeys, limits, depths } = session;
  const whole: SliceShare = { endpoints: session.endpoints, lkeys, rkeys, depths, entries, limits };
  if (single || session.workers === 0 || entries.sizes.length === 0) return [whole];
  return sliceForWorkers(engine, session, call, whole);
}

function makeSlice(
  engine: IOEngine,
  backend: RdmaBackend,
  call: Call,
  transfer: Transfer,
  share: SliceShare,
  single: boolean,
): Slice {
  const { endpoints, lkeys, rkeys, depths } = share;
  const formed = formWorkRequests(share.entries, share.limits);
  const workRequests = formed.ok ? formed.workRequests : [];
  const limits = {
    endpoints: endpoints.length,
    postBatchSize: single ? 1 : backend.config.postBatchSize,
    depths,
    signalsLastOnly: engine.quirks.lastChainSignals,
  };
  const posts = workRequests.length > 0;
  if (formed.ok) transfer.total += formed.total;
  else transfer.total += share.entries.sizes.length;
  return {
    call,
    transfer,
    endpoints,
    lkeys,
    rkeys,
    workRequests,
    chains: posts ? planChains(workRequests.length, call.transferId, limits) : [],
    batchSize: posts ? chainLength(workRequests.length, limits) : 0,
    openPosted: filled(endpoints.length, 0),
    openCredits: filled(endpoints.length, 0),
    next: 0,
    waiter: null,
    result: posts ? null : resultOf(formed),
  };
}

function resultOf(formed: ReturnType<typeof formWorkRequests>): Result {
  return formed.ok
    ? { code: StatusCode.SUCCESS, message: '' }
    : { code: formed.code, message: formed.message };
}

/** When every slice has its result: the last failure counts, else success of nothing, else it is under way (A9). */
function settle(engine: IOEngine, backend: RdmaBackend, call: Call): void {
  if (call.phase !== 'posting' || call.slices.some(({ result }) => result === null)) return;
  const results = call.slices.map(({ result }) => result!);
  for (const { result, endpoints } of call.slices)
    if (failed(result!.code)) wakeAll(engine, backend, endpoints);
  const under = results.find(({ code }) => code === StatusCode.IN_PROGRESS);
  conclude(engine, backend, call, results.findLast(({ code }) => failed(code)) ?? under ?? results[0]);
}

/** Upstream's end of a session call: a failure or success is stored; what has not failed notifies the target. */
function conclude(engine: IOEngine, backend: RdmaBackend, call: Call, result: Result): void {
  move(CALL_MOVES, call, 'Returned');
  if (failed(result.code)) {
    if (call.slices.length > 0) backend.transfers.add(call.slices[0].transfer);
    failCall(engine, backend, call, result);
    return;
  }
  const isEmpty = result.code === StatusCode.SUCCESS;
  if (isEmpty) updateStatus(call.status, result.code, result.message);
  else if (!goesOn(engine, backend, call.slices[0].transfer)) return;
  const notifies = !isEmpty || engine.quirks.emptyBatchNotifies;
  if (!notifies || !backend.config.enableNotification) return;
  if (call.operation === 'read' && !isEmpty && !engine.quirks.readNotifiesEarly) {
    call.owesNotification = true;
    return;
  }
  notify(engine, backend, call);
}

/** All is posted. False when a part has failed meanwhile: the sound engine notifies nobody then. */
function goesOn(engine: IOEngine, backend: RdmaBackend, transfer: Transfer): boolean {
  if (transfer.status !== null) backend.transfers.add(transfer);
  tellFailure(engine, backend, transfer);
  return transfer.failure === null || engine.quirks.endsWhileMoving;
}

/** The notification of a READ, once its data is here. Queue pairs that are down by now are asked for as a call would. */
export function notifyLate(engine: IOEngine, backend: RdmaBackend, call: Call): void {
  for (const endpoint of call.session!.endpoints) connectAnew(engine, backend, endpoint);
  notify(engine, backend, call);
}

/** Sends the notification as far as credit goes. One that fails gives slots back, which others may wait for. */
export function notify(engine: IOEngine, backend: RdmaBackend, call: Call): void {
  move(CALL_MOVES, call, 'Notifies');
  if (!advanceNotification(engine, backend, call)) wakeAll(engine, backend, call.session!.endpoints);
}

function wakeAll(engine: IOEngine, backend: RdmaBackend, endpoints: readonly Endpoint[]): void {
  for (const endpoint of endpoints) wake(engine, backend, endpoint);
}

/** Credit came back to an endpoint, or it became degraded: everybody who waits looks again, in order. */
export function wake(engine: IOEngine, backend: RdmaBackend, endpoint: Endpoint): void {
  if (endpoint.waiters.length === 0) return;
  for (const waiter of takeWaiters(endpoint)) goOn(engine, backend, waiter);
}

function goOn(engine: IOEngine, backend: RdmaBackend, { slice, call }: Waiter): void {
  if (slice === null) notify(engine, backend, call);
  else if (advanceSlice(engine, backend, slice)) settle(engine, backend, call);
}

/** The time of a waiter is up. It looks once more before it gives up, so it needs nobody to wake it. */
export function expire(engine: IOEngine, backend: RdmaBackend, waiter: Waiter): void {
  const { slice, call, endpoint } = waiter;
  if (isAdmitted(endpoint, slice === null ? 1 : lengthOf(slice.chains[slice.next]))) {
    endWait(engine, backend, slice ?? call);
    goOn(engine, backend, waiter);
    return;
  }
  if (slice === null) {
    expireNotification(engine, backend, call);
    wakeAll(engine, backend, call.session!.endpoints);
    return;
  }
  expireSlice(engine, backend, slice);
  settle(engine, backend, call);
}

function lengthOf({ first, end }: Chain): number {
  return end - first;
}

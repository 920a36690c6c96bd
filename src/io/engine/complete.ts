import { StatusCode } from '../codes.ts';
import { updateStatus } from '../transfer-status.ts';
import { notifyLate, wake } from './calls.ts';
import { recover, takeRecord } from './credit.ts';
import { endOrphans, failRecord, tellFailure } from './ending.ts';
import type { WorkCompletion } from './host.ts';
import { countInbound } from './notify.ts';
import { startRepair } from './repair.ts';
import { remoteOf } from './sessions.ts';
import type { Endpoint, IOEngine, RdmaBackend, Transfer } from './state.ts';
import { sendStatusText, workStatusText } from './texts.ts';
import { isNotification } from './wr-id.ts';

/** What the completion thread does with one entry (mori-io.md A11, the whole table). */
export function completeWork(engine: IOEngine, backend: RdmaBackend, completion: WorkCompletion): void {
  const endpoint = backend.byQpn.get(completion.qpn);
  if (endpoint === undefined) {
    engine.host.log('warn', `completion of an unknown queue pair ${completion.qpn}`);
    return;
  }
  if (completion.status !== 'SUCCESS') completeFailed(engine, backend, endpoint, completion);
  else if (completion.opcode === 'recv') receive(engine, backend, endpoint, completion);
  else if (completion.opcode === 'send') endpoint.depth -= 1;
  else completeData(engine, backend, endpoint, completion);
  wake(engine, backend, endpoint);
}

function receive(
  engine: IOEngine,
  backend: RdmaBackend,
  endpoint: Endpoint,
  completion: WorkCompletion,
): void {
  const { message } = completion;
  engine.host.postReceives(endpoint.local.qpn, 1);
  if (!backend.config.enableNotification || message === undefined) {
    engine.host.log('warn', 'a notification came in, but notification is off');
    return;
  }
  countInbound(remoteOf(backend, endpoint.remoteKey), message);
}

function completeData(
  engine: IOEngine,
  backend: RdmaBackend,
  endpoint: Endpoint,
  completion: WorkCompletion,
): void {
  const record = takeRecord(endpoint, completion.wrId);
  if (record === undefined) {
    engine.host.log('warn', `no record of work request ${completion.wrId}`);
    return;
  }
  endOrphans(engine, backend, record.orphaned);
  const { transfer } = record;
  if (transfer === null) return;
  transfer.finished += record.credits;
  transfer.moving -= 1;
  tellFailure(engine, backend, transfer);
  if (transfer.finished === transfer.total) finish(engine, backend, transfer);
}

/** All data of a transfer has arrived. The sound engine tells success only once the target was notified. */
function finish(engine: IOEngine, backend: RdmaBackend, transfer: Transfer): void {
  backend.transfers.delete(transfer);
  const { call, status } = transfer;
  if (status === null) return;
  const isNotifying = call.phase === 'notifying' || call.owesNotification;
  if (!isNotifying || engine.quirks.successFlips) {
    updateStatus(status, StatusCode.SUCCESS, 'success');
  } else call.dataDone = true;
  if (call.owesNotification) notifyLate(engine, backend, call);
}

function completeFailed(
  engine: IOEngine,
  backend: RdmaBackend,
  endpoint: Endpoint,
  completion: WorkCompletion,
): void {
  const { wrId, status } = completion;
  const record = takeRecord(endpoint, wrId);
  if (record !== undefined) {
    failRecord(engine, backend, record, workStatusText(status));
    if (endpoint.degraded) endOrphans(engine, backend, recover(endpoint));
  } else {
    const isSend = isNotification(wrId);
    if (isSend) endpoint.depth -= 1;
    const text = isSend ? sendStatusText(status, backend.config.notifPerQp) : workStatusText(status);
    if (status !== 'WR_FLUSH_ERR') engine.host.log('warn', `${text} on id ${wrId}`);
  }
  if (!engine.quirks.brokenForGood && endpoint.health === 'up') startRepair(engine, backend, endpoint);
}

import { move } from '../../base/moves.ts';
import { StatusCode } from '../codes.ts';
import { setStatusCode, type TransferStatus, updateStatus } from '../transfer-status.ts';
import { CALL_MOVES } from './call-moves.ts';
import { endWait, reserveCredit, wait } from './credit.ts';
import { failCall } from './ending.ts';
import type { Notification } from './host.ts';
import type { Call, IOEngine, RdmaBackend, Remote } from './state.ts';
import {
  type CreditFigures,
  DEGRADED,
  notifyExceedsCapacity,
  notifyPostFailed,
  notifyQueueFull,
} from './texts.ts';
import { notificationWrId } from './wr-id.ts';

/** Telling the target that a transfer's queue pairs have all sent, and hearing it (mori-io.md A10). */

/**
 * Reserves a slot on every queue pair, all or none, then sends on each whether or not it carried data. False when that
 * failed.
 */
export function advanceNotification(engine: IOEngine, backend: RdmaBackend, call: Call): boolean {
  const { endpoints } = call.session!;
  for (let index = lacking(call); index >= 0; index = lacking(call)) {
    const endpoint = endpoints[index];
    const reservation = reserveCredit(endpoint, 1);
    if (reservation === 'no-room') {
      wait(engine, backend, endpoint, call, null);
      return true;
    }
    endWait(engine, backend, call);
    if (reservation !== 'reserved') {
      const text =
        reservation === 'degraded' ? DEGRADED : notifyExceedsCapacity(creditFigures(backend, call));
      return failNotification(engine, backend, call, text, 0);
    }
    call.reserved[index] = endpoint.life;
  }
  return sendAll(engine, backend, call);
}

/** The time to wait for credit is up. */
export function expireNotification(engine: IOEngine, backend: RdmaBackend, call: Call): void {
  const text = notifyQueueFull(creditFigures(backend, call));
  endWait(engine, backend, call);
  failNotification(engine, backend, call, text, 0);
}

/** The first endpoint without a slot for the notification, or -1. */
function lacking({ session, reserved }: Call): number {
  return session!.endpoints.findIndex(({ life }, index) => reserved[index] !== life);
}

function creditFigures(backend: RdmaBackend, call: Call): CreditFigures {
  const endpoint = lacking(call);
  const { depth, sizes } = call.session!.endpoints[endpoint];
  return {
    endpoint,
    depth,
    requested: 1,
    max: sizes.sendWr,
    backoffMicros: backend.backoffMicros,
  };
}

/** A post that fails midway leaves the earlier ones sent; nothing is tried again. */
function sendAll(engine: IOEngine, backend: RdmaBackend, call: Call): boolean {
  const { endpoints } = call.session!;
  const wrId = notificationWrId(call.transferId);
  for (let index = 0; index < endpoints.length; index += 1) {
    const message = { id: call.transferId, qpIndex: index, totalNum: endpoints.length };
    const errno = engine.host.postNotification(endpoints[index].local.qpn, wrId, message);
    if (errno !== 0) return failNotification(engine, backend, call, notifyPostFailed(errno), index);
  }
  endCall(call);
  if (call.dataDone) updateStatus(call.status, StatusCode.SUCCESS, 'success');
  return true;
}

/** Gives back the slots of what was not sent. */
function failNotification(
  engine: IOEngine,
  backend: RdmaBackend,
  call: Call,
  text: string,
  sent: number,
): false {
  const { endpoints } = call.session!;
  for (let index = sent; index < endpoints.length; index += 1)
    if (call.reserved[index] === endpoints[index].life) endpoints[index].depth -= 1;
  endCall(call);
  failCall(engine, backend, call, { code: StatusCode.ERR_RDMA_OP, message: text });
  return false;
}

function endCall(call: Call): void {
  call.owesNotification = false;
  move(CALL_MOVES, call, 'Returned');
}

/** Target side: the first message of an id sets the count, each takes one off. */
export function countInbound(remote: Remote, message: Notification): void {
  const missing = remote.inbound.get(message.id) ?? message.totalNum;
  remote.inbound.set(message.id, missing - 1);
}

/** Pop: true when nothing is missing. Upstream keeps the entry, so it is true again and again (0.2). */
export function popInbound(
  engine: IOEngine,
  remote: Remote,
  transferId: number,
  status: TransferStatus,
): boolean {
  if (remote.inbound.get(transferId) !== 0) return false;
  if (!engine.quirks.popKeeps) remote.inbound.delete(transferId);
  setStatusCode(status, StatusCode.SUCCESS);
  return true;
}

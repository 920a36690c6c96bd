import { StatusCode } from '../codes.ts';
import { updateStatus } from '../transfer-status.ts';
import type { Call, IOEngine, LedgerRecord, RdmaBackend, Result, Transfer } from './state.ts';

/** How a transfer ends badly (mori-io.md A3, A11): the first error is the one that its status keeps. */

/** A record ends with an error, and with it everything it stands for. */
export function failRecord(
  engine: IOEngine,
  backend: RdmaBackend,
  { transfer, credits, orphaned }: LedgerRecord,
  text: string,
): void {
  if (transfer !== null) {
    transfer.finished += credits;
    transfer.moving -= 1;
    failTransfer(engine, backend, transfer, { code: StatusCode.ERR_RDMA_OP, message: text });
  }
  endOrphans(engine, backend, orphaned);
}

/** What was posted without a signal has ended by now, since a later work request of its queue pair has. */
export function endOrphans(engine: IOEngine, backend: RdmaBackend, orphaned: readonly Transfer[]): void {
  for (const transfer of orphaned) {
    transfer.moving -= 1;
    tellFailure(engine, backend, transfer);
  }
}

/** A call fails by itself. Upstream stores the error whatever is on the wire, and keeps its pointer to the status (A3). */
export function failCall(engine: IOEngine, backend: RdmaBackend, call: Call, failure: Result): void {
  const transfer = call.slices[0]?.transfer;
  if (transfer === undefined || engine.quirks.endsWhileMoving)
    updateStatus(call.status, failure.code, failure.message);
  else failTransfer(engine, backend, transfer, failure);
}

function failTransfer(engine: IOEngine, backend: RdmaBackend, transfer: Transfer, failure: Result): void {
  transfer.failure ??= failure;
  transfer.call.owesNotification = false;
  tellFailure(engine, backend, transfer);
}

/** Tells the error; the sound engine not before the call has posted all it will and nothing of it moves any more. */
export function tellFailure(engine: IOEngine, backend: RdmaBackend, transfer: Transfer): void {
  const { failure, status, call, moving } = transfer;
  if (failure === null || status === null) return;
  const mayMove = moving > 0 || call.phase === 'posting';
  if (mayMove && !engine.quirks.endsWhileMoving) return;
  updateStatus(status, failure.code, failure.message);
  transfer.status = null;
  backend.transfers.delete(transfer);
}

import { StatusCode } from '../codes.ts';
import { updateStatus } from '../transfer-status.ts';
import type { LedgerRecord, RdmaBackend } from './state.ts';

/** The first error is the one that a status keeps; its pointer is dropped (A3). */
export function failRecord(backend: RdmaBackend, record: LedgerRecord, text: string): void {
  const { transfer } = record;
  if (transfer === null) return;
  transfer.finished += record.credits;
  if (transfer.status !== null) updateStatus(transfer.status, StatusCode.ERR_RDMA_OP, text);
  transfer.status = null;
  transfer.call.owesNotification = false;
  backend.transfers.delete(transfer);
}

/**
 * Ids of work requests (mori-io.md A8): receives have [0, notifPerQp), the ledger what lies above, notifications bit 63
 * beside the transfer's id. Numbers hold 53 bits, so inside the engine a notification's id is -1 - transfer.
 */

export function notificationWrId(transferId: number): number {
  return -1 - transferId;
}

export function isNotification(wrId: number): boolean {
  return wrId < 0;
}

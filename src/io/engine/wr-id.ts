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

const TAG = 1n << 63n;

/** The 64 bits of a work request's id. */
export function wrIdBits(wrId: number): bigint {
  return wrId < 0 ? tagTransferId(BigInt(-1 - wrId)) : BigInt(wrId);
}

/** Sets bit 63; of an id that already has it nothing else is left out (upstream logs an error). */
export function tagTransferId(id: bigint): bigint {
  return BigInt.asUintN(63, id) | TAG;
}

export function isTagged(bits: bigint): boolean {
  return (bits & TAG) !== 0n;
}

export function untagTransferId(bits: bigint): bigint {
  return BigInt.asUintN(63, bits);
}

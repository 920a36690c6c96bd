/** Ids of work requests as the 64 bits that upstream gives them (mori-io.md A8). */

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

/** Checks of numbers that come over a border: from a peer, a file or a caller. */

/** Whole and exact, 0 or more: what counts, ranks, block ids and byte sizes are. */
export function isIndex(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

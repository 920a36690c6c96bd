/**
 * NICs as figures, fitted to the tables that MoRI-IO publishes (mori-io.md part B). Integers: nanoseconds, bytes, and
 * bytes in a microsecond, so that every machine computes the same times.
 */
export interface NicTimes {
  readonly name: string;
  /** From the last byte on the wire to the bytes being there and acknowledged. */
  readonly baseNanos: { readonly write: number; readonly read: number };
  /** One ibv_post_send, data or notification. */
  readonly postNanos: number;
  /** Forming one work request; all of a submission are formed before its first post. */
  readonly workRequestNanos: number;
  readonly bytesPerMicro: { readonly write: number; readonly read: number };
  /** The least time between two work requests of one queue pair. */
  readonly queuePairNanos: number;
  /** Bytes on the wire for one byte that moves: above 1 when a few bytes stand for a whole block. */
  readonly bytesScale: number;
}

/** A rough 400 Gb NIC with round numbers, the one of every check. */
const PLAIN: NicTimes = {
  name: 'plain',
  baseNanos: { write: 5_000, read: 6_000 },
  postNanos: 0,
  workRequestNanos: 0,
  bytesPerMicro: { write: 48_000, read: 48_000 },
  queuePairNanos: 143,
  bytesScale: 1,
};

/** ConnectX-7 at 400 Gb/s; base and rate are the fit, the small costs are ours and within its error. */
const CX7: NicTimes = {
  name: 'cx7',
  baseNanos: { write: 5_720, read: 6_400 },
  postNanos: 100,
  workRequestNanos: 50,
  bytesPerMicro: { write: 49_750, read: 44_400 },
  queuePairNanos: 20,
  bytesScale: 1,
};

const THOR2: NicTimes = {
  name: 'thor2',
  baseNanos: { write: 13_000, read: 73_400 },
  postNanos: 620,
  workRequestNanos: 140,
  bytesPerMicro: { write: 49_800, read: 48_100 },
  queuePairNanos: 100,
  bytesScale: 1,
};

/** The NICs that a command may be told to use. */
export const NICS = { plain: PLAIN, cx7: CX7, thor2: THOR2 } as const satisfies Record<string, NicTimes>;

/** No costs: what is posted lands at once. */
export const INSTANT: NicTimes = {
  name: 'instant',
  baseNanos: { write: 0, read: 0 },
  postNanos: 0,
  workRequestNanos: 0,
  bytesPerMicro: { write: Number.MAX_SAFE_INTEGER, read: Number.MAX_SAFE_INTEGER },
  queuePairNanos: 0,
  bytesScale: 1,
};

/** The published sweep over batch sizes was run with another script, whose base is shorter. */
export const THOR2_SWEEP: NicTimes = {
  ...THOR2,
  name: 'thor2-sweep',
  baseNanos: { write: 10_500, read: 73_400 },
  workRequestNanos: 136,
};

/** Time of some bytes on the wire. */
export function wireNanos(times: NicTimes, bytes: number, operation: 'read' | 'write'): number {
  return Math.ceil((bytes * times.bytesScale * 1000) / times.bytesPerMicro[operation]);
}

/**
 * Whole microseconds from the call that posts a batch to one queue pair of an idle NIC until its last byte is there: the
 * work requests are formed and posted, the queue pair's pace and the wire overlap, then comes the base latency.
 */
export function batchMicros(
  times: NicTimes,
  operation: 'read' | 'write',
  workRequests: number,
  bytes: number,
): number {
  const posting = workRequests * times.workRequestNanos + times.postNanos;
  const moving = Math.max(workRequests * times.queuePairNanos, wireNanos(times, bytes, operation));
  return Math.ceil((posting + moving + times.baseNanos[operation]) / 1000);
}

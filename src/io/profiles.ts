/**
 * NICs as figures, fitted to the tables that MoRI-IO publishes (mori-io.md part B). Integers: nanoseconds, bytes, and
 * bytes in a microsecond, so that every machine computes the same times.
 */
export interface NicTimes {
  readonly name: string;
  /** From the last byte on the wire to the completion being seen. */
  readonly baseNanos: { readonly write: number; readonly read: number };
  /** One ibv_post_send, data or notification. */
  readonly postNanos: number;
  /** Forming one work request; all of a submission are formed before its first post. */
  readonly workRequestNanos: number;
  readonly bytesPerMicro: number;
  /** The least time between two work requests of one queue pair. */
  readonly queuePairNanos: number;
}

/** ConnectX-7 at 400 Gb/s; base and rate are the fit, the small costs are ours and within its error. */
const CX7: NicTimes = {
  name: 'cx7',
  baseNanos: { write: 5_720, read: 6_400 },
  postNanos: 100,
  workRequestNanos: 50,
  bytesPerMicro: 49_750,
  queuePairNanos: 20,
};

const THOR2: NicTimes = {
  name: 'thor2',
  baseNanos: { write: 13_000, read: 73_400 },
  postNanos: 620,
  workRequestNanos: 140,
  bytesPerMicro: 49_800,
  queuePairNanos: 100,
};

/** No costs: what is posted lands at once. */
const INSTANT: NicTimes = {
  name: 'instant',
  baseNanos: { write: 0, read: 0 },
  postNanos: 0,
  workRequestNanos: 0,
  bytesPerMicro: Number.MAX_SAFE_INTEGER,
  queuePairNanos: 0,
};

/** Reads have wire rates of their own; the sweep was run with another script, whose base is shorter. */
export const NIC_TIMES = {
  instant: INSTANT,
  cx7Write: CX7,
  cx7Read: { ...CX7, name: 'cx7-read', bytesPerMicro: 44_400 },
  thor2Write: THOR2,
  thor2Read: { ...THOR2, name: 'thor2-read', bytesPerMicro: 48_100 },
  thor2Sweep: {
    ...THOR2,
    name: 'thor2-sweep',
    baseNanos: { write: 10_500, read: 73_400 },
    workRequestNanos: 136,
  },
} as const satisfies Record<string, NicTimes>;

/** Time of some bytes on the wire. */
export function wireNanos(times: NicTimes, bytes: number): number {
  return Math.ceil((bytes * 1000) / times.bytesPerMicro);
}

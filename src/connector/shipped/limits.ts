import { believe } from '../../base/failure.ts';

/** Every bound of the shipped connector. A wait, a retry or a table without a row here is a bug. Times in microseconds. */
export const LIMITS = {
  /** First pause before a control message is repeated; doubles each time. */
  retryMicros: 20_000,
  /** A timer may fire this much late. */
  retrySlackMicros: 5_000,
  backoffDoublingsMax: 5,
  handshakeAttemptsMax: 5,
  claimAttemptsMax: 5,
  sealAttemptsMax: 5,
  grantAttemptsMax: 6,
  revokeAttemptsMax: 4,
  /** P gives up a transfer that D has not granted, or that has not drained, after this. */
  haulMicros: 60_000_000,
  /** What is in flight must have ended this long after it was given up; then the queue pairs are reset. */
  drainMicros: 2_000_000,
  /** The owner of the blocks wants them back after this. */
  leaseMicros: 120_000_000,
  /** What a peer says of a request that this rank has not heard of is kept this long. */
  earlyMicros: 120_000_000,
  /** Requests not heard of, and blocks of their grants, that are kept for each peer rank. */
  earlyMax: 256,
  earlyBlocksMax: 262_144,
  /** How far from the highest grant number met a number may be, ahead or behind. */
  grantWindow: 1024,
  /** Transfers for which one grant number is believed before it counts as stale. */
  grantNamesMax: 8,
  /** Handshakes that a grant of an epoch not heard of may ask for. */
  renewalsMax: 5,
  /** Ended transfers remembered so that a repeated question gets the true answer. */
  endedMax: 256,
} as const;

// The target must outlast the initiator's own deadline, or each slow transfer would end in a fence.
believe(
  LIMITS.leaseMicros > LIMITS.haulMicros,
  'INV-LIMIT-1',
  'a lease ends before the transfer that uses it',
);

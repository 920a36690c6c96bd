import type { Emit } from '../../wire/machine.ts';
import { LIMITS } from './limits.ts';

/** The timers of a rank's worker; the object is a transfer, or a peer for the handshake. */
export const TIMER = {
  haulRetry: 1,
  haulDeadline: 2,
  leaseRetry: 3,
  leaseDeadline: 4,
  handshake: 5,
  early: 6,
  haulDrain: 7,
} as const;

/** The timer rings at `earliest` or some slack later, in microseconds of virtual time. */
export function arm(
  emit: Emit,
  timer: (typeof TIMER)[keyof typeof TIMER],
  object: number,
  earliest: number,
): void {
  emit({ kind: 'arm', timer, object, earliest, latest: earliest + LIMITS.retrySlackMicros });
}

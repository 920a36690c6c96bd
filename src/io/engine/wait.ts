import { StatusCode } from '../codes.ts';
import type { TransferStatus } from '../transfer-status.ts';

/** TransferStatus::WaitFor as a machine (mori-io.md A3): a wait that would block is a value to step, never a block. */

export interface StatusHooks {
  /** Asks whether the transfer has ended; XGMI and FABRIC live by it. */
  readonly progress?: () => void;
  /** Blocks until the end; an unbounded wait uses it. */
  readonly wait?: () => void;
}

export interface StatusWait {
  readonly status: TransferStatus;
  readonly hooks: StatusHooks;
  /** Null: it waits for ever. */
  readonly deadlineMillis: number | null;
}

/** The code, or a wait to be stepped. Anything but IN_PROGRESS returns at once, INIT too. */
export function beginWait(
  status: TransferStatus,
  nowMillis: number,
  millis: number,
  hooks: StatusHooks = {},
): StatusCode | StatusWait {
  if (status.code !== StatusCode.IN_PROGRESS) return status.code;
  hooks.progress?.();
  if (millis === 0) return status.code;
  if (millis < 0 && hooks.wait !== undefined) {
    hooks.wait();
    return status.code;
  }
  const wait = { status, hooks, deadlineMillis: millis < 0 ? null : nowMillis + millis };
  return stepWait(wait, nowMillis, false) ?? wait;
}

/**
 * What the wait returns by now, or null. Only `notified` (an Update or a SetCode that ends it) or the deadline wakes it:
 * where nobody notifies, a bounded wait takes all of its time even when the transfer ended long before.
 */
export function stepWait(wait: StatusWait, nowMillis: number, notified: boolean): StatusCode | null {
  const isLate = wait.deadlineMillis !== null && nowMillis >= wait.deadlineMillis;
  if (!notified && !isLate) return null;
  if (wait.deadlineMillis !== null) wait.hooks.progress?.();
  const { code } = wait.status;
  return isLate || code !== StatusCode.IN_PROGRESS ? code : null;
}

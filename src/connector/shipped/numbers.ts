import { SmallMap } from '../../base/small-map.ts';
import type { TransferId } from '../../base/topology.ts';
import { LIMITS } from './limits.ts';

/**
 * Which grants of one target this rank has met, by their numbers. A window, as against replay in IPsec (RFC 4303, 3.4.3):
 * a number may come in any order while it is within {@link LIMITS.grantWindow} of the highest one, is used up once for each
 * transfer, and is stale for good when the window has passed it. Only a grant that is taken moves the window. So an odd
 * number neither ages those that come after it nor takes the place of a real one.
 */
export interface GrantWindow {
  highest: number;
  /** By number, the transfers it came for: one, unless somebody lies. */
  readonly used: SmallMap<number, TransferId[]>;
}

/** `jump`: further ahead than an honest target can be. `stale`: met before, or too old to be remembered. */
export type NumberVerdict = 'fresh' | 'stale' | 'jump';

export function newGrantWindow(): GrantWindow {
  return { highest: 0, used: new SmallMap() };
}

export function judgeNumber(
  { highest, used }: GrantWindow,
  number: number,
  transfer: TransferId,
): NumberVerdict {
  if (number > highest + LIMITS.grantWindow) return 'jump';
  if (number < 1 || number <= highest - LIMITS.grantWindow) return 'stale';
  const transfers = used.get(number) ?? [];
  return transfers.includes(transfer) || transfers.length === LIMITS.grantNamesMax ? 'stale' : 'fresh';
}

/** Uses up a number that is fresh for a transfer; any other stays as it is. */
export function useNumber(met: GrantWindow, number: number, transfer: TransferId): NumberVerdict {
  const verdict = judgeNumber(met, number, transfer);
  if (verdict !== 'fresh') return verdict;
  const transfers = met.used.get(number);
  if (transfers === undefined) met.used.set(number, [transfer]);
  else transfers.push(transfer);
  return verdict;
}

/** Moves the window up to a number, which must not be a jump. */
export function raiseWindow(met: GrantWindow, number: number): void {
  for (; met.highest < number; met.highest++) met.used.delete(met.highest + 1 - LIMITS.grantWindow);
}

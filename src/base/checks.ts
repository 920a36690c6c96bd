import { UsageError } from './failure.ts';

/** Checks of numbers that come over a border: from a peer, a file or a caller. */

/** Whole and exact, 0 or more: what counts, ranks, block ids and byte sizes are. */
export function isIndex(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** The same without -0, which equals 0 and is written otherwise: what a caller's list names or counts. */
export function isCount(value: unknown): value is number {
  return isIndex(value) && !Object.is(value, -0);
}

/**
 * The value, if it is a whole number from `least` to `most`; `what` names it in the refusal.
 * @throws UsageError with the given code otherwise.
 */
export function requireWhole(
  value: unknown,
  bounds: readonly [number, number],
  code: string,
  what: string,
): number {
  const least = bounds[0];
  const most = bounds[1];
  if (Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most)
    return value as number;
  const shown = typeof value === 'number' ? `${value}` : `a value of type ${typeof value}`;
  throw new UsageError(code, `${what} must be a whole number from ${least} to ${most}, not ${shown}`);
}

/** An object with named fields, whoever made it. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

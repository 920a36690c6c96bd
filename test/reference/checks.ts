import { UsageError } from '../../src/base/failure.ts';

/**
 * The value, if it is a whole number from `least` to `most`; `what` names it in the refusal.
 * @throws UsageError with the given code otherwise.
 */
export function requireWhole(
  value: unknown,
  least: number,
  most: number,
  code: string,
  what: string,
): number {
  if (Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most)
    return value as number;
  const shown = typeof value === 'number' ? `${value}` : `a value of type ${typeof value}`;
  throw new UsageError(code, `${what} must be a whole number from ${least} to ${most}, not ${shown}`);
}

import { UsageError } from '../base/failure.ts';
import { SEED_FROM_MAX } from '../explore/run.ts';
import { OddValue, type OptionRow } from './command.ts';

/** Options that several commands have, and parsers of their values. */

export const JSON_OPTION: OptionRow = { flag: '--json', text: 'one JSON document on standard output' };

export const MODE_OPTION: OptionRow = {
  flag: '--mode <mode>',
  text: 'who moves the KV',
  choices: ['read', 'write', 'both'],
};

export const SEED_OPTION: OptionRow = {
  flag: '--seed <n>',
  text: 'the first seed',
  parse: wholeNumber(0, SEED_FROM_MAX),
  usual: 0,
};

export function wholeNumber(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
    if (!(value >= least && value <= most))
      throw new OddValue(`It must be an integer from ${least} to ${most}.`);
    return value;
  };
}

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };
const DURATION_MILLIS_MAX = 24 * 3_600_000;

/** `30s`, `2m`, `500ms`: milliseconds. */
export function duration(text: string): number {
  const match = /^(\d{1,9})(ms|s|m|h)$/.exec(text);
  const millis = match === null ? 0 : Number(match[1]) * UNITS[match[2]!]!;
  if (millis < 1 || millis > DURATION_MILLIS_MAX)
    throw new OddValue('It must be a time such as 500ms, 30s or 2m, at most 24h.');
  return millis;
}

/** @throws UsageError FLAG-CLASH */
export function refuseClash(given: boolean, text: string): void {
  if (given) throw new UsageError('FLAG-CLASH', text);
}

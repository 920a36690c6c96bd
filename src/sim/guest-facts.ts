import type { Fields } from '../wire/machine.ts';

/** The names and numbers by which a connector tells of itself: for people and for "the same failure", so they must be short. */

const NAME = /^[a-z][a-z-]{0,59}$/;
export const NAME_RULE = 'a name of at most 60 small letters and hyphens';

export function isName(value: unknown): value is string {
  return typeof value === 'string' && NAME.test(value);
}

const FIELDS_MAX = 16;
const LIST_MAX = 1_024;
const TEXT_MAX = 200;
export const FIELDS_RULE = `an object of at most ${FIELDS_MAX} numbers, short texts and lists of numbers`;

export function isFields(value: unknown): value is Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const fields = Object.values(value);
  return fields.length <= FIELDS_MAX && fields.every(isField);
}

function isField(value: unknown): boolean {
  if (typeof value === 'number') return true;
  if (typeof value === 'string') return value.length <= TEXT_MAX;
  return (
    Array.isArray(value) && value.length <= LIST_MAX && value.every((entry) => typeof entry === 'number')
  );
}

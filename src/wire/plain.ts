/**
 * Plain data: what a socket could carry. A connector's messages are looked at with this before the world takes them, since
 * what cannot be written down, or never ends, would break whoever reads it later.
 */

export const PLAIN_VALUES_MAX = 100_000;
export const PLAIN_DEPTH_MAX = 12;
export const PLAIN_CHARACTERS_MAX = 1 << 16;
export const PLAIN_BYTES_MAX = 1 << 20;

interface Walk {
  values: number;
  readonly valuesMax: number;
}

/**
 * Why a value is not plain data within the bounds, in words that go on from its name; '' when it is. `listed` values more are
 * taken than otherwise: a list of all blocks of an engine is none too long.
 */
export function oddityOfPlain(value: unknown, listed = 0): string {
  return oddity(value, 0, { values: 0, valuesMax: PLAIN_VALUES_MAX + listed });
}

function oddity(value: unknown, depth: number, walk: Walk): string {
  if (++walk.values > walk.valuesMax) return `holds more than ${walk.valuesMax} values`;
  switch (typeof value) {
    case 'number':
      return Number.isFinite(value) ? '' : `holds ${value}, which is no finite number`;
    case 'boolean':
      return '';
    case 'string':
      return value.length <= PLAIN_CHARACTERS_MAX
        ? ''
        : `holds a text of ${value.length} characters, at most ${PLAIN_CHARACTERS_MAX} are taken`;
    case 'object':
      return value === null ? '' : oddityOfObject(value, depth, walk);
    default:
      return `holds a ${typeof value}, which no socket carries`;
  }
}

function oddityOfObject(value: object, depth: number, walk: Walk): string {
  if (value instanceof Uint8Array)
    return value.length <= PLAIN_BYTES_MAX
      ? ''
      : `holds ${value.length} bytes, at most ${PLAIN_BYTES_MAX} are taken`;
  if (depth >= PLAIN_DEPTH_MAX) return `is nested deeper than ${PLAIN_DEPTH_MAX}`;
  if (Array.isArray(value)) return oddityOfList(value, depth, walk);
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null)
    return 'holds an object of a class, which no socket carries';
  for (const field in value) {
    const odd = oddity((value as Readonly<Record<string, unknown>>)[field], depth + 1, walk);
    if (odd !== '') return odd;
  }
  return '';
}

function oddityOfList(list: readonly unknown[], depth: number, walk: Walk): string {
  for (let at = 0; at < list.length; at++) {
    const odd = oddity(list[at], depth + 1, walk);
    if (odd !== '') return odd;
  }
  return '';
}

import { TURNED } from './image.ts';

/** What is wrong with the bytes of one work request, read off the bytes alone. */

export type DifferenceKind =
  /** No byte of it came. */
  | 'lost request'
  /** The bytes up to some place came, and none behind it. */
  | 'missing tail'
  /** Bytes elsewhere in it did not come. */
  | 'missing bytes'
  /** Bytes of another place of the source are there. */
  | 'moved chunk'
  /** All came, and bytes before its first or behind its last one were written too. */
  | 'overrun'
  /** None of these. */
  | 'wrong bytes'
  /** Its bytes were not all there at its completion, and were later. */
  | 'early completion'
  /** A byte changed that belongs to no work request. */
  | 'stray bytes'
  /** A batch has another status than SUCCESS, or an end that nobody waits for, or none. */
  | 'status'
  | 'unknown completion'
  | 'no completion';

export interface Wrong {
  readonly kind: DifferenceKind;
  /** Offset of the first wrong byte from the first byte of the work request; below zero before it. */
  readonly at: number;
  /** How many are wrong, guards included. */
  readonly count: number;
  readonly expected: number;
  readonly actual: number;
  /** Where in the source region the bytes that were found lie, of a moved chunk. */
  readonly from: number | null;
}

/** A work request's bytes with the guards around it, as far as they are its own. */
export interface Window {
  readonly actual: Uint8Array;
  readonly expected: Uint8Array;
  /** Where the first byte of the work request lies in the two. */
  readonly start: number;
  readonly bytes: number;
  /** The region that it is read from. */
  readonly source: Uint8Array;
}

/** Long enough to be at one place of the source only. */
const NEEDLE_BYTES = 32;
const NEEDLE_LEAST = 6;
/** Of a whole work request; shorter ones are everywhere. */
const REQUEST_LEAST = 3;

/** The difference of a window of which it is known that there is one. */
export function wrongOf(window: Window): Wrong {
  const { actual, expected, start, bytes } = window;
  let [first, count, inside, untouched, firstInside, lastWhole] = [-1, 0, 0, 0, -1, -1];
  for (let at = 0; at < actual.length; at++) {
    const isInside = at >= start && at < start + bytes;
    if (actual[at] === expected[at]) {
      if (isInside) lastWhole = at;
      continue;
    }
    if (first < 0) first = at;
    count++;
    if (!isInside) continue;
    if (firstInside < 0) firstInside = at;
    inside++;
    if (actual[at] === (expected[at]! ^ TURNED)) untouched++;
  }
  const shown = inside > 0 ? firstInside : first;
  const from = inside > 0 && untouched < inside ? placeOf(window, firstInside) : null;
  return {
    kind: kindOf({
      inside,
      untouched,
      bytes,
      isTail: lastWhole < firstInside,
      isMoved: from !== null || (untouched < inside && isPermuted(window)),
    }),
    at: shown - start,
    count,
    expected: expected[shown]!,
    actual: actual[shown]!,
    from,
  };
}

interface Signs {
  readonly inside: number;
  readonly untouched: number;
  readonly bytes: number;
  readonly isTail: boolean;
  readonly isMoved: boolean;
}

function kindOf({ inside, untouched, bytes, isTail, isMoved }: Signs): DifferenceKind {
  if (inside === 0) return 'overrun';
  if (isMoved) return 'moved chunk';
  if (untouched < inside) return 'wrong bytes';
  if (inside === bytes) return 'lost request';
  return isTail ? 'missing tail' : 'missing bytes';
}

/** Where in the source the bytes from `at` on come from, or null. */
function placeOf({ actual, start, bytes, source }: Window, at: number): number | null {
  const needle = actual.subarray(at, Math.min(at + NEEDLE_BYTES, start + bytes));
  if (needle.length < (needle.length === bytes ? REQUEST_LEAST : NEEDLE_LEAST)) return null;
  const found = indexOf(source, needle);
  return found < 0 ? null : found;
}

/** Whether all bytes of the work request are there, in another order: its parts were too short to be found. */
function isPermuted({ actual, expected, start, bytes }: Window): boolean {
  const counts = new Int32Array(256);
  for (let at = start; at < start + bytes; at++) {
    counts[actual[at]!]!++;
    counts[expected[at]!]!--;
  }
  return counts.every((count) => count === 0);
}

function indexOf(within: Uint8Array, needle: Uint8Array): number {
  for (let from = within.indexOf(needle[0]!); from >= 0; from = within.indexOf(needle[0]!, from + 1)) {
    let length = 1;
    while (length < needle.length && within[from + length] === needle[length]) length++;
    if (length === needle.length) return from;
  }
  return -1;
}

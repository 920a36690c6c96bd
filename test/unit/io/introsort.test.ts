import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { introsort } from '../../../src/io/introsort.ts';
import { formWorkRequests } from '../../../src/io/submission.ts';

/**
 * Permutations that std::sort of libstdc++ 12 leaves: ties, patterns, and keys of an adversary that drives it to its heap.
 * Rows of name, keys, indices in order.
 */
type Vector = readonly [name: string, keys: readonly number[], order: readonly number[]];
const VECTORS = JSON.parse(
  readFileSync(new URL('../../golden/std-sort.json', import.meta.url), 'utf8'),
) as readonly Vector[];

const stable = (keys: readonly number[]): number[] =>
  keys.map((_, index) => index).sort((left, right) => keys[left] - keys[right]);

test('leaves ties where the C++ library leaves them', () => {
  for (const [name, keys, order] of VECTORS) {
    const sorted = introsort(keys.length, (left, right) => keys[left] < keys[right]);
    expect({ name, sorted }).toEqual({ name, sorted: order });
  }
  expect(VECTORS.filter(([, keys, order]) => String(stable(keys)) !== String(order)).length).toBeGreaterThan(
    40,
  );
});

test('a batch is posted in that order; without merging in the order of the caller', () => {
  const [, keys, order] = VECTORS.find(([name]) => name === 'ties 33 of 3')!;
  const entries = {
    localOffsets: keys.map((_, index) => index * 100),
    remoteOffsets: keys,
    sizes: keys.map(() => 50),
  };
  const limits = { localBytes: 1e6, remoteBytes: 1e6, endpoints: 1, maxSge: 4, maxMessageBytes: 1e6 };
  const placesOf = (merge: boolean, tiesShuffle: boolean): number[] => {
    const formed = formWorkRequests(entries, {
      ...limits,
      chunking: null,
      merge,
      rangeWraps: true,
      tiesShuffle,
    });
    return formed.ok ? formed.workRequests.map(({ sges }) => sges[0].offset / 100) : [];
  };
  expect(placesOf(true, true)).toEqual(order);
  expect(placesOf(true, false)).toEqual(stable(keys));
  expect(placesOf(false, true)).toEqual(stable(keys.map(() => 0)));
});

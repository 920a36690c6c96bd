import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { SmallMap } from '../../../src/base/small-map.ts';

type Act = {
  readonly kind: 'set' | 'delete' | 'get' | 'clear';
  readonly key: number;
  readonly value: number;
};

/** More keys than the list takes, and few enough that the same ones meet again. */
const ACT: fc.Arbitrary<Act> = fc.record({
  kind: fc.constantFrom('set', 'set', 'set', 'set', 'delete', 'get', 'clear'),
  key: fc.integer({ min: 0, max: 14 }),
  value: fc.integer({ min: 0, max: 30 }),
});

function seen(map: SmallMap<number, number>): unknown {
  return { size: map.size, keys: map.keys(), values: map.values(), entries: [...map], oldest: map.oldest() };
}

function seenOf(map: ReadonlyMap<number, number>): unknown {
  const [keys, values] = [[...map.keys()], [...map.values()]];
  return { size: map.size, keys, values, entries: [...map], oldest: keys[0] };
}

describe('a small map', () => {
  test('answers as a Map does, in its list and beyond', () => {
    const reached = { list: 0, table: 0 };
    fc.assert(
      fc.property(fc.array(ACT, { minLength: 40, maxLength: 80 }), (acts) => {
        const [small, plain] = [new SmallMap<number, number>(), new Map<number, number>()];
        for (const { kind, key, value } of acts) {
          if (kind === 'set') small.set(key, plain.set(key, value).get(key)!);
          else if (kind === 'delete') expect(small.delete(key)).toBe(plain.delete(key));
          else if (kind === 'get')
            expect([small.get(key), small.has(key)]).toEqual([plain.get(key), plain.has(key)]);
          else if (value === 0) {
            small.clear();
            plain.clear();
          }
          expect(seen(small)).toEqual(seenOf(plain));
          reached[plain.size > 8 ? 'table' : 'list']++;
        }
      }),
      { seed: 1, numRuns: 100 },
    );
    expect(reached.list).toBeGreaterThan(1000);
    expect(reached.table).toBeGreaterThan(100);
  });

  test.each([3, 20])('of %i entries can be changed while somebody goes through it', (count) => {
    const map = new SmallMap<number, string>();
    for (let key = 0; key < count; key++) map.set(key, `value ${key}`);
    const met: number[] = [];
    for (const [key] of map) {
      met.push(key);
      map.delete(key);
      map.set(key + 100, 'new');
    }
    expect(met).toEqual(Array.from({ length: count }, (_, key) => key));
    expect(map.keys()).toEqual(met.map((key) => key + 100));
  });
});

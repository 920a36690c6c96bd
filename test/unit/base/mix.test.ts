import { describe, expect, test } from 'vitest';
import { below, finish, mix } from '../../../src/base/mix.ts';
import golden from '../../golden/mix.json' with { type: 'json' };

/** The same file holds the Python twin to the same values: python/tests/test_mix.py. */
describe('integer mixing', () => {
  test('gives the values of the golden file', () => {
    expect(golden.mix.length).toBeGreaterThan(100);
    expect(golden.mix.map(([hash, value]) => [mix(hash!, value!), finish(mix(hash!, value!))])).toEqual(
      golden.mix.map(([, , mixed, finished]) => [mixed, finished]),
    );
    expect(golden.below.map(([hash, bound]) => below(hash!, bound!))).toEqual(
      golden.below.map(([, , value]) => value),
    );
  });
});

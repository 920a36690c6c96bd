import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ALL_FINE, REFUSED, RUN_WORDS } from '../../src/kv/kernels.ts';
import { anyWord, PAGE_BYTES, Pair, SETTINGS, small, Tally, U32_MAX } from './pair.ts';

describe('copyRuns', () => {
  const offset = fc.oneof(
    { weight: 12, arbitrary: fc.integer({ min: 0, max: 1500 }) },
    { weight: 1, arbitrary: anyWord },
  );
  const bytes = fc.oneof(
    { weight: 6, arbitrary: fc.integer({ min: 0, max: 140 }) },
    { weight: 6, arbitrary: fc.integer({ min: 0, max: 1500 }) },
    { weight: 1, arbitrary: anyWord },
  );
  const runList = fc.array(fc.tuple(offset, offset, bytes), { maxLength: 8 });

  test('agrees with the twin on runs of any size, overlap and alignment', () => {
    const tally = new Tally();
    const base = fc.integer({ min: 1000, max: 4000 });
    const property = fc.property(
      runList,
      base,
      base,
      fc.integer({ min: 0, max: 7 }),
      (runs, source, target, at) => {
        small.reset();
        small.put(at, runs.flat());
        const result = small.agree((k) =>
          k.copyRuns(at, runs.length, source, source + 3000, target, target + 3000),
        );
        const copied = runs.filter((run) => run[2] > 0);
        const overlaps = copied.some((run) => Math.abs(source + run[0] - target - run[1]) < run[2]);
        tally.add('no runs', runs.length === 0);
        tally.add('copied', result === ALL_FINE && copied.length > 0);
        tally.add('overlapping run copied', result === ALL_FINE && overlaps);
        tally.add('bad run', result >= 0);
        tally.add('bad run after good ones', result > 0);
        tally.add(
          'huge run',
          runs.some((run) => Math.max(...run) > 0x7fff_ffff),
        );
      },
    );
    fc.assert(property, SETTINGS);
    const outcomes = [
      'no runs',
      'copied',
      'overlapping run copied',
      'bad run',
      'bad run after good ones',
      'huge run',
    ];
    tally.expectEach(outcomes, 50);
  });

  test('agrees with the twin on every size from 0 to 300 bytes at every small distance', () => {
    for (let bytes = 0; bytes <= 300; bytes++) {
      small.reset();
      for (const distance of [-129, -17, -16, -5, -1, 0, 1, 3, 8, 16, 31, 64, 127, 1000]) {
        small.put(0, [3, 3, bytes]);
        expect(small.agree((k) => k.copyRuns(0, 1, 5000, 6000, 5000 + distance, 6000 + distance))).toBe(
          ALL_FINE,
        );
      }
    }
  });

  test('agrees with the twin on lists and regions at any address', () => {
    const tally = new Tally();
    const region = fc.tuple(anyWord, anyWord).map((ends) => ends.sort((a, b) => a - b));
    const anyRegion = fc.oneof(fc.constant([9000, 12_000]), region, fc.tuple(anyWord, anyWord));
    const count = fc.oneof(fc.integer({ min: 0, max: 3 }), anyWord);
    const at = fc.oneof(fc.integer({ min: 0, max: 8000 }), anyWord);
    const property = fc.property(at, count, anyRegion, anyRegion, (runs, many, source, target) => {
      small.reset();
      for (let i = 0; i < 400; i++) small.put(i * 12, [i, i * 2, i]);
      const result = small.agree((k) =>
        k.copyRuns(runs, many, source[0]!, source[1]!, target[0]!, target[1]!),
      );
      tally.add('refused', result === REFUSED);
      tally.add(
        'list in the target',
        result === REFUSED && runs + many * 12 <= small.bytes && runs > target[0]!,
      );
      tally.add('bad run', result >= 0);
      tally.add('fine', result === ALL_FINE);
    });
    fc.assert(property, SETTINGS);
    tally.expectEach(['refused', 'list in the target', 'bad run', 'fine'], 20);
  });

  test('agrees with the twin on runs of more than 2 MiB, apart or overlapping', () => {
    const large = new Pair(128);
    const tally = new Tally();
    const start = fc.integer({ min: 100, max: 5_000_000 });
    const bytes = fc.integer({ min: 2_097_100, max: 3_000_000 });
    const nearby = fc.oneof(start, fc.integer({ min: 100, max: 400 }));
    const property = fc.property(nearby, nearby, bytes, (source, target, length) => {
      large.reset();
      large.put(1, [source, target, length]);
      expect(large.agree((k) => k.copyRuns(1, 1, 0, large.bytes, 100, large.bytes))).toBe(ALL_FINE);
      tally.add(Math.abs(source - target - 100) < length ? 'overlapping' : 'apart');
    });
    fc.assert(property, { seed: 42, numRuns: 60 });
    tally.expectEach(['overlapping', 'apart'], 5);
  });
});

describe('the edges', () => {
  const END = PAGE_BYTES;

  test('a run may end with its regions and not one byte later', () => {
    for (const [source, target, expected] of [
      [0, 0, ALL_FINE],
      [1, 0, 0],
      [0, 1, 0],
    ] as const) {
      small.reset();
      small.put(0, [900 + source, 1900 + target, 100]);
      expect(small.agree((k) => k.copyRuns(0, 1, 5000, 6000, 7000, 9000))).toBe(expected);
    }
  });

  test('a region and a list may end with the memory and not one byte later', () => {
    for (const [past, expected] of [
      [0, ALL_FINE],
      [1, REFUSED],
    ] as const) {
      small.reset();
      small.put(END - 12, [0, 0, 4]);
      expect(small.agree((k) => k.copyRuns(END - 12 + past, 1, 0, 16, 32, 64))).toBe(expected);
      small.put(0, [0, 0, 4]);
      expect(small.agree((k) => k.copyRuns(0, 1, 100, END + past, 100, 200))).toBe(expected);
      expect(small.agree((k) => k.copyRuns(0, 1, 100, 200, 100, END + past))).toBe(expected);
      expect(small.agree((k) => k.mergeRuns(END - 12 + past, 1))).toBe(past === 0 ? 1 : REFUSED);
      expect(small.agree((k) => k.digest(END - 77 + past, 77, 0))).toBe(past === 0 ? 0 : REFUSED);
      expect(small.agree((k) => k.digest(0, 77, END - 8 + past))).toBe(past === 0 ? 0 : REFUSED);
    }
  });

  test('a list may touch the target region and not share a byte with it', () => {
    for (const [at, expected] of [
      [988, ALL_FINE],
      [989, REFUSED],
      [1999, REFUSED],
      [2000, ALL_FINE],
    ] as const) {
      small.reset();
      small.put(at, [0, 500, 4]);
      expect(small.agree((k) => k.copyRuns(at, 1, 5000, 6000, 1000, 2000))).toBe(expected);
      expect(small.agree((k) => k.copyRuns(at, 0, 5000, 6000, 1000, 2000))).toBe(ALL_FINE);
    }
  });
});

describe('mergeRuns', () => {
  /** A step from the end of the run before: mostly 0 on both sides, so that many runs touch. */
  const gap = fc.oneof(
    { weight: 5, arbitrary: fc.constant(0) },
    { weight: 1, arbitrary: fc.integer({ min: -1, max: 1 }) },
  );
  const size = fc.oneof(
    { weight: 8, arbitrary: fc.integer({ min: 0, max: 300 }) },
    { weight: 1, arbitrary: fc.constantFrom(0, 0x7fff_ffff, 0x8000_0000, 0xffff_fff0, U32_MAX) },
  );

  test('agrees with the twin on chains of runs, also where sums leave 32 bits', () => {
    const tally = new Tally();
    const chain = fc.array(fc.tuple(gap, gap, size), { maxLength: 20 });
    const property = fc.property(
      chain,
      anyWord,
      anyWord,
      fc.integer({ min: 0, max: 5 }),
      (steps, source, target, at) => {
        small.reset();
        let ends = [source, target];
        let wraps = false;
        const runs = steps.flatMap(([sourceGap, targetGap, bytes]) => {
          const run = [(ends[0]! + sourceGap) >>> 0, (ends[1]! + targetGap) >>> 0, bytes];
          ends = [run[0]! + bytes, run[1]! + bytes];
          wraps ||= Math.max(...ends) > U32_MAX;
          return run;
        });
        small.put(at, runs);
        const count = small.agree((k) => k.mergeRuns(at, steps.length));
        const kept = steps.filter((step) => step[2] > 0).length;
        tally.add('merged', count < kept);
        tally.add('not merged', count === kept && kept > 1);
        tally.add('empty run dropped', kept < steps.length);
        tally.add('beyond 32 bits', wraps);
      },
    );
    fc.assert(property, SETTINGS);
    tally.expectEach(['merged', 'not merged', 'empty run dropped', 'beyond 32 bits'], 50);
  });

  test('agrees with the twin on lists at any address', () => {
    const tally = new Tally();
    const property = fc.property(anyWord, fc.oneof(fc.integer({ min: 0, max: 40 }), anyWord), (at, count) => {
      small.reset();
      tally.add(small.agree((k) => k.mergeRuns(at, count)) === REFUSED ? 'refused' : 'accepted');
    });
    fc.assert(property, SETTINGS);
    tally.expectEach(['refused', 'accepted'], 50);
  });

  test('moves the same bytes as the list it was given', () => {
    const list = [0, 100, 8, 8, 108, 8, 0, 0, 0, 16, 116, 4, 30, 120, 4, 34, 125, 4];
    small.reset();
    small.put(0, list);
    expect(small.agree((k) => k.mergeRuns(0, list.length / RUN_WORDS))).toBe(3);
    expect(Array.from({ length: 9 }, (_, i) => small.word(i * 4))).toEqual([
      0, 100, 20, 30, 120, 4, 34, 125, 4,
    ]);
  });
});

/** A cache in one page: lists first, then the region. */

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { REFUSED } from '../../src/kv/kernels.ts';
import { anyWord, small, Tally } from './pair.ts';

describe('digest', () => {
  const digestAt = (address: number, bytes: number) => {
    expect(small.agree((k) => k.digest(address, bytes, 60_001))).toBe(0);
    return small.moduleBytes.readBigUInt64LE(60_001);
  };

  test('agrees with the twin on ranges of any length and alignment, also where they do not exist', () => {
    const tally = new Tally();
    const stripes = fc.integer({ min: 0, max: 8 }).map((count) => count * 64);
    const length = fc.oneof(
      fc.integer({ min: 0, max: 400 }),
      fc.integer({ min: 0, max: 5000 }),
      stripes,
      anyWord,
    );
    const result = fc.oneof(
      { weight: 3, arbitrary: fc.integer({ min: 0, max: 5000 }) },
      { weight: 1, arbitrary: anyWord },
    );
    const start = fc.oneof(fc.integer({ min: 0, max: 5000 }), anyWord);
    const property = fc.property(start, length, result, (address, bytes, at) => {
      small.reset();
      const code = small.agree((k) => k.digest(address, bytes, at));
      tally.add('refused', code === REFUSED);
      tally.add('whole stripes', code === 0 && bytes > 0 && bytes % 64 === 0);
      tally.add('part of a stripe', code === 0 && bytes % 64 !== 0);
      tally.add('nothing', code === 0 && bytes === 0);
      tally.add('result inside the range', code === 0 && at >= address && at < address + bytes);
    });
    fc.assert(property, { seed: 42, numRuns: 3000 });
    tally.expectEach(
      ['refused', 'whole stripes', 'part of a stripe', 'nothing', 'result inside the range'],
      50,
    );
  });

  test('tells lengths of zeros, each flipped bit and each pair of swapped pieces apart', () => {
    small.reset();
    small.moduleBytes.fill(0, 0, 1024);
    small.twinBytes.fill(0, 0, 1024);
    const seen = new Set<bigint>();
    for (let bytes = 0; bytes <= 300; bytes++) seen.add(digestAt(0, bytes));
    expect(seen.size).toBe(301);
    for (let bit = 0; bit < 300 * 8; bit += 7) {
      const word = (bit >> 5) * 4;
      small.put(word, [1 << (bit & 31)]);
      seen.add(digestAt(0, 300));
      small.put(word, [0]);
    }
    expect(seen.size).toBe(301 + Math.ceil(2400 / 7));
    for (const bytes of [16, 32, 64, 128]) {
      small.reset();
      const before = digestAt(0, 512);
      const first = Array.from({ length: bytes / 4 }, (_, i) => small.word(i * 4));
      const second = Array.from({ length: bytes / 4 }, (_, i) => small.word(bytes + i * 4));
      small.put(0, [...second, ...first]);
      expect(digestAt(0, 512)).not.toBe(before);
    }
  });

  test('flips about half of its bits for each flipped bit', () => {
    small.reset();
    const before = digestAt(0, 200);
    let flipped = 0;
    for (let bit = 0; bit < 1600; bit++) {
      const word = (bit >> 5) * 4;
      const old = small.word(word);
      small.put(word, [old ^ (1 << (bit & 31))]);
      const change = (digestAt(0, 200) ^ before).toString(2).replaceAll('0', '').length;
      expect(change).toBeGreaterThan(10);
      flipped += change;
      small.put(word, [old]);
    }
    expect(flipped / 1600).toBeGreaterThan(31);
    expect(flipped / 1600).toBeLessThan(33);
  });
});

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { batchMicros, NICS } from '../../../src/io/profiles.ts';

/** MoRI-IO's published tables: bytes of one work request and microseconds. Source: mori-io.md, end of part B. */
const CX7_WRITE = [
  [2 ** 20, 26.95],
  [2 ** 22, 90.44],
  [2 ** 24, 344.46],
  [2 ** 26, 1360.09],
] as const;
const CX7_READ = [
  [2 ** 20, 30.0],
  [2 ** 22, 99.99],
  [2 ** 24, 379.83],
  [2 ** 26, 1498.58],
] as const;
const THOR2_WRITE_128 = [
  [2 ** 16, 202.7],
  [2 ** 18, 717.56],
  [2 ** 20, 2777.76],
] as const;
const THOR2_READ_256 = [
  [2 ** 16, 458.96],
  [2 ** 18, 1488.69],
  [2 ** 20, 5622.15],
] as const;

describe('a NIC profile is within 5 % of what was measured for large work requests', () => {
  test.each([
    ['cx7', 'write', 1, CX7_WRITE],
    ['cx7', 'read', 1, CX7_READ],
    ['thor2', 'write', 128, THOR2_WRITE_128],
    ['thor2', 'read', 256, THOR2_READ_256],
  ] as const)('%s, %s, batch %i', (nic, operation, count, table) => {
    for (const [bytes, micros] of table) {
      const predicted = batchMicros(NICS[nic], operation, count, count * bytes);
      expect([bytes, Math.abs(predicted / micros - 1) < 0.05]).toEqual([bytes, true]);
    }
  });
});

describe('the price of a batch', () => {
  test('never falls as work requests or bytes grow, and is whole', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...Object.values(NICS)),
        fc.constantFrom('read' as const, 'write' as const),
        fc.nat({ max: 60 }),
        fc.nat({ max: 500_000 }),
        (times, operation, workRequests, bytes) => {
          const micros = batchMicros(times, operation, workRequests, bytes);
          expect(Number.isInteger(micros)).toBe(true);
          expect(batchMicros(times, operation, workRequests + 1, bytes)).toBeGreaterThanOrEqual(micros);
          expect(batchMicros(times, operation, workRequests, bytes + 1)).toBeGreaterThanOrEqual(micros);
        },
      ),
      { seed: 42, numRuns: 300 },
    );
  });

  test('counts the bytes on the wire, not those that move', () => {
    const scaled = { ...NICS.plain, bytesScale: 250 };
    expect(batchMicros(scaled, 'write', 1, 1600)).toBe(batchMicros(NICS.plain, 'write', 1, 400_000));
  });

  test('is made of whole numbers in every profile', () => {
    for (const { name, baseNanos, bytesPerMicro, ...costs } of Object.values(NICS)) {
      const numbers = [...Object.values(baseNanos), ...Object.values(bytesPerMicro), ...Object.values(costs)];
      expect([name, numbers.every((number) => Number.isInteger(number) && number >= 0)]).toEqual([
        name,
        true,
      ]);
    }
  });
});

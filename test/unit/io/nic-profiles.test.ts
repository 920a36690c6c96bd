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

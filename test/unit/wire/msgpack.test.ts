import { encode } from '@msgpack/msgpack';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { UsageError } from '../../../src/base/failure.ts';
import { decodeMsgpack, MSGPACK_DEPTH_MAX } from '../../../src/wire/msgpack.ts';

/** The code of a refusal, or 'fine'. */
function verdictOf(bytes: ArrayLike<number>): string {
  try {
    decodeMsgpack(Uint8Array.from(bytes));
    return 'fine';
  } catch (error) {
    if (error instanceof UsageError) return error.code;
    throw error;
  }
}

test('what the library writes reads back', () => {
  const scalar = fc.oneof(fc.boolean(), fc.constant(null), fc.string(), fc.maxSafeInteger(), fc.double());
  const bin = fc.uint8Array({ maxLength: 300 });
  const value = fc.letrec((tie) => ({
    any: fc.oneof({ maxDepth: 5 }, scalar, bin, fc.array(tie('any')), fc.dictionary(fc.string(), tie('any'))),
  })).any;
  fc.assert(
    fc.property(value, (written) => {
      const bytes = encode(written, { maxDepth: 99 });
      // A map's key may be one that the library refuses; that is no matter of claims.
      fc.pre(verdictOf(bytes) !== 'MSGPACK-FORMAT');
      expect(verdictOf(bytes)).toBe('fine');
    }),
    { seed: 42, numRuns: 1000 },
  );
});

/** Heads with a count of 32 bits, by their tag. */
const WIDE = [
  ['str', 0xdb],
  ['bin', 0xc6],
  ['ext', 0xc9],
  ['array', 0xdd],
  ['map', 0xdf],
] as const;

describe.each(WIDE)('a %s that claims more than is there', (_, tag) => {
  test.each([0xff_ff_ff_ff, 0x7f_ff_ff_ff, 0x01_00_00_00, 0x100])('claims %d', (count) => {
    const head = [tag, count >>> 24, (count >>> 16) & 255, (count >>> 8) & 255, count & 255];
    expect(verdictOf(head)).toBe('MSGPACK-SHORT');
    expect(verdictOf([0x92, 1, ...head, ...new Uint8Array(60)])).toBe('MSGPACK-SHORT');
    expect(verdictOf([0x81, 0xa1, 0x78, ...head, ...new Uint8Array(60)])).toBe('MSGPACK-SHORT');
  });
});

test('thirty lists within each other that claim a million entries each are refused before room is made', () => {
  const bytes = Array.from({ length: 30 }, () => [0xdd, 0x00, 0x10, 0x00, 0x00]).flat();
  const before = process.memoryUsage().heapTotal;
  for (let round = 0; round < 50; round++) expect(verdictOf(bytes)).toBe('MSGPACK-SHORT');
  expect(process.memoryUsage().heapTotal - before).toBeLessThan(64 << 20);
});

test('claims that fit one by one and not together are refused', () => {
  // Three lists of 60 entries each, and 60 bytes.
  const head = [0xdc, 0, 60];
  expect(verdictOf([...head, ...head, ...head, ...new Uint8Array(60)])).toBe('MSGPACK-SHORT');
});

test('nesting is followed to its limit and not beyond', () => {
  const nested = (levels: number): number[] => [...new Array<number>(levels).fill(0x91), 0xc0];
  expect(verdictOf(nested(MSGPACK_DEPTH_MAX))).toBe('fine');
  expect(verdictOf(nested(MSGPACK_DEPTH_MAX + 1))).toBe('MSGPACK-DEPTH');
  expect(verdictOf(nested(10_000))).toBe('MSGPACK-DEPTH');
});

test.each([
  ['nothing', [], 'MSGPACK-SHORT'],
  ['the byte that starts nothing', [0xc1], 'MSGPACK-FORMAT'],
  ['that byte within a list', [0x91, 0xc1], 'MSGPACK-FORMAT'],
  ['two objects', [1, 2], 'MSGPACK-FORMAT'],
  ['a key that is a list', [0x81, 0x90, 1], 'MSGPACK-FORMAT'],
  ['the key of the prototype', [0x81, 0xa9, ...new TextEncoder().encode('__proto__'), 1], 'MSGPACK-FORMAT'],
  ['a timestamp of 3 bytes', [0xc7, 3, 0xff, 1, 2, 3], 'MSGPACK-FORMAT'],
  ['half a number', [0xcb, 1, 2], 'MSGPACK-SHORT'],
])('%s', (_, bytes, code) => {
  expect(verdictOf(bytes)).toBe(code);
});

import { decode, encode } from '@msgpack/msgpack';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { UsageError } from '../../../src/base/failure.ts';
import * as pack from '../../../src/io/msgpack.ts';

const open = (...bytes: number[]) => pack.openMsgpack(Uint8Array.from(bytes));

function codeOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (error instanceof UsageError) return error.code;
    throw error;
  }
  return 'accepted';
}

const INT53: pack.IntRange = {
  least: BigInt(Number.MIN_SAFE_INTEGER),
  most: BigInt(Number.MAX_SAFE_INTEGER),
};

/** Numbers close to the places where the encoding changes width. */
const edge = fc
  .tuple(fc.constantFrom(0, 5, 7, 8, 15, 16, 31, 32, 52), fc.integer({ min: -2, max: 2 }), fc.boolean())
  .map(([power, delta, negative]) => (negative ? -(2 ** power) : 2 ** power) + delta);

test('integers have the bytes that @msgpack/msgpack gives numbers, and read back', () => {
  fc.assert(
    fc.property(fc.oneof(edge, fc.maxSafeInteger()), (value) => {
      const out: number[] = [];
      pack.writeInt(out, value, INT53);
      expect(out).toEqual([...encode(value)]);
      expect(BigInt(pack.readInt(pack.openMsgpack(Uint8Array.from(out)), INT53))).toBe(BigInt(value));
    }),
    { seed: 42, numRuns: 500 },
  );
});

test('texts, bytes and array heads have the bytes of @msgpack/msgpack at every change of width', () => {
  for (const size of [0, 1, 15, 16, 31, 32, 255, 256, 65535, 65536]) {
    const text: number[] = [];
    const bin: number[] = [];
    const array: number[] = [];
    pack.writeText(text, 'k'.repeat(size));
    pack.writeBin(bin, new Uint8Array(size));
    pack.writeArrayCount(array, size);
    expect(Uint8Array.from(text)).toEqual(encode('k'.repeat(size)));
    expect(Uint8Array.from(bin)).toEqual(encode(new Uint8Array(size)));
    expect(array).toEqual([...encode(new Array(size).fill(0)).subarray(0, array.length)]);
    expect(pack.readText(pack.openMsgpack(Uint8Array.from(text)))).toBe('k'.repeat(size));
    expect(pack.readBin(pack.openMsgpack(Uint8Array.from(bin)))).toEqual(new Uint8Array(size));
  }
});

test('@msgpack/msgpack cannot stand in: it writes small bigints in nine bytes and reads 9.0 as 9', () => {
  expect(encode(9n, { useBigInt64: true }).length).toBe(9);
  expect(decode(encode(9, { forceFloat32: true }))).toBe(9);
});

test('the same integer reads from every width that holds it', () => {
  const nine = [[9], [0xcc, 9], [0xcd, 0, 9], [0xd0, 9], [0xd1, 0, 9], [0xd3, 0, 0, 0, 0, 0, 0, 0, 9]];
  for (const bytes of nine) expect(BigInt(pack.readInt(open(...bytes), pack.UINT32))).toBe(9n);
});

test('nil, bools, floats, str, bin, ext, arrays and maps are no integers', () => {
  const others = [
    [0xc0],
    [0xc2],
    [0xc3],
    [0xca, 0, 0, 0, 0],
    [0xa1, 57],
    [0xc4, 0],
    [0xd4, 1, 2],
    [0x90],
    [0x80],
  ];
  for (const bytes of others)
    expect(codeOf(() => pack.readInt(open(...bytes), pack.INT32))).toBe('DESC-TYPE');
});

test('an integer just outside its range is a type error when read and a range error when written', () => {
  for (const range of [pack.INT32, pack.UINT16, pack.UINT32]) {
    for (const outside of [BigInt(range.least) - 1n, BigInt(range.most) + 1n]) {
      const out: number[] = [];
      pack.writeInt(out, outside, INT53);
      expect(codeOf(() => pack.readInt(pack.openMsgpack(Uint8Array.from(out)), range))).toBe('DESC-TYPE');
      expect(codeOf(() => pack.writeInt([], outside, range))).toBe('DESC-RANGE');
    }
    for (const inside of [range.least, range.most])
      expect(codeOf(() => pack.writeInt([], inside, range))).toBe('accepted');
  }
});

test('what is no integer at all cannot be written as one', () => {
  for (const value of [1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
    expect(codeOf(() => pack.writeInt([], value, pack.INT32))).toBe('DESC-RANGE');
  }
});

test('a cut-off object is short even where an earlier field has the wrong type', () => {
  expect(codeOf(() => open(0x92, 0xc3))).toBe('DESC-SHORT');
});

test('the byte c1 starts no object', () => {
  expect(codeOf(() => open(0x91, 0xc1))).toBe('DESC-FORMAT');
});

test('a str that is not UTF-8 is refused, not repaired', () => {
  expect(codeOf(() => pack.readText(open(0xa1, 0xff)))).toBe('DESC-TEXT');
});

test('raw bytes do not read from a str', () => {
  expect(codeOf(() => pack.readBin(open(0xa1, 0x41)))).toBe('DESC-TYPE');
});

test('lengths of 4 GiB in a few bytes are short, at once', () => {
  for (const tag of [0xc6, 0xc9, 0xdb, 0xdd, 0xdf]) {
    expect(codeOf(() => open(tag, 0xff, 0xff, 0xff, 0xff))).toBe('DESC-SHORT');
  }
});

test('a million arrays inside each other are walked without a deep stack', () => {
  const deep = new Uint8Array(1_000_000).fill(0x91);
  expect(codeOf(() => pack.openMsgpack(deep))).toBe('DESC-SHORT');
  deep[deep.length - 1] = 0;
  expect(pack.readArrayCount(pack.openMsgpack(deep))).toBe(1);
});

test('claims that add up beyond 2^53 objects end with the input', () => {
  const claims = new Uint8Array(6_000_000);
  for (let offset = 0; offset < claims.length; offset += 5)
    claims.set([0xdf, 0xff, 0xff, 0xff, 0xff], offset);
  expect(codeOf(() => pack.openMsgpack(claims))).toBe('DESC-SHORT');
});

test('skipping passes over exactly one object, whatever it holds', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const bytes = Uint8Array.from([...encode(value), 0x7f]);
      const cursor = { bytes, offset: 0 };
      pack.skipObject(cursor);
      expect(cursor.offset).toBe(bytes.length - 1);
    }),
    { seed: 42, numRuns: 300 },
  );
});

/**
 * Each tag from c4 to df that has content, with a length of 2 where it carries one, and how much follows the
 * tag.
 */
const WIDE_CASES: [tag: number, rest: number[]][] = [
  [0xc4, [2, 0, 0]],
  [0xc5, [0, 2, 0, 0]],
  [0xc6, [0, 0, 0, 2, 0, 0]],
  [0xc7, [2, 9, 0, 0]],
  [0xc8, [0, 2, 9, 0, 0]],
  [0xc9, [0, 0, 0, 2, 9, 0, 0]],
  [0xca, new Array(4).fill(0)],
  [0xcb, new Array(8).fill(0)],
  ...[1, 2, 4, 8].flatMap((width, power): [number, number[]][] => [
    [0xcc + power, new Array(width).fill(0)],
    [0xd0 + power, new Array(width).fill(0)],
  ]),
  ...[1, 2, 4, 8, 16].map((width, power): [number, number[]] => [0xd4 + power, new Array(width + 1).fill(0)]),
  [0xd9, [2, 65, 65]],
  [0xda, [0, 2, 65, 65]],
  [0xdb, [0, 0, 0, 2, 65, 65]],
  [0xdc, [0, 2, 0, 0]],
  [0xdd, [0, 0, 0, 2, 0, 0]],
  [0xde, [0, 2, 0, 0, 0, 0]],
  [0xdf, [0, 0, 0, 2, 0, 0, 0, 0]],
];

test('every tag with content ends exactly where the format says', () => {
  expect(new Set(WIDE_CASES.map(([tag]) => tag)).size).toBe(0xe0 - 0xc4);
  for (const [tag, rest] of WIDE_CASES) {
    const cursor = { bytes: Uint8Array.from([tag, ...rest, 0xc1]), offset: 0 };
    pack.skipObject(cursor);
    expect([tag, cursor.offset]).toEqual([tag, rest.length + 1]);
  }
});

test('an input that starts in the middle of a buffer reads the same', () => {
  const outer = Uint8Array.from([1, 2, 0xcd, 0x01, 0x00, 3]);
  expect(pack.readInt(pack.openMsgpack(outer.subarray(2, 5)), pack.UINT32)).toBe(256);
});

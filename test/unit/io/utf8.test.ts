import fc from 'fast-check';
import { expect, test } from 'vitest';
import { UsageError } from '../../../src/base/failure.ts';
import { decodeUtf8, encodeUtf8 } from '../../../src/base/utf8.ts';

/** Node's own decoder, in its strict form, as the twin. */
function strictDecode(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

test('whole texts have the bytes that TextEncoder gives them, and read back', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      expect(encodeUtf8(text)).toEqual(Uint8Array.from(new TextEncoder().encode(text)));
      expect(decodeUtf8(encodeUtf8(text))).toBe(text);
    }),
    { seed: 42, numRuns: 500 },
  );
});

/** Bytes that are almost UTF-8: pieces at the borders of what is allowed. */
const piece = fc.constantFrom(
  [0x41],
  [0x7f],
  [0x80],
  [0xc0, 0x80],
  [0xc1, 0xbf],
  [0xc2, 0x80],
  [0xdf, 0xbf],
  [0xc2],
  [0xe0, 0x9f, 0xbf],
  [0xe0, 0xa0, 0x80],
  [0xed, 0x9f, 0xbf],
  [0xed, 0xa0, 0x80],
  [0xef, 0xbb, 0xbf],
  [0xf0, 0x8f, 0xbf, 0xbf],
  [0xf0, 0x90, 0x80, 0x80],
  [0xf4, 0x8f, 0xbf, 0xbf],
  [0xf4, 0x90, 0x80, 0x80],
  [0xf0, 0x90, 0x80],
  [0xf8],
  [0xf8, 0x90, 0x80, 0x80],
  [0xff],
);

test('bytes are accepted exactly when the strict TextDecoder accepts them', () => {
  const seen = { accepted: 0, refused: 0 };
  const anyBytes = fc.oneof(
    fc.array(piece, { maxLength: 3 }).map((pieces) => Uint8Array.from(pieces.flat())),
    fc.uint8Array({ maxLength: 6 }),
  );
  fc.assert(
    fc.property(anyBytes, (bytes) => {
      const text = decodeUtf8(bytes);
      expect(text).toBe(strictDecode(bytes));
      seen[text === undefined ? 'refused' : 'accepted'] += 1;
    }),
    { seed: 42, numRuns: 3000 },
  );
  expect(seen.accepted).toBeGreaterThan(100);
  expect(seen.refused).toBeGreaterThan(100);
});

test('half a surrogate pair has no bytes', () => {
  expect(() => encodeUtf8('a\ud800b')).toThrow(UsageError);
  expect(() => encodeUtf8('\udc00')).toThrow(UsageError);
});

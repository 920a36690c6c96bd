import fc from 'fast-check';
import type { ZmqAddress } from '../../reference/addresses.ts';

/** What the property tests of the wire forms draw from. */

const label = fc.stringMatching(/^[a-z0-9]([a-z0-9_-]{0,12}[a-z0-9])?$/);
const name = fc.array(label, { minLength: 1, maxLength: 4 }).map((labels) => labels.join('.'));
const scoped = fc.ipV6().map((host) => `${host}%eth0`);

/** Names with and without underscores, IPv4, IPv6 with and without scope or brackets. */
export const host: fc.Arbitrary<string> = fc.oneof(
  name,
  fc.ipV4(),
  fc.ipV6(),
  scoped,
  fc.ipV6().map((inner) => `[${inner}]`),
  fc.constantFrom('::1', 'node_7', '_', '___', 'a__b', 'prefill_addr', '___decode', '_0123456789abcdef'),
);

export const port: fc.Arbitrary<number> = fc.integer({ min: 1, max: 65_535 });

export const zmqAddress: fc.Arbitrary<ZmqAddress> = fc.record({
  host,
  handshakePort: port,
  notifyPort: port,
});

const hexDigit = fc.constantFrom(...'0123456789abcdef');
export const hex = (digits: number): fc.Arbitrary<string> =>
  fc.array(hexDigit, { minLength: digits, maxLength: digits }).map((list) => list.join(''));

const PIECES = [
  '___prefill_addr_',
  '___decode_addr_',
  'host:10.0.0.1,handshake:6301,notify:61005',
  'host:',
  'handshake:',
  'notify:',
  ',',
  ':',
  '_',
  '-',
  'cmpl-',
  '-1a2b3c4d',
  '0123456789abcdef0123456789abcdef',
  '6301',
  '[',
  ']',
  '\n',
  'tx-',
  '\u0000',
  '٦',
  '\ud800',
];

const RIGHT = `___prefill_addr_${PIECES[2]}___decode_addr_${PIECES[2]}_${PIECES[12]}`;

/** A right id in which a few characters gave way to a piece; now and then it still is one. */
const almostRight = fc
  .tuple(fc.nat({ max: RIGHT.length }), fc.nat({ max: 40 }), fc.constantFrom('', ...PIECES))
  .map(([at, gone, piece]) => RIGHT.slice(0, at) + piece + RIGHT.slice(at + gone));

/** Texts of any kind, texts made of pieces of the right ones, and almost right ones: each comes further than the last. */
export const anyText: fc.Arbitrary<string> = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 200 }),
  fc
    .array(fc.oneof(fc.constantFrom(...PIECES), fc.string({ maxLength: 4 })), { maxLength: 14 })
    .map((pieces) => pieces.join('')),
  almostRight,
  fc.tuple(almostRight, fc.nat({ max: 100 })).map(([text, from]) => text.slice(from)),
);

/** A million characters on which a pattern that goes back and forth would take for ever. */
export const LONG_TEXTS: readonly string[] = [...PIECES, 'a', '0', '_0123456789abcde', ',host:', '%:'].map(
  (piece) => piece.repeat(Math.ceil(1_000_000 / piece.length)),
);

import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { UsageError } from '../../../src/base/failure.ts';
import * as ids from '../../reference/request-id.ts';
import { anyText, hex, LONG_TEXTS, zmqAddress } from './wire-arbitraries.ts';

const P = { host: '10.0.0.1', handshakePort: 6301, notifyPort: 61_005 };
const D = { host: '10.0.0.2', handshakePort: 6301, notifyPort: 61_005 };
const UNIQUE = '0123456789abcdef0123456789abcdef';

const codeOf = (ask: () => unknown): string => {
  try {
    ask();
  } catch (error) {
    if (error instanceof UsageError) return error.code;
    throw error;
  }
  return 'accepted';
};

/** What vLLM makes of an id before the connector sees it. */
const wrapper = fc.oneof(
  fc.constant((id: string) => id),
  hex(8).map((tail) => (id: string) => `chatcmpl-${id}-${tail}`),
  fc.tuple(fc.nat({ max: 3 }), hex(8)).map(
    ([choice, tail]) =>
      (id: string) =>
        `cmpl-${id}-${choice}-${tail}`,
  ),
);

test('the example of docs/WIRE.md is what we build, 146 characters', () => {
  const example = ids.buildRequestId(P, D, UNIQUE);
  expect(example).toHaveLength(146);
  const page = readFileSync(new URL('../../../docs/WIRE.md', import.meta.url), 'utf8');
  expect(page.split('\n')).toContain(example);
});

describe('a request id', () => {
  test('reads back as it was built, whatever vLLM wraps around it', () => {
    const seen = { ipv6: 0, underscore: 0, wrapped: 0 };
    fc.assert(
      fc.property(zmqAddress, zmqAddress, hex(32), wrapper, (prefill, decode, unique, wrap) => {
        const id = ids.buildRequestId(prefill, decode, unique);
        const wrapped = wrap(id);
        seen.ipv6 += Number(prefill.host.includes(':'));
        seen.underscore += Number(decode.host.includes('_'));
        seen.wrapped += Number(wrapped !== id);
        expect(ids.parseRequestId(wrapped)).toEqual({ prefill, decode });
        expect(ids.readRequestId(wrapped).unique).toBe(unique);
        expect(ids.peerOfRequest(wrapped, 'prefill')).toEqual(decode);
        expect(ids.peerOfRequest(wrapped, 'decode')).toEqual(prefill);
      }),
      { seed: 42, numRuns: 1000 },
    );
    for (const count of Object.values(seen)) expect(count).toBeGreaterThan(100);
  });

  test('is the same on both legs without the suffix', () => {
    fc.assert(
      fc.property(zmqAddress, zmqAddress, hex(32), hex(8), hex(8), (prefill, decode, unique, one, other) => {
        const id = ids.buildRequestId(prefill, decode, unique);
        expect(ids.stripSuffix(`chatcmpl-${id}-${one}`)).toBe(`chatcmpl-${id}`);
        expect(ids.stripSuffix(`cmpl-${id}-0-${one}`)).toBe(ids.stripSuffix(`cmpl-${id}-0-${other}`));
        expect(ids.stripSuffix(id)).toBe(id);
      }),
      { seed: 42, numRuns: 300 },
    );
  });

  const whole = ids.buildRequestId(P, D, UNIQUE);
  test.each([
    ['a dashed uuid', whole.replace(UNIQUE, '01234567-89ab-cdef-0123-456789abcdef')],
    ['upper-case digits', whole.replace(UNIQUE, UNIQUE.toUpperCase())],
    ['a newline at the end', `${whole}\n`],
    ['a control character within', whole.replace('notify', 'not\x1fify')],
    ['a letter that is not ASCII', `${whole}-ä`],
    ['the parts in the wrong order', `___decode_addr_b_${UNIQUE}-___prefill_addr_a`],
    ['marks that share their underscores', `___prefill_addr___decode_addr_b_${UNIQUE}`],
    ['a length beyond the limit', `${whole}-${'a'.repeat(ids.REQUEST_ID_CHARS_MAX)}`],
  ])('is refused with %s', (_, id) => {
    expect(codeOf(() => ids.readRequestId(id))).toBe('REQUEST-ID-FORM');
  });

  test.each([
    ['a host that holds a mark', { ...P, host: 'a___decode_addr_b' }, UNIQUE, 'REQUEST-ID-FORM'],
    ['a host that ends like an id', { ...P, host: `a_${UNIQUE}` }, UNIQUE, 'REQUEST-ID-FORM'],
    [
      'a host that ends like an id before a suffix',
      { ...P, host: `a_${UNIQUE}-b` },
      UNIQUE,
      'REQUEST-ID-FORM',
    ],
    ['a host that is none', { ...P, host: 'a b' }, UNIQUE, 'ADDRESS-HOST'],
    ['31 digits', P, UNIQUE.slice(1), 'REQUEST-ID-UNIQUE'],
    ['a newline after the digits', P, `${UNIQUE}\n`, 'REQUEST-ID-UNIQUE'],
  ])('is not built with %s', (_, decode, unique, code) => {
    expect(codeOf(() => ids.buildRequestId(P, decode, unique))).toBe(code);
  });

  test('may hold blanks around the parts of its addresses', () => {
    const spaced = whole.replaceAll(',', ' ,\t').replaceAll('notify:', 'notify : ');
    expect(ids.parseRequestId(spaced)).toEqual(ids.parseRequestId(whole));
  });

  test('of the longest hosts fits, wrapped', () => {
    const long = { host: 'a'.repeat(255), handshakePort: 65_535, notifyPort: 65_535 };
    const id = `chatcmpl-${ids.buildRequestId(long, long, UNIQUE)}-01234567`;
    expect(ids.parseRequestId(id)).toEqual({ prefill: long, decode: long });
  });
});

test('any text is read or refused with a UsageError, however long', () => {
  const readers = [
    ids.readRequestId,
    ids.parseRequestId,
    (text: string) => ids.peerOfRequest(text, 'decode'),
    ids.parseTransferId,
    ids.stripSuffix,
    ids.holdsAddresses,
  ];
  const readAll = (text: string): string[] => readers.map((read) => codeOf(() => read(text)));
  let whole = 0;
  fc.assert(
    fc.property(anyText, (text) => {
      const [read] = readAll(text);
      whole += Number(read === 'accepted');
    }),
    { seed: 42, numRuns: 5000 },
  );
  expect(whole).toBeGreaterThan(20);
  const started = performance.now();
  for (const text of LONG_TEXTS) {
    expect(readAll(text).slice(0, 4)).not.toContain('accepted');
    expect(readAll(`___prefill_addr_a___decode_addr_${text.slice(0, 900)}`)[3]).toBe('TRANSFER-ID');
  }
  expect(performance.now() - started).toBeLessThan(5000);
});

describe('a transfer id', () => {
  test('reads back as it was built, with or without dashes', () => {
    fc.assert(
      fc.property(hex(32), (unique) => {
        const id = ids.buildTransferId(unique);
        expect(ids.parseTransferId(id)).toBe(unique);
        const dashed = id.replace(/^tx-(.{8})(.{4})(.{4})(.{4})/, 'tx-$1-$2-$3-$4-');
        expect(ids.parseTransferId(dashed)).toBe(unique);
      }),
      { seed: 42, numRuns: 200 },
    );
  });

  test.each([
    `tx-${UNIQUE}0`,
    `tx-${UNIQUE.slice(1)}`,
    `tx_${UNIQUE}`,
    UNIQUE,
    `tx-${UNIQUE}\n`,
    `TX-${UNIQUE}`,
    '',
  ])('%j is none', (text) => {
    expect(codeOf(() => ids.parseTransferId(text))).toBe('TRANSFER-ID');
  });
});

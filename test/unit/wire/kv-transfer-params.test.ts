import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { UsageError } from '../../../src/base/failure.ts';
import { legOf, parseReadMode, readRequestMeta } from '../../reference/kv-transfer-params.ts';
import { buildRequestId } from '../../reference/request-id.ts';
import { anyText } from './wire-arbitraries.ts';

const P = { host: 'fd00::1', handshakePort: 6301, notifyPort: 61_005 };
const D = { host: 'node_2', handshakePort: 6401, notifyPort: 61_105 };
const ID = buildRequestId(P, D, '0123456789abcdef0123456789abcdef');
const BARE = { transfer_id: 'tx-1', remote_block_ids: null, remote_engine_id: null };
const FULL = {
  ...BARE,
  remote_block_ids: [4, 5],
  remote_host: '10.0.0.1',
  remote_handshake_port: '1',
  remote_notify_port: 2,
};

const codeOf = (ask: () => unknown): string => {
  try {
    ask();
  } catch (error) {
    if (error instanceof UsageError) return error.code;
    throw error;
  }
  return 'accepted';
};

describe('the peer', () => {
  const whole = 'host:10.0.0.3,handshake:3,notify:4';
  test.each([
    ['fields of its own', ID, FULL, { host: '10.0.0.1', handshakePort: 1, notifyPort: 2 }],
    ['the request id', ID, { ...BARE, remote_zmq_address: whole }, P],
    ['the request id, if one of the fields is null', ID, { ...FULL, remote_notify_port: null }, P],
    [
      'one field',
      'plain',
      { ...BARE, remote_zmq_address: whole },
      { host: '10.0.0.3', handshakePort: 3, notifyPort: 4 },
    ],
  ])('comes from %s', (_, id, params, peer) => {
    expect(readRequestMeta(id, 'decode', params).remote).toEqual(peer);
  });

  test('of P is D', () => {
    expect(readRequestMeta(ID, 'prefill', BARE).remote).toEqual(D);
  });

  test.each([
    [
      'a request id that is broken, though another address is there',
      `${ID}\n`,
      { ...BARE, remote_zmq_address: 'host:a,handshake:1,notify:2' },
      'REQUEST-ID-FORM',
    ],
    ['no address', 'plain', BARE, 'PARAMS-ADDRESS'],
    ['an address that is no text', 'plain', { ...BARE, remote_zmq_address: 7 }, 'PARAMS-ADDRESS'],
    ['a host that is no text', 'plain', { ...FULL, remote_host: 7 }, 'ADDRESS-HOST'],
    ['a port of 0', 'plain', { ...FULL, remote_notify_port: 0 }, 'ADDRESS-PORT'],
    ['a port that is a flag', 'plain', { ...FULL, remote_notify_port: true }, 'ADDRESS-PORT'],
  ])('is refused with %s', (_, id, params, code) => {
    expect(codeOf(() => readRequestMeta(id, 'decode', params))).toBe(code);
  });
});

describe('the fields', () => {
  const read = (fields: object): string =>
    codeOf(() => readRequestMeta(ID, 'decode', { ...BARE, ...fields }));

  test.each([
    ['both sizes, equal', { tp_size: 4, remote_tp_size: 4 }],
    ['blocks of several groups', { remote_block_ids: [[1, 2], [], [3]] }],
    ['no blocks', { remote_block_ids: [] }],
    ['a pinned rank', { remote_dp_size: 2, remote_dp_rank: 1 }],
    ['fields nobody knows', { remote_dp_rank_override: true, extra: {} }],
  ])('may hold %s', (_, fields) => {
    expect(read(fields)).toBe('accepted');
  });

  test.each([
    ['two sizes', { tp_size: 4, remote_tp_size: 8 }],
    ['a size of 0', { remote_tp_size: 0 }],
    ['a size as text', { tp_size: '4' }],
    ['a size that is cut', { remote_dp_size: 1.5 }],
    ['a rank that is not there', { remote_dp_size: 2, remote_dp_rank: 2 }],
    ['a rank without a size', { remote_dp_rank: 1 }],
    ['a negative block', { remote_block_ids: [1, -1] }],
    ['a block as text', { remote_block_ids: ['1'] }],
    ['blocks and lists mixed', { remote_block_ids: [1, [2]] }],
    ['blocks three lists deep', { remote_block_ids: [[[1]]] }],
    ['blocks in a text', { remote_block_ids: '1,2' }],
    ['blocks as a map', { remote_block_ids: { length: 1, 0: 1 } }],
    ['an empty transfer id', { transfer_id: '' }],
    ['a null transfer id', { transfer_id: null }],
    ['an endless transfer id', { transfer_id: 'x'.repeat(513) }],
    ['an engine id that is a number', { remote_engine_id: 7 }],
  ])('may not hold %s', (_, fields) => {
    expect(read(fields)).toBe('PARAMS-FIELD');
  });

  test.each(Object.keys(BARE))('must hold %s, and not by inheritance', (field) => {
    const inherited = Object.create(BARE) as Record<string, unknown>;
    for (const [name, value] of Object.entries(BARE)) if (name !== field) inherited[name] = value;
    expect(codeOf(() => readRequestMeta(ID, 'decode', inherited))).toBe('PARAMS-FIELD');
  });

  test('are copied', () => {
    const blocks = [[1, 2], [3]];
    const flat = [7];
    const nested = readRequestMeta(ID, 'decode', { ...BARE, remote_block_ids: blocks });
    const plain = readRequestMeta(ID, 'decode', { ...BARE, remote_block_ids: flat });
    blocks[0]!.push(9);
    blocks.pop();
    flat.push(9);
    expect([nested.remoteBlocks, plain.remoteBlocks]).toEqual([[[1, 2], [3]], [7]]);
  });

  test('have these values when they are left out, or are only inherited', () => {
    const inherited = Object.assign(Object.create({ tp_size: 8, remote_dp_rank: 3 }), BARE);
    const { remoteTpSize, remoteDpSize, remoteDpRank } = readRequestMeta(ID, 'decode', inherited);
    expect([remoteTpSize, remoteDpSize, remoteDpRank]).toEqual([1, 1, null]);
  });
});

test('the leg of a request follows from its two flags', () => {
  expect(legOf({ do_remote_decode: true, do_remote_prefill: false })).toBe('prefill');
  expect(legOf({ do_remote_decode: false, do_remote_prefill: true })).toBe('decode');
  expect([legOf(undefined), legOf(null), legOf({}), legOf({ do_remote_decode: null })]).toEqual(
    Array(4).fill('whole'),
  );
  expect(codeOf(() => legOf({ do_remote_decode: true, do_remote_prefill: true }))).toBe('PARAMS-LEG');
  expect(codeOf(() => legOf({ do_remote_decode: 'true' }))).toBe('PARAMS-LEG');
  expect(codeOf(() => legOf([]))).toBe('PARAMS-FIELD');
});

test('the mode is a flag or the word for one', () => {
  expect([true, 1, ' TRUE '].map(parseReadMode)).toEqual(['read', 'read', 'read']);
  expect([false, 0, 'False', undefined].map(parseReadMode)).toEqual(Array(4).fill('write'));
  for (const flag of [{}, [], ['true'], 2, Number.NaN, 'none', 1n])
    expect(codeOf(() => parseReadMode(flag))).toBe('MODE');
});

test('any parameters are read or refused with a UsageError', () => {
  const names = [
    ...Object.keys(FULL),
    'tp_size',
    'remote_tp_size',
    'remote_dp_size',
    'remote_dp_rank',
    '__proto__',
  ];
  const value = fc.oneof(fc.anything(), anyText, fc.constantFrom(1, 2, null, [1], 'tx-1', '10.0.0.1'));
  const params = fc.oneof(
    fc.anything(),
    fc.dictionary(fc.constantFrom(...names), value),
    fc.tuple(fc.constantFrom(...names), value).map(([name, inner]) => ({ ...FULL, [name]: inner })),
  );
  const id = fc.oneof(anyText, fc.constant(ID));
  let accepted = 0;
  fc.assert(
    fc.property(id, params, fc.constantFrom('prefill' as const, 'decode' as const), (text, given, role) => {
      accepted += Number(codeOf(() => readRequestMeta(text, role, given)) === 'accepted');
      codeOf(() => legOf(given));
      codeOf(() => parseReadMode(given));
    }),
    { seed: 42, numRuns: 5000 },
  );
  expect(accepted).toBeGreaterThan(50);
});

import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { UsageError } from '../../../src/base/failure.ts';
import { parseZmqAddress } from '../../reference/addresses.ts';
import { readRequestMeta } from '../../reference/kv-transfer-params.ts';
import { ackingRanks, expectedAckCount, remoteTpRank } from '../../reference/ranks.ts';
import { readRequestId, stripSuffix } from '../../reference/request-id.ts';
import * as upstream from '../../reference/upstream.ts';

/**
 * Ours against an independent reading of upstream, on drawn inputs. A difference belongs to a kind that docs/WIRE.md
 * lists; a kind on the page is seen to differ; and an input of a kind that is refused is refused.
 */

const PAGE = readFileSync(new URL('../../../docs/WIRE.md', import.meta.url), 'utf8');

/** The kinds in the table of drawn inputs. */
const LISTED = [...PAGE.matchAll(/^\| (D\d\d) \|/gm)].map((row) => row[1]!);

function outcomeOf(ask: () => unknown): unknown {
  try {
    return { value: ask() };
  } catch (error) {
    if (!(error instanceof UsageError || error instanceof upstream.Refused)) throw error;
    return 'refused';
  }
}

/** A kind of difference, and whether an input is of it. */
type Kinds<T> = { readonly [kind: string]: (input: T) => boolean };

interface Comparison<T> {
  readonly inputs: fc.Arbitrary<T>;
  readonly runs: number;
  readonly ours: (input: T) => unknown;
  readonly theirs: (input: T) => unknown;
  readonly kinds: Kinds<T>;
}

const seen = new Set<string>();

function compare<T>({ inputs, runs, ours, theirs, kinds }: Comparison<T>): void {
  let same = 0;
  let accepted = 0;
  const check = (input: T): void => {
    const [own, published] = [outcomeOf(() => ours(input)), outcomeOf(() => theirs(input))];
    const of = Object.keys(kinds).filter((kind) => kinds[kind]!(input));
    if (isDeepStrictEqual(own, published)) {
      same++;
      if (own !== 'refused') accepted++;
      // What upstream takes although a kind says that ours does not must differ; what both refuse says nothing.
      if (own !== 'refused') expect([input, of]).toEqual([input, []]);
      return;
    }
    expect([input, own, published, of]).not.toEqual([input, own, published, []]);
    // With one kind only, it is that kind that makes the difference.
    if (of.length === 1) seen.add(of[0]!);
  };
  fc.assert(fc.property(inputs, check), { seed: 42, numRuns: runs });
  expect(same).toBeGreaterThan(runs / 20);
  expect(accepted).toBeGreaterThan(runs / 100);
}

const blank = fc.constantFrom('', '', '', ' ', '\t', '\n', '\x1c', '\x85', '\u00a0', '\u3000', '\ufeff');
const padded = (inner: fc.Arbitrary<string>): fc.Arbitrary<string> =>
  fc.tuple(blank, inner, blank).map((parts) => parts.join(''));
const often = (right: string, ...odd: string[]): fc.Arbitrary<string> =>
  fc.oneof({ weight: 5, arbitrary: fc.constant(right) }, { weight: 1, arbitrary: fc.constantFrom(...odd) });

const hostText = often(
  '10.0.0.1',
  '::1',
  '[::1]',
  'a_b',
  '',
  'a b',
  'a/b',
  'é',
  'h'.repeat(256),
  'a\nb',
  '[a',
);
const portText = often(
  '6301',
  ...[
    '1',
    '65535',
    '000000000006301',
    '0',
    '65536',
    '-1',
    '+1',
    '6_301',
    '6__301',
    '٦٣',
    '1.0',
    '1e3',
    '',
    'x',
    '1 1',
  ],
);
const segment = fc.tuple(padded(often('x', 'extra', '')), padded(portText)).map((two) => two.join(':'));
const address = fc
  .tuple(
    fc.tuple(padded(often('host', 'HOST')), padded(hostText)),
    fc.tuple(padded(fc.constant('handshake')), padded(portText)),
    fc.tuple(padded(fc.constant('notify')), padded(portText)),
    fc.array(fc.oneof(segment, fc.constantFrom('host:10.0.0.9', 'notify:1', 'host', ',')), { maxLength: 1 }),
    often('', `,${'x'.repeat(1024)}`),
  )
  .map(([host, handshake, notify, more, tail]) =>
    [host.join(':'), handshake.join(':'), notify.join(':'), ...more].join(',').concat(tail),
  );

const partsOf = (text: string): [string, string][] =>
  text.split(',').map((part) => {
    const [key = '', ...rest] = part.split(':');
    return [upstream.strip(key), upstream.strip(rest.join(':'))];
  });
const valuesOf = (text: string, ...keys: string[]): string[] =>
  partsOf(text).flatMap(([key, value]) => (keys.includes(key) ? [value] : []));
const isHost = (text: string): boolean => text.length <= 255 && /^(?:[\w.:%-]+|\[[\w.:%-]+\])$/.test(text);
const isPort = (text: string): boolean =>
  /^[0-9]+$/.test(text) && Number(text) >= 1 && Number(text) <= 65_535;

const ADDRESS_KINDS: Kinds<string> = {
  D01: (text) => ['host', 'handshake', 'notify'].some((key) => valuesOf(text, key).length > 1),
  D02: (text) => valuesOf(text, 'host').some((host) => !isHost(host)),
  D03: (text) => valuesOf(text, 'handshake', 'notify').some((port) => !isPort(port)),
  D04: (text) => text.length > 1024,
};

const ID_PIECES = [
  '___prefill_addr_',
  'P',
  '___decode_addr_',
  'D',
  '_',
  '0123456789abcdef'.repeat(2),
  '-0-1a2b3c4d',
];
const TAIL = `_${'fedcba9876543210'.repeat(2)}`;
const idOf = fc
  .tuple(
    fc.constantFrom('', 'cmpl-', 'x'),
    fc.array(
      fc.tuple(fc.nat({ max: 6 }), fc.nat({ max: 2 }), fc.constantFrom(...ID_PIECES, TAIL, '\n', 'é', ' ')),
      {
        maxLength: 2,
      },
    ),
    often('', 'x'.repeat(1024)),
  )
  .map(([before, changes, tail]) => {
    const pieces = [...ID_PIECES];
    for (const [at, gone, piece] of changes) pieces.splice(at, gone, ...(gone === 2 ? [] : [piece]));
    return before + pieces.join('') + tail;
  });

const peersOf = (id: string): unknown[] =>
  [false, true].map((isProducer) => outcomeOf(() => upstream.peerOf(id, isProducer)));
const countOf = (text: string, piece: string): number => text.split(piece).length - 1;
const decodePart = (id: string): string => id.slice(id.indexOf(ID_PIECES[2]!) + ID_PIECES[2]!.length);

const ID_KINDS: Kinds<string> = {
  D04: (id) => id.length > 1024,
  D05: (id) => /[^\t -~]/.test(id),
  D06: (id) => peersOf(id).filter((one) => one === 'refused').length === 1,
  D07: (id) => countOf(id, ID_PIECES[0]!) > 1 || countOf(id, ID_PIECES[2]!) > 1,
  D08: (id) => [...decodePart(id).matchAll(/_(?=[0-9a-f]{32})/g)].length > 1,
};

type Fields = { readonly [field: string]: unknown };

const GONE = Symbol();
/** A field that mostly has its right value. */
const field = (right: unknown, ...odd: unknown[]): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 8, arbitrary: fc.constant(right) }, { weight: 1, arbitrary: fc.constantFrom(...odd) });
const META_ID = `___prefill_addr_host:a,handshake:1,notify:2___decode_addr_host:b,handshake:3,notify:4_${ID_PIECES[5]}`;
const BROKEN_ID = '___prefill_addr_x';

const meta = fc
  .record({
    id: fc.constantFrom(META_ID, META_ID, BROKEN_ID, 'plain'),
    isProducer: fc.boolean(),
    fields: fc.record({
      transfer_id: field('tx-1', GONE, '', 7, 't'.repeat(513)),
      remote_block_ids: field([1, 2], null, [[1], [2]], GONE, [-1], '12', [1.5]),
      remote_engine_id: field('a:1', null, GONE, '', 5),
      remote_host: field('10.0.0.1', GONE, null, '', 'a b', 7),
      remote_handshake_port: field(6301, '6301', ' 6301 ', GONE, 0, '0', 70_000, 1.5, true, '+1'),
      remote_notify_port: field(61_005, '61005', GONE),
      remote_zmq_address: field(GONE, 'host:z,handshake:8,notify:9', ''),
      tp_size: field(GONE, 8, 4, null, 0, '8', 1.5),
      remote_tp_size: field(GONE, 8, 4, null, 0),
      remote_dp_size: field(GONE, 2, null, 0, '2'),
      remote_dp_rank: field(GONE, null, 0, 1, -1, '1'),
    }),
  })
  .map(({ fields, ...rest }) => ({
    ...rest,
    fields: Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== GONE)) as Fields,
  }));
type Meta = { readonly id: string; readonly isProducer: boolean; readonly fields: Fields };

const isText = (value: unknown): boolean => typeof value === 'string' && value !== '' && value.length <= 512;
const isSize = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 1;
const areIds = (value: unknown): boolean =>
  Array.isArray(value) && value.every((one) => (Number.isSafeInteger(one) && one >= 0) || areIds(one));
const ownAddress = (fields: Fields): unknown[] =>
  ['remote_host', 'remote_handshake_port', 'remote_notify_port'].map((key) => fields[key] ?? null);
const hasOwn = (fields: Fields): boolean => !ownAddress(fields).includes(null);
const sizeOf = (fields: Fields, key: string): unknown => fields[key] ?? 1;

const META_KINDS: Kinds<Meta> = {
  D09: ({ fields }) => !('remote_block_ids' in fields) || !('remote_engine_id' in fields),
  D10: ({ fields }) => {
    const { transfer_id, remote_block_ids = null, remote_engine_id = null } = fields;
    const isEngine = remote_engine_id === null || isText(remote_engine_id);
    const areBlocks = remote_block_ids === null || areIds(remote_block_ids);
    return !isText(transfer_id) || !isEngine || !areBlocks;
  },
  D11: ({ fields }) =>
    ['tp_size', 'remote_tp_size', 'remote_dp_size'].some((key) => !isSize(sizeOf(fields, key))),
  D12: ({ fields }) => {
    const { tp_size, remote_tp_size, remote_dp_size } = fields;
    return (tp_size === undefined ? remote_tp_size : tp_size) === null || remote_dp_size === null;
  },
  D13: ({ fields: { tp_size = null, remote_tp_size = null } }) =>
    tp_size !== null && remote_tp_size !== null && tp_size !== remote_tp_size,
  D14: ({ id, fields }) => !hasOwn(fields) && id === BROKEN_ID && (fields['remote_zmq_address'] ?? '') !== '',
  D15: ({ fields }) => {
    const [host, ...ports] = ownAddress(fields);
    const isGood = (port: unknown): boolean =>
      typeof port === 'string' ? isPort(port.trim()) : isSize(port) && (port as number) <= 65_535;
    return hasOwn(fields) && !(typeof host === 'string' && isHost(host) && ports.every(isGood));
  },
  D16: ({ fields }) => {
    const rank = fields['remote_dp_rank'] ?? 0;
    return (
      !Number.isSafeInteger(rank) ||
      (rank as number) < 0 ||
      (rank as number) >= Number(sizeOf(fields, 'remote_dp_size'))
    );
  },
};

function ourMeta({ id, isProducer, fields }: Meta): object {
  const read = readRequestMeta(id, isProducer ? 'prefill' : 'decode', fields);
  return {
    transferId: read.transferId,
    blocks: read.remoteBlocks,
    engineId: read.remoteEngineId,
    host: read.remote.host,
    ports: [read.remote.handshakePort, read.remote.notifyPort],
    tpSize: read.remoteTpSize,
    dpSize: read.remoteDpSize,
    dpRank: read.remoteDpRank ?? 0,
  };
}

const suffixed = fc
  .array(fc.constantFrom('-', 'req', '1234abcd', '1234ABCD', 'a1B2c3D4', '1234abc', '\n', '-1234abcd', 'g'), {
    maxLength: 5,
  })
  .map((pieces) => pieces.join(''));
const tp = fc.integer({ min: -1, max: 24 });

describe('against an independent reading of upstream', () => {
  test('zmq addresses', () => {
    compare({
      inputs: address,
      runs: 3000,
      ours: (text) => {
        const { host, handshakePort, notifyPort } = parseZmqAddress(text);
        return [host, handshakePort, notifyPort];
      },
      theirs: upstream.zmqAddress,
      kinds: ADDRESS_KINDS,
    });
  });

  test('request ids', () => {
    compare({
      inputs: idOf,
      runs: 3000,
      ours: (id) => {
        const { prefill, decode } = readRequestId(id);
        return [prefill, decode];
      },
      theirs: (id) => {
        const peers = peersOf(id);
        if (peers.every((one) => one === 'refused')) throw new upstream.Refused('both');
        return peers.map((one) => (one === 'refused' ? one : (one as { value: string }).value));
      },
      kinds: ID_KINDS,
    });
  });

  test('kv_transfer_params', () => {
    compare({
      inputs: meta,
      runs: 4000,
      ours: ourMeta,
      theirs: ({ id, isProducer, fields }) => upstream.requestMeta(id, isProducer, fields),
      kinds: META_KINDS,
    });
  });

  test('suffixes of request ids, without any difference', () => {
    compare({ inputs: suffixed, runs: 2000, ours: stripSuffix, theirs: upstream.stripSuffix, kinds: {} });
  });

  test('how many acks are expected, and the rank turned to, without any difference', () => {
    const pair = fc.tuple(tp, tp, tp);
    compare({
      inputs: pair,
      runs: 2000,
      ours: ([p, d]) => expectedAckCount(p, d),
      theirs: ([p, d]) => upstream.ackCount(p, d),
      kinds: {},
    });
    compare({
      inputs: pair,
      runs: 2000,
      ours: ([local, remote, rank]) => remoteTpRank(rank, local, remote),
      theirs: ([local, remote, rank]) => upstream.remoteTpRank(rank, local, remote),
      kinds: {},
    });
  });

  test('whose ack counts: of a smaller group that does not divide ours nobody turns to us', () => {
    compare({
      inputs: fc.tuple(tp, tp),
      runs: 1000,
      ours: ([p, d]) => ackingRanks(p, d, 0).length,
      theirs: ([p, d]) => upstream.ackCount(p, d),
      kinds: { D17: ([p, d]) => p > 0 && d > 0 && d < p && p % d !== 0 },
    });
  });

  test('docs/WIRE.md lists each kind that was seen, once, and no other', () => {
    expect(LISTED).toEqual([...seen].sort());
  });
});

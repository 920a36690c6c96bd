import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { UsageError } from '../../../src/base/failure.ts';
import * as addresses from '../../reference/addresses.ts';
import { anyText, host, LONG_TEXTS, port, zmqAddress } from './wire-arbitraries.ts';

const codeOf = (ask: () => unknown): string => {
  try {
    ask();
  } catch (error) {
    if (error instanceof UsageError) return error.code;
    throw error;
  }
  return 'accepted';
};

describe('a zmq address', () => {
  test('reads back as it was built, with its parts in any order and others among them', () => {
    fc.assert(
      fc.property(zmqAddress, fc.nat({ max: 5 }), (address, turn) => {
        const text = addresses.buildZmqAddress(address);
        expect(addresses.parseZmqAddress(text)).toEqual(address);
        const parts = [...text.split(','), 'extra:1', ''];
        const turned = [...parts.slice(turn % parts.length), ...parts.slice(0, turn % parts.length)];
        expect(addresses.parseZmqAddress(turned.join(','))).toEqual(address);
      }),
      { seed: 42, numRuns: 1000 },
    );
  });

  test.each([
    ['host:a,handshake:0,notify:1', 'ADDRESS-PORT'],
    ['host:a,handshake:1,notify:65536', 'ADDRESS-PORT'],
    ['host:a,handshake:1 1,notify:1', 'ADDRESS-PORT'],
    ['host:a,handshake:\ufeff1,notify:1', 'ADDRESS-PORT'],
    [' host\t: a ,\nhandshake :\x1c1\u3000, notify:\u00a01\x85', 'accepted'],
    [' host:a,host :b,handshake:1,notify:1', 'ADDRESS-FORM'],
    ['host:a,handshake:00000000001,notify:1', 'accepted'],
    ['host:a,handshake:1,notify:1,notify:1', 'ADDRESS-FORM'],
    ['host:a b,handshake:1,notify:1', 'ADDRESS-HOST'],
    ['host:[a,handshake:1,notify:1', 'ADDRESS-HOST'],
    ['host:a/b,handshake:1,notify:1', 'ADDRESS-HOST'],
    [`host:${'a'.repeat(256)},handshake:1,notify:1`, 'ADDRESS-HOST'],
    ['host:a,handshake:1', 'ADDRESS-FORM'],
    [`host:a,handshake:1,notify:1${','.repeat(addresses.ADDRESS_CHARS_MAX)}`, 'ADDRESS-FORM'],
    [`host:${'a'.repeat(255)},handshake:65535,notify:0000065535`, 'accepted'],
  ])('%s: %s', (text, code) => {
    expect(codeOf(() => addresses.parseZmqAddress(text))).toBe(code);
  });

  test('is not built from what would not read back', () => {
    const good = { host: 'a', handshakePort: 1, notifyPort: 2 };
    for (const bad of ['', 'a,b', 'a\n', 'ä', 'a'.repeat(256)])
      expect(codeOf(() => addresses.buildZmqAddress({ ...good, host: bad }))).toBe('ADDRESS-HOST');
    for (const bad of [0, -1, 1.5, 65_536, Number.NaN])
      expect(codeOf(() => addresses.buildZmqAddress({ ...good, notifyPort: bad }))).toBe('ADDRESS-PORT');
  });
});

test('a refusal of a long text is a short line', () => {
  expect(() => addresses.parsePort('x'.repeat(1000), 'a port')).toThrow(/^.{1,140}$/);
});

test('any text is read or refused with a UsageError, however long', () => {
  const readers = [
    addresses.parseZmqAddress,
    addresses.parseHttpAddress,
    addresses.requireHost,
    (text: string) => addresses.parsePort(text, 'a port'),
  ];
  const readAll = (text: string): string[] => readers.map((read) => codeOf(() => read(text)));
  let accepted = 0;
  fc.assert(
    fc.property(anyText, (text) => {
      accepted += readAll(text).filter((code) => code === 'accepted').length;
    }),
    { seed: 42, numRuns: 3000 },
  );
  expect(accepted).toBeGreaterThan(20);
  const started = performance.now();
  for (const text of LONG_TEXTS) expect(readAll(text)).not.toContain('accepted');
  expect(performance.now() - started).toBeLessThan(5000);
});

describe('an http address', () => {
  test('reads back as it was built, without the brackets', () => {
    fc.assert(
      fc.property(host, port, (name, number) => {
        const read = addresses.parseHttpAddress(addresses.buildHttpAddress(name, number));
        expect(read).toEqual({ host: name.replace(/^\[(.*)\]$/, '$1'), port: number });
      }),
      { seed: 42, numRuns: 500 },
    );
  });

  test.each([
    ['10.0.0.1:8000', '10.0.0.1', 8000],
    ['[fd00::1]:8000', 'fd00::1', 8000],
    ['fd00::1:8000', 'fd00::1', 8000],
  ])('%s', (text, name, number) => {
    expect(addresses.parseHttpAddress(text)).toEqual({ host: name, port: number });
  });

  test('IPv6 stands in brackets where a socket is dialled, once', () => {
    expect(addresses.tcpPath('fd00::1', 6301)).toBe('tcp://[fd00::1]:6301');
    expect(addresses.tcpPath('[fd00::1]', 6301)).toBe('tcp://[fd00::1]:6301');
    expect(addresses.tcpPath('node_7', 6301)).toBe('tcp://node_7:6301');
  });
});

describe('the ports of an instance', () => {
  test('are all different, without a gap, and those at which its ranks are dialled', () => {
    const size = fc.integer({ min: 1, max: 20 });
    fc.assert(
      fc.property(size, size, fc.integer({ min: 1, max: 65_000 }), (dpSize, tpSize, base) => {
        const ports = addresses.portsOfInstance(base, dpSize, tpSize);
        expect(ports.map((one) => one.port)).toEqual(ports.map((_, index) => base + index));
        for (const { dpRank, tpRank, port: number } of ports)
          expect(addresses.portOfRank(base, dpRank, tpRank, tpSize)).toBe(number);
        expect(ports).toHaveLength(dpSize * tpSize);
      }),
      { seed: 42, numRuns: 300 },
    );
  });

  test.each([
    ['too high', 65_530, 2, 4, 'ADDRESS-PORT'],
    ['just low enough', 65_528, 2, 4, 'accepted'],
    ['no base', 0, 2, 4, 'ADDRESS-PORT'],
    ['no DP rank', 6301, 0, 4, 'PORT-RANK'],
    ['no TP rank', 6301, 2, 0, 'PORT-RANK'],
    ['a size far too large', 6301, 2 ** 40, 2 ** 40, 'PORT-RANK'],
    ['more ranks than ports', 6301, 65_535, 65_535, 'ADDRESS-PORT'],
  ])('%s', (_, base, dpSize, tpSize, code) => {
    expect(codeOf(() => addresses.portsOfInstance(base, dpSize, tpSize))).toBe(code);
  });

  test('end with the last TP rank', () => {
    expect(addresses.offsetOfRank(2, 3, 4)).toBe(11);
    expect(codeOf(() => addresses.offsetOfRank(2, 4, 4))).toBe('PORT-RANK');
    expect(codeOf(() => addresses.offsetOfRank(2, -1, 4))).toBe('PORT-RANK');
  });

  test('of one DP rank are as many as it has TP ranks', () => {
    expect(addresses.pathsOfGroup('fd00::1', 61_005, 1, 2)).toEqual([
      'tcp://[fd00::1]:61007',
      'tcp://[fd00::1]:61008',
    ]);
    expect(codeOf(() => addresses.pathsOfGroup('a', 61_005, 1, 2 ** 40))).toBe('PORT-RANK');
  });
});

test('an engine id is the host as written and the handshake port', () => {
  expect(addresses.engineIdOf({ host: 'fd00::1', handshakePort: 6301, notifyPort: 1 })).toBe('fd00::1:6301');
  const { DEFAULT_HANDSHAKE_PORT, DEFAULT_NOTIFY_PORT } = addresses;
  expect([DEFAULT_HANDSHAKE_PORT, DEFAULT_NOTIFY_PORT]).toEqual([6301, 61_005]);
});

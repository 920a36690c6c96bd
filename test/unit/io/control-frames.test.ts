import fc from 'fast-check';
import { expect, test } from 'vitest';
import { UsageError } from '../../../src/base/failure.ts';
import { BackendType } from '../../../src/io/codes.ts';
import * as frames from '../../../src/io/control-frames.ts';
import * as parts from '../../reference/control-parts.ts';

function codeOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (error instanceof UsageError) return error.code;
    throw error;
  }
  return 'accepted';
}

const { MessageType } = frames;
const header = (type: number, bodyBytes: number): Uint8Array => {
  const bytes = new Uint8Array(5);
  new DataView(bytes.buffer).setUint32(1, bodyBytes);
  bytes[0] = type;
  return bytes;
};

test('railId survives the round trip at 5, 0 and its default -1', () => {
  for (const railId of [5, 0, frames.emptyRegEndpoint().railId]) {
    const message = { ...frames.emptyRegEndpoint(), railId };
    expect(frames.unpackRegEndpoint(frames.packRegEndpoint(message))).toEqual(message);
  }
  expect(frames.emptyRegEndpoint().railId).toBe(-1);
});

test('a body of 1 MiB passes the header, one byte more does not', () => {
  expect(frames.decodeFrameHeader(header(0, 1024 * 1024)).bodyBytes).toBe(1024 * 1024);
  expect(codeOf(() => frames.decodeFrameHeader(header(0, 1024 * 1024 + 1)))).toBe('FRAME-SIZE');
  expect(codeOf(() => frames.encodeFrame(0, new Uint8Array(1024 * 1024 + 1)))).toBe('FRAME-SIZE');
});

test('an unknown message type is refused, and so is a known one that was not expected', () => {
  expect(codeOf(() => frames.decodeFrameHeader(header(2, 0)))).toBe('FRAME-TYPE');
  expect(codeOf(() => frames.decodeFrameHeader(header(1, 0), MessageType.RegEndpoint))).toBe('FRAME-TYPE');
  expect(() => frames.decodeFrameHeader(header(1, 0), MessageType.RegEndpoint)).toThrow(
    /0 expected, observed 1/,
  );
  expect(codeOf(() => frames.decodeFrameHeader(header(1, 0), MessageType.AskMemoryRegion))).toBe('accepted');
});

test('a frame cut off anywhere is short', () => {
  const frame = frames.encodeFrame(0, frames.packRegEndpoint(frames.emptyRegEndpoint()));
  for (let length = 0; length < frame.length; length += 1) {
    expect(codeOf(() => frames.decodeFrame(frame.subarray(0, length)))).toBe('FRAME-SHORT');
  }
});

test('bytes after a frame are ignored', () => {
  const body = Uint8Array.of(1, 2, 3);
  const frame = Uint8Array.from([...frames.encodeFrame(1, body), 9, 9]);
  expect(frames.decodeFrame(frame)).toEqual({ type: 1, body });
});

test('messages and topo keys take fewer and more elements, their defaults filling in', () => {
  const short = Uint8Array.of(0x93, 0xa1, 0x6b, 0x92, 0x91, 3, 0x94, 4, 2, 0, 0xc0, 5);
  const expected = frames.emptyRegEndpoint();
  expected.ekey = 'k';
  expected.devId = 5;
  expected.topo = {
    local: { deviceId: 3, loc: 0, numaNode: -1 },
    remote: { deviceId: 4, loc: 2, numaNode: 0 },
  };
  expect(frames.unpackRegEndpoint(short)).toEqual(expected);
  const { ekey, mr } = frames.unpackAskMemoryRegion(Uint8Array.of(0x91, 0xa1, 0x6b));
  expect({ ekey, mr }).toEqual({ ekey: 'k', mr: frames.emptyRdmaMemoryRegion() });
});

/** A RegEndpoint whose packed default is changed at one place: the heads of its strict parts. */
function withByte(find: readonly number[], change: (bytes: number[], at: number) => void): Uint8Array {
  const bytes = [...frames.packRegEndpoint(frames.emptyRegEndpoint())];
  const at = bytes.findIndex((_, offset) => find.every((byte, index) => bytes[offset + index] === byte));
  expect(at).toBeGreaterThan(0);
  change(bytes, at);
  return Uint8Array.from(bytes);
}

test('the handles inside a RegEndpoint want their exact counts', () => {
  const cases: [number[], (bytes: number[], at: number) => void][] = [
    [[0x95, 0, 0, 0, 0x91], (bytes, at) => bytes.splice(at, 2, 0x94)],
    [[0x91, 0, 0x92, 0xc4], (bytes, at) => bytes.splice(at, 2, 0x90)],
    [[0x91, 0, 0x92, 0xc4], (bytes, at) => bytes.splice(at, 2, 0x92, 0, 0)],
    [[0x92, 0xc4, 16], (bytes, at) => bytes.splice(at, 1, 0x93, 0)],
  ];
  for (const [find, change] of cases) {
    expect(codeOf(() => frames.unpackRegEndpoint(withByte(find, change)))).toBe('DESC-TYPE');
  }
});

test('a gid of 15 bytes and a mac of 7 are type errors, unlike a short IPC handle', () => {
  const shortGid = withByte([0xc4, 16, 0], (bytes, at) => bytes.splice(at, 3, 0xc4, 15));
  const longMac = withByte([0xc4, 6, 0], (bytes, at) => bytes.splice(at, 3, 0xc4, 7, 0, 0));
  expect(codeOf(() => frames.unpackRegEndpoint(shortGid))).toBe('DESC-TYPE');
  expect(codeOf(() => frames.unpackRegEndpoint(longMac))).toBe('DESC-TYPE');
});

test('a TCP handle wants two elements and a port of 16 bits', () => {
  expect(codeOf(() => parts.unpackTcpContextHandle(Uint8Array.of(0x91, 0xa0)))).toBe('DESC-TYPE');
  expect(codeOf(() => parts.unpackTcpContextHandle(Uint8Array.of(0x93, 0xa0, 1, 1)))).toBe('DESC-TYPE');
  expect(codeOf(() => parts.packTcpContextHandle({ host: '', port: 65536 }))).toBe('DESC-RANGE');
});

test('each backend has the bit of its number', () => {
  for (const type of Object.values(BackendType)) expect(parts.backendBits([type])).toBe(2 ** type);
  expect(parts.backendBits([])).toBe(0);
});

test('a notification reads back for all numbers of its widths, and is refused beyond them', () => {
  const i32 = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
  const message = fc.record(
    { id: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), qpIndex: i32, totalNum: i32 },
    { noNullPrototype: true },
  );
  fc.assert(
    fc.property(message, (notif) => {
      const bytes = parts.encodeNotifMessage(notif);
      expect(parts.decodeNotifMessage(bytes)).toEqual(notif);
      expect(codeOf(() => parts.decodeNotifMessage(bytes.subarray(1)))).toBe('NOTIF-SHORT');
    }),
    { seed: 42, numRuns: 200 },
  );
  const notif = { id: 0n, qpIndex: 0, totalNum: 0 };
  expect(codeOf(() => parts.encodeNotifMessage({ ...notif, id: 2n ** 64n }))).toBe('NOTIF-RANGE');
  expect(codeOf(() => parts.encodeNotifMessage({ ...notif, qpIndex: 2 ** 31 }))).toBe('NOTIF-RANGE');
});

test('whatever the bytes, reading a frame and its body ends with a message or a UsageError', () => {
  const seen = new Set<string>();
  const packed = [...frames.encodeFrame(0, frames.packRegEndpoint(frames.emptyRegEndpoint()))];
  const changed = fc.tuple(fc.nat(packed.length - 1), fc.nat(255)).map(([at, value]) => {
    return Uint8Array.from(packed.with(at, value));
  });
  fc.assert(
    fc.property(fc.oneof(fc.uint8Array({ maxLength: 80 }), changed), (bytes) => {
      seen.add(codeOf(() => frames.unpackRegEndpoint(frames.decodeFrame(bytes).body)));
      codeOf(() => frames.unpackAskMemoryRegion(bytes));
    }),
    { seed: 42, numRuns: 3000 },
  );
  for (const code of ['accepted', 'FRAME-SHORT', 'FRAME-TYPE', 'FRAME-SIZE', 'DESC-TYPE'])
    expect(seen).toContain(code);
});

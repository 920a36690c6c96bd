import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { UsageError } from '../../../src/base/failure.ts';
import { BackendType } from '../../../src/io/codes.ts';
import * as frames from '../../../src/io/control-frames.ts';
import * as desc from '../../../src/io/descriptors.ts';
import * as parts from '../../reference/control-parts.ts';

/** Every case of mori-desc.json, which the real library's pack definitions made, against ours. */

type Row = Record<string, unknown>;
interface Golden {
  engineDesc: { name: string; fields: Row; length: number; hex: string }[];
  memoryDesc: { name: string; fields: Row; length: number; hex: string }[];
  controlFrames: FrameCase[];
  parts: { name: string; hex: string }[];
  decode: DecodeCase[];
}
interface FrameCase {
  name: string;
  message: 'RegEndpoint' | 'AskMemoryRegion';
  fields: Row;
  bodyLength: number;
  headerHex: string;
  bodyHex: string;
  frameHex: string;
}
type DecodeCase = { type: string; name: string; hex: string } & (
  | { ok: true; value: Row }
  | { ok: false; error: 'insufficient_bytes' | 'type_error' }
);

const golden: Golden = JSON.parse(
  readFileSync(new URL('../../golden/mori-desc.json', import.meta.url), 'utf8'),
);

const bytesOf = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex, 'hex'));
const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

const HEX_FIELDS = ['ipcHandle', 'fabricHandle', 'gid', 'mac'];

/** Decoded values as the golden file spells them: bigints as decimal text, bytes as hex. */
function spell(value: unknown): unknown {
  if (typeof value === 'bigint') return String(value);
  if (value instanceof Uint8Array) return hexOf(value);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, spell(inner)]));
}

/** The other way: hex fields to bytes, and all other texts of digits where a bigint belongs. */
function unspell(fields: Row, u64Names: readonly string[]): Row {
  const entry = ([name, value]: [string, unknown]): [string, unknown] => {
    if (HEX_FIELDS.includes(name)) return [name, bytesOf(value as string)];
    if (u64Names.includes(name)) return [name, BigInt(value as string)];
    const inner = value !== null && typeof value === 'object';
    return [name, inner ? unspell(value as Row, u64Names) : value];
  };
  return Object.fromEntries(Object.entries(fields).map(entry));
}

test('the golden file holds 10, 10, 8, 5 and 28 cases', () => {
  const { engineDesc, memoryDesc, controlFrames, parts, decode } = golden;
  const counts = [engineDesc, memoryDesc, controlFrames, parts, decode].map((cases) => cases.length);
  expect(counts).toEqual([10, 10, 8, 5, 28]);
});

test.each(golden.engineDesc)(
  'EngineDesc packs to upstream bytes and back: $name',
  ({ fields, length, hex }) => {
    const packed = desc.packEngineDesc(fields as unknown as desc.EngineDesc);
    expect(hexOf(packed)).toBe(hex);
    expect(packed.length).toBe(length);
    expect(desc.unpackEngineDesc(bytesOf(hex))).toEqual(fields);
  },
);

const MEMORY_U64 = ['data', 'size', 'ipcOffset', 'fabricOffset', 'fabricAllocSize'];

test.each(golden.memoryDesc)(
  'MemoryDesc packs to upstream bytes and back: $name',
  ({ fields, length, hex }) => {
    const packed = desc.packMemoryDesc(unspell(fields, MEMORY_U64) as unknown as desc.MemoryDesc);
    expect(hexOf(packed)).toBe(hex);
    expect(packed.length).toBe(length);
    expect(spell(desc.unpackMemoryDesc(bytesOf(hex)))).toEqual(fields);
  },
);

/** The golden file writes an endpoint handle flat; on the wire lid, and gid with mac, are nested. */
function nestHandle(fields: Row): Row {
  if (fields.eph === undefined) return fields;
  const { lid, gid, mac, ...rest } = fields.eph as Row;
  return { ...fields, eph: { ...rest, ib: { lid }, eth: { gid, mac } } };
}

test.each(golden.controlFrames)(
  'control frame has upstream header, body and whole, and reads back: $name',
  (entry) => {
    const fields = nestHandle(entry.fields);
    const message = unspell(fields, ['addr', 'length']);
    const isReg = entry.message === 'RegEndpoint';
    const body = isReg
      ? frames.packRegEndpoint(message as unknown as frames.RegEndpoint)
      : frames.packAskMemoryRegion(message as unknown as frames.AskMemoryRegion);
    const type = frames.MessageType[entry.message];
    expect(hexOf(body)).toBe(entry.bodyHex);
    expect(body.length).toBe(entry.bodyLength);
    expect(hexOf(frames.encodeFrame(type, body).subarray(0, frames.FRAME_HEADER_BYTES))).toBe(
      entry.headerHex,
    );
    expect(hexOf(frames.encodeFrame(type, body))).toBe(entry.frameHex);

    const read = frames.decodeFrame(bytesOf(entry.frameHex), type);
    expect(read.type).toBe(type);
    const unpacked = isReg ? frames.unpackRegEndpoint(read.body) : frames.unpackAskMemoryRegion(read.body);
    expect(spell(unpacked)).toEqual(fields);
  },
);

/** The golden file names the value of a part in its title alone, so it is written out here. */
const REGION = { addr: 4096n, lkey: 1, rkey: 2, length: 65536n };
const TCP_HANDLE = { host: '127.0.0.1', port: 41235 };
const NOTIF = { id: 0x0102030405060708n, qpIndex: 2, totalNum: 4 };
const XGMI_RDMA = parts.backendBits([BackendType.XGMI, BackendType.RDMA]);
const PARTS: [title: string, packed: Uint8Array, unpack: (bytes: Uint8Array) => unknown, value: unknown][] = [
  ['TCPContextHandle', parts.packTcpContextHandle(TCP_HANDLE), parts.unpackTcpContextHandle, TCP_HANDLE],
  ['BackendBitmap', parts.packBackendBitmap(XGMI_RDMA), parts.unpackBackendBitmap, 6],
  ['BackendType', parts.packBackendType(BackendType.FABRIC), parts.unpackBackendType, BackendType.FABRIC],
  ['RdmaMemoryRegion', parts.packRdmaMemoryRegion(REGION), parts.unpackRdmaMemoryRegion, REGION],
  ['NotifMessage', parts.encodeNotifMessage(NOTIF), parts.decodeNotifMessage, NOTIF],
];

test.each(golden.parts)('part has upstream bytes and reads back: $name', ({ name, hex }) => {
  const known = PARTS.filter(([title]) => name.startsWith(`${title} `));
  expect(known.length).toBe(1);
  const [[, packed, unpack, value]] = known;
  expect(hexOf(packed)).toBe(hex);
  expect(unpack(bytesOf(hex))).toEqual(value);
});

const UNPACK: Record<string, (bytes: Uint8Array) => unknown> = {
  EngineDesc: desc.unpackEngineDesc,
  MemoryDesc: desc.unpackMemoryDesc,
  RdmaMemoryRegion: parts.unpackRdmaMemoryRegion,
};
const CODE = { insufficient_bytes: 'DESC-SHORT', type_error: 'DESC-TYPE' } as const;

test.each(golden.decode)('$type decodes or is refused as upstream does: $name', (entry) => {
  const run = (): unknown => UNPACK[entry.type](bytesOf(entry.hex));
  if (entry.ok) expect(spell(run())).toMatchObject(entry.value);
  else expect(refusal(run)).toBe(CODE[entry.error]);
});

function refusal(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError);
    return (error as UsageError).code;
  }
  return 'accepted';
}

import { UsageError } from '../base/failure.ts';
import type { BackendType } from './codes.ts';
import {
  binExactly,
  i32,
  lenientArray,
  pack,
  smallInt,
  strictArray,
  text,
  u32,
  u64,
  unpack,
} from './descriptors.ts';
import { UINT16 } from './msgpack.ts';

/**
 * The frames of MoRI-IO's control plane and their parts (mori-io.md A2, A13). A frame is a header of five
 * bytes (u8 type, u32 big-endian body length) and a msgpack body. Errors are UsageErrors: those of msgpack.ts
 * for a body, `FRAME-SHORT`, `FRAME-TYPE` and `FRAME-SIZE` for a header.
 */

export const MessageType = { RegEndpoint: 0, AskMemoryRegion: 1 } as const;
export type MessageType = (typeof MessageType)[keyof typeof MessageType];

export const FRAME_HEADER_BYTES = 5;
/** Checked before the body is read, so that a length alone costs the receiver nothing. */
export const FRAME_BODY_BYTES_MAX = 1024 * 1024;
export const GID_BYTES = 16;
export const MAC_BYTES = 6;

export interface FrameHeader {
  type: MessageType;
  bodyBytes: number;
}

export interface TopoKey {
  deviceId: number;
  /** A MemoryLocationType; any u32 passes. */
  loc: number;
  numaNode: number;
}

export interface TopoKeyPair {
  local: TopoKey;
  remote: TopoKey;
}

/** A queue pair as its peer must know it. On the wire lid, and gid with mac, sit in arrays of their own. */
export interface RdmaEndpointHandle {
  psn: number;
  qpn: number;
  portId: number;
  ib: { lid: number };
  /** Uninitialised memory upstream where the link does not need it: send zeros, ignore what comes. */
  eth: { gid: Uint8Array; mac: Uint8Array };
}

export interface RegEndpoint {
  ekey: string;
  topo: TopoKeyPair;
  devId: number;
  eph: RdmaEndpointHandle;
  nicRank: number;
  /** -1 when unset. */
  railId: number;
}

/** A registered region as the NIC sees it; `length` in bytes. All zero is the reply for an unknown id. */
export interface RdmaMemoryRegion {
  addr: bigint;
  lkey: number;
  rkey: number;
  length: bigint;
}

export interface AskMemoryRegion {
  ekey: string;
  devId: number;
  id: number;
  mr: RdmaMemoryRegion;
}

/** What one frame says. */
export type ControlMessage =
  | { readonly type: typeof MessageType.RegEndpoint; readonly endpoint: RegEndpoint }
  | { readonly type: typeof MessageType.AskMemoryRegion; readonly region: AskMemoryRegion };

/** Reads a header. A side that awaits a certain message names it; any other is then refused. */
export function decodeFrameHeader(bytes: Uint8Array, expected?: MessageType): FrameHeader {
  if (bytes.length < FRAME_HEADER_BYTES) throw new UsageError('FRAME-SHORT', 'EOF inside a frame header');
  const type = knownType(bytes[0]);
  if (expected !== undefined && type !== expected) {
    throw new UsageError('FRAME-TYPE', `message type ${expected} expected, observed ${type}`);
  }
  const bodyBytes = ((bytes[1] << 24) | (bytes[2] << 16) | (bytes[3] << 8) | bytes[4]) >>> 0;
  checkBodySize(bodyBytes);
  return { type, bodyBytes };
}

/** The type, then the length, big end first. */
function writeHeader(bytes: Uint8Array, { type, bodyBytes }: FrameHeader): void {
  bytes[0] = type;
  for (let at = 1; at < FRAME_HEADER_BYTES; at += 1) bytes[at] = bodyBytes >>> (8 * (4 - at));
}

/** A whole frame around a packed body. */
export function encodeFrame(type: MessageType, body: Uint8Array): Uint8Array {
  checkBodySize(body.length);
  const frame = new Uint8Array(FRAME_HEADER_BYTES + body.length);
  writeHeader(frame, { type, bodyBytes: body.length });
  frame.set(body, FRAME_HEADER_BYTES);
  return frame;
}

/** Splits a frame. What follows it is ignored: the server answers one message and closes. */
export function decodeFrame(
  bytes: Uint8Array,
  expected?: MessageType,
): { type: MessageType; body: Uint8Array } {
  const { type, bodyBytes } = decodeFrameHeader(bytes, expected);
  const end = FRAME_HEADER_BYTES + bodyBytes;
  if (bytes.length < end) throw new UsageError('FRAME-SHORT', `EOF after ${bytes.length} of ${end} bytes`);
  return { type, body: bytes.slice(FRAME_HEADER_BYTES, end) };
}

/** The frame of a message. */
export function encodeMessage(message: ControlMessage): Uint8Array {
  return message.type === MessageType.RegEndpoint
    ? encodeFrame(message.type, packRegEndpoint(message.endpoint))
    : encodeFrame(message.type, packAskMemoryRegion(message.region));
}

/** Reads a whole frame. A side that awaits a certain message names it; any other is then refused. */
export function decodeMessage(frame: Uint8Array, expected?: MessageType): ControlMessage {
  const { type, body } = decodeFrame(frame, expected);
  return type === MessageType.RegEndpoint
    ? { type, endpoint: unpackRegEndpoint(body) }
    : { type, region: unpackAskMemoryRegion(body) };
}

export function packRegEndpoint(message: RegEndpoint): Uint8Array {
  return pack(REG_ENDPOINT, message);
}

export function unpackRegEndpoint(body: Uint8Array): RegEndpoint {
  return unpack(REG_ENDPOINT, body);
}

export function packAskMemoryRegion(message: AskMemoryRegion): Uint8Array {
  return pack(ASK_MEMORY_REGION, message);
}

export function unpackAskMemoryRegion(body: Uint8Array): AskMemoryRegion {
  return unpack(ASK_MEMORY_REGION, body);
}

function knownType(type: number): MessageType {
  if (type === MessageType.RegEndpoint || type === MessageType.AskMemoryRegion) return type;
  throw new UsageError('FRAME-TYPE', `unknown message type ${type}`);
}

function checkBodySize(bodyBytes: number): void {
  if (bodyBytes <= FRAME_BODY_BYTES_MAX) return;
  throw new UsageError('FRAME-SIZE', `body of ${bodyBytes} bytes, the limit is ${FRAME_BODY_BYTES_MAX}`);
}

// The messages and keys are MSGPACK_DEFINE upstream (lenient), the handles hand-written converters (strict).

const TOPO_KEY = lenientArray<TopoKey>({ deviceId: i32, loc: u32, numaNode: i32 }, emptyTopoKey);
const TOPO_KEY_PAIR = lenientArray<TopoKeyPair>({ local: TOPO_KEY, remote: TOPO_KEY }, emptyTopoKeyPair);

const RDMA_ENDPOINT_HANDLE = strictArray<RdmaEndpointHandle>({
  psn: u32,
  qpn: u32,
  portId: u32,
  ib: strictArray<{ lid: number }>({ lid: u32 }),
  eth: strictArray<RdmaEndpointHandle['eth']>({ gid: binExactly(GID_BYTES), mac: binExactly(MAC_BYTES) }),
});

const RDMA_MEMORY_REGION = strictArray<RdmaMemoryRegion>({ addr: u64, lkey: u32, rkey: u32, length: u64 });
const REG_ENDPOINT = lenientArray<RegEndpoint>(
  { ekey: text, topo: TOPO_KEY_PAIR, devId: i32, eph: RDMA_ENDPOINT_HANDLE, nicRank: i32, railId: i32 },
  emptyRegEndpoint,
);

const ASK_MEMORY_REGION = lenientArray<AskMemoryRegion>(
  { ekey: text, devId: i32, id: u32, mr: RDMA_MEMORY_REGION },
  () => ({ ekey: '', devId: 0, id: 0, mr: emptyRdmaMemoryRegion() }),
);

/** All zero: what a request carries, and the answer to an id that nobody knows. */
export function emptyRdmaMemoryRegion(): RdmaMemoryRegion {
  return { addr: 0n, lkey: 0, rkey: 0, length: 0n };
}

/** A RegEndpoint with every field at its default. */
export function emptyRegEndpoint(): RegEndpoint {
  return {
    ekey: '',
    topo: emptyTopoKeyPair(),
    devId: 0,
    eph: { psn: 0, qpn: 0, portId: 0, ib: { lid: 0 }, eth: emptyEthernetHandle() },
    nicRank: 0,
    railId: -1,
  };
}

function emptyTopoKeyPair(): TopoKeyPair {
  return { local: emptyTopoKey(), remote: emptyTopoKey() };
}

function emptyTopoKey(): TopoKey {
  return { deviceId: 0, loc: 0, numaNode: -1 };
}

function emptyEthernetHandle(): RdmaEndpointHandle['eth'] {
  return { gid: new Uint8Array(GID_BYTES), mac: new Uint8Array(MAC_BYTES) };
}

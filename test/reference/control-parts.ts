import { UsageError } from '../../src/base/failure.ts';
import type { BackendType } from '../../src/io/codes.ts';
import type { RdmaMemoryRegion } from '../../src/io/control-frames.ts';
import {
  lenientArray,
  pack,
  smallInt,
  strictArray,
  text,
  u32,
  u64,
  unpack,
} from '../../src/io/descriptors.ts';
import { UINT16 } from '../../src/io/msgpack.ts';

/**
 * Parts of MoRI-IO's wire that our engine has no use for, kept as readings of the golden bytes: a notification is
 * a number in our queue pairs, and the other backends have no control plane here (mori-io.md A1, A13).
 */

export const NOTIF_MESSAGE_BYTES = 16;

export interface TcpContextHandle {
  host: string;
  port: number;
}

/** Tells the target of a transfer that one of `totalNum` queue pairs has sent. */
export interface NotifMessage {
  id: bigint;
  qpIndex: number;
  totalNum: number;
}

export function packRdmaMemoryRegion(region: RdmaMemoryRegion): Uint8Array {
  return pack(RDMA_MEMORY_REGION, region);
}

export function unpackRdmaMemoryRegion(bytes: Uint8Array): RdmaMemoryRegion {
  return unpack(RDMA_MEMORY_REGION, bytes);
}

export function packTcpContextHandle(handle: TcpContextHandle): Uint8Array {
  return pack(TCP_CONTEXT_HANDLE, handle);
}

export function unpackTcpContextHandle(bytes: Uint8Array): TcpContextHandle {
  return unpack(TCP_CONTEXT_HANDLE, bytes);
}

export function packBackendType(type: BackendType): Uint8Array {
  return pack(u32, type);
}

/** A plain number because upstream takes any u32 here. */
export function unpackBackendType(bytes: Uint8Array): number {
  return unpack(u32, bytes);
}

/** A set of backends as bits: bit n stands for the type of value n (A1). */
export function backendBits(types: readonly BackendType[]): number {
  return types.reduce<number>((bits, type) => (bits | (1 << type)) >>> 0, 0);
}

export function packBackendBitmap(bits: number): Uint8Array {
  return pack(BACKEND_BITMAP, { bits });
}

export function unpackBackendBitmap(bytes: Uint8Array): number {
  return unpack(BACKEND_BITMAP, bytes).bits;
}

/** The 16 raw little-endian bytes of a notification: u64 id, i32 qpIndex, i32 totalNum. Not msgpack. */
export function encodeNotifMessage(message: NotifMessage): Uint8Array {
  const bytes = new Uint8Array(NOTIF_MESSAGE_BYTES);
  const view = viewOf(bytes);
  view.setBigUint64(0, message.id, true);
  view.setInt32(8, message.qpIndex, true);
  view.setInt32(12, message.totalNum, true);
  // The setters wrap what does not fit: reading back tells.
  const stored = decodeNotifMessage(bytes);
  const holds =
    stored.id === message.id && stored.qpIndex === message.qpIndex && stored.totalNum === message.totalNum;
  if (!holds) throw new UsageError('NOTIF-RANGE', 'a number does not fit its field of a notification');
  return bytes;
}

export function decodeNotifMessage(bytes: Uint8Array): NotifMessage {
  if (bytes.length < NOTIF_MESSAGE_BYTES) {
    throw new UsageError('NOTIF-SHORT', `${bytes.length} of ${NOTIF_MESSAGE_BYTES} bytes`);
  }
  const view = viewOf(bytes);
  return {
    id: view.getBigUint64(0, true),
    qpIndex: view.getInt32(8, true),
    totalNum: view.getInt32(12, true),
  };
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

const RDMA_MEMORY_REGION = strictArray<RdmaMemoryRegion>({ addr: u64, lkey: u32, rkey: u32, length: u64 });
const TCP_CONTEXT_HANDLE = strictArray<TcpContextHandle>({ host: text, port: smallInt(UINT16) });
const BACKEND_BITMAP = lenientArray<{ bits: number }>({ bits: u32 }, () => ({ bits: 0 }));

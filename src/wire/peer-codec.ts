import { encode } from '@msgpack/msgpack';
import { CONTEXT_NUMBERS, LAYER_NUMBERS, PART_NUMBERS } from '../base/cache-view.ts';
import { isIndex } from '../base/checks.ts';
import { UsageError } from '../base/failure.ts';
import { finish, mix } from '../base/mix.ts';
import type { PeerMessage } from './messages.ts';
import { decodeMsgpack } from './msgpack.ts';

/**
 * The shipped connector's messages as bytes: a msgpack map and a 4-byte checksum. The simulator hands messages over as
 * objects and comes here only when a fault harms the bytes; a real socket comes here always. The checksum turns damage
 * into loss, which the protocol survives; without it a flipped bit could name another block.
 */

type FieldKind = 'index' | 'flag' | 'indices' | 'bytes' | 'geometry';

const FIELDS: { readonly [K in PeerMessage['kind']]: { readonly [field: string]: FieldKind } } = {
  metaRequest: { attempt: 'index' },
  metaReply: {
    attempt: 'index',
    epoch: 'index',
    engineDesc: 'bytes',
    memoryDesc: 'bytes',
    geometry: 'geometry',
  },
  claim: { transfer: 'index', tpSize: 'index', attempt: 'index' },
  grant: {
    transfer: 'index',
    grant: 'index',
    blocks: 'indices',
    epoch: 'index',
    firstSlot: 'index',
    slotFrom: 'index',
    slotTo: 'index',
    attempt: 'index',
  },
  refuse: { transfer: 'index', attempt: 'index' },
  seal: { transfer: 'index', ok: 'flag', tpSize: 'index', attempt: 'index' },
  sealAck: { transfer: 'index', attempt: 'index' },
  revoke: { transfer: 'index', grant: 'index', attempt: 'index' },
};

const GEOMETRY_NUMBERS = ['engine', 'tpRank', 'tpSize', 'blockTokens'] as const;
/** Longest frame that is read at all; a handshake of a few hundred layers fits many times over. */
export const PEER_FRAME_BYTES_MAX = 1 << 20;

/** What the form does not name is left out: a sender may keep its own notes on a message. */
export function encodePeerMessage(message: PeerMessage): Uint8Array {
  const fields: object = FIELDS[message.kind];
  const known = Object.entries(message).filter(([field]) => field === 'kind' || Object.hasOwn(fields, field));
  const body = encode(Object.fromEntries(known));
  const frame = new Uint8Array(body.length + 4);
  frame.set(body);
  new DataView(frame.buffer).setUint32(body.length, checksum(body));
  return frame;
}

/** The message, or the cause of its refusal as text. Never throws, whatever the bytes. */
export function decodePeerMessage(frame: Uint8Array): PeerMessage | string {
  if (frame.length < 5) return `frame of ${frame.length} bytes is too short`;
  if (frame.length > PEER_FRAME_BYTES_MAX)
    return `frame of ${frame.length} bytes is longer than ${PEER_FRAME_BYTES_MAX}`;
  const body = frame.subarray(0, frame.length - 4);
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
  if (view.getUint32(body.length) !== checksum(body)) return 'frame checksum does not match';
  let value: unknown;
  try {
    value = decodeMsgpack(body);
  } catch (error) {
    if (error instanceof UsageError) return `frame is not msgpack: ${error.code}`;
    throw error;
  }
  const odd = oddityOf(value);
  return odd === '' ? (value as PeerMessage) : odd;
}

function checksum(bytes: Uint8Array): number {
  let hash = bytes.length;
  for (const byte of bytes) hash = mix(hash, byte);
  return finish(hash);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Whether it is of a kind that goes between peers; its fields may still be odd, which is for the receiver to refuse. */
export function isOfPeers(message: { readonly kind: unknown }): boolean {
  return typeof message.kind === 'string' && Object.hasOwn(FIELDS, message.kind);
}

/**
 * Why a value is no message between peers, or ''. Holds for what comes as an object as well as for what was decoded: a
 * number in it is whole, exact and not negative, whatever its sender was.
 */
export function oddityOf(value: unknown): string {
  if (!isRecord(value)) return `${NOT_A_MESSAGE}: no map`;
  const kind = value['kind'];
  if (typeof kind !== 'string' || !Object.hasOwn(FIELDS, kind)) return `${NOT_A_MESSAGE}: unknown kind`;
  const fields: { readonly [field: string]: FieldKind } = FIELDS[kind as PeerMessage['kind']];
  for (const field in fields) {
    if (!isField(fields[field]!, value[field])) return `${NOT_A_MESSAGE}: field ${field} of ${kind}`;
  }
  return '';
}

const NOT_A_MESSAGE = 'not a message of this protocol';

function isField(kind: FieldKind, value: unknown): boolean {
  switch (kind) {
    case 'index':
      return isIndex(value);
    case 'flag':
      return typeof value === 'boolean';
    case 'indices':
      return Array.isArray(value) && value.every(isIndex);
    case 'bytes':
      return value instanceof Uint8Array;
    case 'geometry':
      return isGeometry(value);
  }
}

function isGeometry(value: unknown): boolean {
  if (!isRecord(value)) return false;
  const role = value['role'];
  const views = value['views'];
  if (role !== 'prefill' && role !== 'decode') return false;
  if (!GEOMETRY_NUMBERS.every((field) => isIndex(value[field]))) return false;
  return Array.isArray(views) && views.every(isLayerView);
}

/** Of the right types, and with pages that a plan can count in. */
function isLayerView(value: unknown): boolean {
  if (!isRecord(value) || typeof value['form'] !== 'string') return false;
  const { parts, blockUnits, context } = value;
  if (!LAYER_NUMBERS.every((field) => isIndex(value[field])) || !Array.isArray(parts)) return false;
  if (!isContextView(context)) return false;
  return (blockUnits as number) > 0 && (value['unitTokens'] as number) > 0 && parts.every(isPartView);
}

function isContextView(value: unknown): boolean {
  if (!isRecord(value) || !CONTEXT_NUMBERS.every((field) => isIndex(value[field]))) return false;
  return (value['rank'] as number) < (value['ranks'] as number) && (value['interleaveUnits'] as number) > 0;
}

function isPartView(value: unknown): boolean {
  if (!isRecord(value) || typeof value['name'] !== 'string') return false;
  return PART_NUMBERS.every((field) => isIndex(value[field])) && (value['pageUnits'] as number) > 0;
}

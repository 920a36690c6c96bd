import { encode } from '@msgpack/msgpack';
import { type LayerView, WHOLE_CONTEXT } from '../../base/cache-view.ts';
import type { BlockId, RequestId, TransferId } from '../../base/topology.ts';
import { decodeUtf8, encodeUtf8 } from '../../base/utf8.ts';
import type { Description } from '../../wire/machine.ts';
import type { BytesMessage } from '../../wire/messages.ts';
import { decodeMsgpack } from '../../wire/msgpack.ts';

/**
 * The first connector's messages as real bytes. A receiver tells them apart by trying: a msgpack map is a block list,
 * anything else is taken for text. Source: wire.md 6.5.
 */

/** D's scheduler to each rank of P: where P may write. */
export interface RemoteBlocks {
  readonly request: RequestId;
  readonly transfer: TransferId;
  readonly blocks: readonly BlockId[];
  /** D's DP rank: P knows D by its instance. */
  readonly decodeRank: number;
}

export type Notification =
  | ({ readonly kind: 'remoteBlocks' } & RemoteBlocks)
  /** WRITE: all layers of the transfer are there. */
  | { readonly kind: 'completion'; readonly transfer: TransferId }
  /** READ: the blocks of the request are no longer needed. */
  | { readonly kind: 'release'; readonly request: RequestId }
  | { readonly kind: 'unknown'; readonly cause: string };

export function remoteBlocksBytes(blocks: RemoteBlocks): BytesMessage {
  const bytes = encode({
    req_id: `req-${blocks.request}`,
    transfer_id: `tx-${blocks.transfer}`,
    block_notify_list: blocks.blocks,
    decode_rank: blocks.decodeRank,
    type: 'remote_blocks',
  });
  return { kind: 'bytes', port: 'notify', bytes };
}

export function completionBytes(transfer: TransferId): BytesMessage {
  return { kind: 'bytes', port: 'notify', bytes: encodeUtf8(`tx-${transfer}`) };
}

export function releaseBytes(request: RequestId): BytesMessage {
  return { kind: 'bytes', port: 'notify', bytes: encodeUtf8(`req-${request}`) };
}

/** The block list in the bytes, or null when they are no msgpack map. */
export function readMap(bytes: Uint8Array): Notification | null {
  if (!isMapMarker(bytes[0])) return null;
  try {
    return remoteBlocksOf(decodeMsgpack(bytes) as { readonly [field: string]: unknown });
  } catch {
    // Not msgpack after all: the sender means text.
    return null;
  }
}

/** A text that is tried as msgpack first fails by an exception, which costs more than the rest of its handling. */
function isMapMarker(byte: number | undefined): boolean {
  return byte !== undefined && (byte >> 4 === 0x8 || byte === 0xde || byte === 0xdf);
}

function remoteBlocksOf(map: { readonly [field: string]: unknown }): Notification {
  const { type, block_notify_list: blocks, decode_rank: decodeRank } = map;
  const request = numberAfter('req-', map.req_id);
  const transfer = numberAfter('tx-', map.transfer_id);
  const known = type === 'remote_blocks' && request !== null && transfer !== null;
  if (known && isIndices(blocks) && isIndex(decodeRank))
    return { kind: 'remoteBlocks', request, transfer, blocks, decodeRank };
  return { kind: 'unknown', cause: `a map of type ${String(type)} is no block list` };
}

export function readText(text: string): Notification {
  const transfer = numberAfter('tx-', text);
  if (transfer !== null) return { kind: 'completion', transfer };
  const request = numberAfter('req-', text);
  if (request !== null) return { kind: 'release', request };
  return { kind: 'unknown', cause: `"${text}" is no id` };
}

function numberAfter(prefix: string, text: unknown): number | null {
  if (typeof text !== 'string' || !text.startsWith(prefix)) return null;
  const digits = text.slice(prefix.length);
  return /^\d{1,9}$/.test(digits) ? Number(digits) : null;
}

function isIndex(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isIndices(value: unknown): value is number[] {
  return Array.isArray(value) && value.every(isIndex);
}

// --- handshake ----------------------------------------------------------------------------------------------------

const META_REQUEST = 'get_meta_msg';

export function metaRequestBytes(): BytesMessage {
  return { kind: 'bytes', port: 'handshake', bytes: encodeUtf8(META_REQUEST) };
}

export function isMetaRequest(bytes: Uint8Array): boolean {
  return bytes.length === META_REQUEST.length && decodeUtf8(bytes) === META_REQUEST;
}

/** Block length of one layer, taken apart: what a peer needs to find a cell in it. */
function lengthsOf({ parts, blockUnits, unitTokens, headFirst, headCount }: LayerView): number[] {
  const [first, second] = parts;
  const { blockStride, unitStride, headStride, bytes } = first!;
  const partStride = second === undefined ? 0 : second.base - first!.base;
  return [
    parts.length,
    partStride,
    blockStride,
    unitStride,
    headStride,
    bytes,
    blockUnits,
    unitTokens,
    headFirst,
    headCount,
  ];
}

const PART_NAMES = [['latent'], ['k', 'v']] as const;

/** The inverse, with what the replies say elsewhere. A form is not spoken of: the first connector compares none. */
function viewOf(layer: number, base: number, blockCount: number, lengths: readonly number[]): LayerView {
  const [partCount, partStride, blockStride, unitStride, headStride, cellBytes] = lengths as [
    1 | 2,
    number,
    number,
    number,
    number,
    number,
  ];
  const [blockUnits, unitTokens, headFirst, headCount] = lengths.slice(6) as [number, number, number, number];
  const parts = PART_NAMES[partCount - 1]!.map((name, index) => ({
    name,
    region: 0,
    base: base + index * partStride,
    blockStride,
    unitStride,
    headStride,
    bytes: cellBytes,
    pageUnits: blockUnits,
  }));
  return {
    layer,
    group: 0,
    parts,
    blockCount,
    blockUnits,
    context: WHOLE_CONTEXT,
    unitTokens,
    headFirst,
    headCount,
    form: '',
    bytes: blockStride * blockCount,
  };
}

/** First reply: who this engine is and how its caches are laid out. */
export function engineReplyBytes(
  name: string,
  engineDesc: Uint8Array,
  views: readonly LayerView[],
): BytesMessage {
  const bytes = encode({
    engine_id: name,
    agent_metadata: engineDesc,
    kv_caches_base_addr: views.map((view) => view.parts[0]!.base),
    num_blocks: views[0]!.blockCount,
    block_len: views.map(lengthsOf),
    attn_backend_name: 'SIMULATED',
  });
  return { kind: 'bytes', port: 'handshake', bytes };
}

/** Second reply: a packed memory descriptor for each layer; here all layers lie in one memory. */
export function memoryReplyBytes(memoryDesc: Uint8Array, layers: number): BytesMessage {
  const bytes = encode(new Array<Uint8Array[]>(layers).fill([memoryDesc]));
  return { kind: 'bytes', port: 'handshake', bytes };
}

interface EngineReply {
  readonly agent_metadata: Uint8Array;
  readonly kv_caches_base_addr: readonly number[];
  readonly num_blocks: number;
  readonly block_len: readonly (readonly number[])[];
}

/** What a peer said of itself, and its caches. */
export interface PeerCaches extends Description {
  readonly views: readonly LayerView[];
}

/** From a peer's two replies. The first connector trusts its peers: it checks nothing here. */
export function readReplies(engineBytes: Uint8Array, memoryBytes: Uint8Array): PeerCaches {
  const engine = decodeMsgpack(engineBytes) as EngineReply;
  const layers = decodeMsgpack(memoryBytes) as readonly (readonly Uint8Array[])[];
  const views = layers.map((_, layer) =>
    viewOf(layer, engine.kv_caches_base_addr[layer]!, engine.num_blocks, engine.block_len[layer]!),
  );
  return { engineDesc: engine.agent_metadata, memoryDesc: layers[0]![0]!, views };
}

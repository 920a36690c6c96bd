import { isIndex, requireWhole } from '../../src/base/checks.ts';
import { UsageError } from '../../src/base/failure.ts';
import type { BlockId, Mode, Role } from '../../src/base/topology.ts';
import type { Leg } from '../../src/wire/messages.ts';
import {
  PORT_MAX,
  parsePort,
  parseZmqAddress,
  requireHost,
  requirePort,
  trimBlanks,
  type ZmqAddress,
} from './addresses.ts';
import { holdsAddresses, peerOfRequest } from './request-id.ts';

/**
 * `kv_transfer_params`, the part of an HTTP request by which a proxy tells an instance about a transfer. It comes from
 * outside, so nothing of it is believed before it is checked. Source: wire.md 6.3 and 6.4.
 */

/** Longest transfer or engine id that is kept. */
const ID_CHARS_MAX = 512;
/** More blocks than any request has: 16 million tokens in blocks of one token. */
const BLOCKS_MAX = 1 << 24;

const READ_WORDS = ['true', '1'];
const WRITE_WORDS = ['false', '0', ''];

/**
 * What `read_mode` in a connector's configuration means. It may be a boolean, 0 or 1, or one of these as a word; absent
 * means WRITE.
 * @throws UsageError MODE for any other word: a `yes` that meant WRITE would wait for ever.
 */
export function parseReadMode(flag: unknown): Mode {
  if (flag === undefined || flag === null) return 'write';
  const isPlain = typeof flag === 'string' || typeof flag === 'boolean' || typeof flag === 'number';
  const word = isPlain ? String(flag).trim().toLowerCase() : 'a value that is no word';
  if (READ_WORDS.includes(word)) return 'read';
  if (WRITE_WORDS.includes(word)) return 'write';
  throw new UsageError('MODE', 'read_mode must be true or false');
}

/** Block ids of one cache group, or of several when the peer has the hybrid allocator: one list for each. */
export type RemoteBlockIds = readonly BlockId[] | readonly (readonly BlockId[])[];

/** What an instance knows of a transfer from its request: a copy, so that nobody can change it afterwards. */
export interface RequestMeta {
  readonly transferId: string;
  /** null until somebody has told them: WRITE, and the prefill leg of READ. */
  readonly remoteBlocks: RemoteBlockIds | null;
  readonly remoteEngineId: string | null;
  readonly remote: ZmqAddress;
  readonly remoteTpSize: number;
  readonly remoteDpSize: number;
  /** null when the proxy pinned none. */
  readonly remoteDpRank: number | null;
}

type Fields = { readonly [field: string]: unknown };

/**
 * Which leg a request is; `whole` without any transfer. The reply of a prompt that ended by a stop token has no
 * parameters at all, and so asks for no transfer.
 * @throws UsageError PARAMS-LEG for a request that claims to be both legs, or for flags that are no booleans.
 */
export function legOf(params: unknown): Leg {
  if (params === undefined || params === null) return 'whole';
  const fields = fieldsOf(params);
  const isPrefill = flagOf(fields, 'do_remote_decode');
  const isDecode = flagOf(fields, 'do_remote_prefill');
  if (isPrefill && isDecode)
    throw new UsageError('PARAMS-LEG', 'a request cannot be both legs of a transfer');
  if (isPrefill) return 'prefill';
  return isDecode ? 'decode' : 'whole';
}

/**
 * What the parameters of a request say to an instance of `role`. `transfer_id`, `remote_block_ids` and
 * `remote_engine_id` must be there, the last two may be null; sizes that are left out are 1.
 * @throws UsageError PARAMS-FIELD, PARAMS-ADDRESS, ADDRESS-* or REQUEST-ID-FORM.
 */
export function readRequestMeta(requestId: string, role: Role, params: unknown): RequestMeta {
  const fields = fieldsOf(params);
  const remoteDpSize = sizeOf(fields, 'remote_dp_size') ?? 1;
  const engineId = requiredField(fields, 'remote_engine_id');
  return {
    transferId: requireId(requiredField(fields, 'transfer_id'), 'transfer_id'),
    remoteBlocks: copyOfBlocks(requiredField(fields, 'remote_block_ids')),
    remoteEngineId: engineId === null ? null : requireId(engineId, 'remote_engine_id'),
    remote: remoteOf(fields, requestId, role),
    remoteTpSize: tpSizeOf(fields),
    remoteDpSize,
    remoteDpRank: dpRankOf(fields, remoteDpSize),
  };
}

/** The peer's address: as fields of its own if all three are there, else from the request id, else as one field. */
function remoteOf(fields: Fields, requestId: string, role: Role): ZmqAddress {
  const host = fieldOf(fields, 'remote_host');
  const handshake = fieldOf(fields, 'remote_handshake_port');
  const notify = fieldOf(fields, 'remote_notify_port');
  if (host !== null && handshake !== null && notify !== null) {
    return {
      host: requireHost(host),
      handshakePort: portOf(handshake, 'remote_handshake_port'),
      notifyPort: portOf(notify, 'remote_notify_port'),
    };
  }
  if (holdsAddresses(requestId)) return peerOfRequest(requestId, role);
  const whole = fieldOf(fields, 'remote_zmq_address');
  if (typeof whole === 'string') return parseZmqAddress(whole);
  throw new UsageError('PARAMS-ADDRESS', 'neither the parameters nor the request id say where the peer is');
}

/** Proxies write a port as a number, P's reply as text. */
function portOf(value: unknown, field: string): number {
  return typeof value === 'string' ? parsePort(trimBlanks(value), field) : requirePort(value, field);
}

/** The proxy calls it `remote_tp_size`, P's reply `tp_size`: both mean the peer's, so they must not differ. */
function tpSizeOf(fields: Fields): number {
  const short = sizeOf(fields, 'tp_size');
  const long = sizeOf(fields, 'remote_tp_size');
  if (short !== null && long !== null && short !== long)
    throw new UsageError('PARAMS-FIELD', `tp_size is ${short}, but remote_tp_size is ${long}`);
  return short ?? long ?? 1;
}

function sizeOf(fields: Fields, field: string): number | null {
  const value = fieldOf(fields, field);
  return value === null ? null : requireWhole(value, [1, PORT_MAX], 'PARAMS-FIELD', field);
}

function dpRankOf(fields: Fields, dpSize: number): number | null {
  const value = fieldOf(fields, 'remote_dp_rank');
  return value === null ? null : requireWhole(value, [0, dpSize - 1], 'PARAMS-FIELD', 'remote_dp_rank');
}

function copyOfBlocks(value: unknown): RemoteBlockIds | null {
  if (value === null) return null;
  if (Array.isArray(value) && value.length <= BLOCKS_MAX) {
    if (value.every(isIndex)) return [...value];
    if (value.every(isBlockList)) return value.map((group) => [...group]);
  }
  throw new UsageError('PARAMS-FIELD', 'remote_block_ids must be null, block ids, or lists of block ids');
}

function isBlockList(value: unknown): value is BlockId[] {
  return Array.isArray(value) && value.length <= BLOCKS_MAX && value.every(isIndex);
}

function requireId(value: unknown, field: string): string {
  if (typeof value === 'string' && value !== '' && value.length <= ID_CHARS_MAX) return value;
  throw new UsageError('PARAMS-FIELD', `${field} must be a text of 1 to ${ID_CHARS_MAX} characters`);
}

function flagOf(fields: Fields, field: string): boolean {
  const value = fieldOf(fields, field) ?? false;
  if (typeof value !== 'boolean') throw new UsageError('PARAMS-LEG', `${field} must be true or false`);
  return value;
}

function fieldsOf(params: unknown): Fields {
  if (typeof params === 'object' && params !== null && !Array.isArray(params)) return params as Fields;
  throw new UsageError('PARAMS-FIELD', 'kv_transfer_params must be an object');
}

/** null for what is absent or null. Never a property that every object has. */
function fieldOf(fields: Fields, field: string): unknown {
  return Object.hasOwn(fields, field) ? (fields[field] ?? null) : null;
}

function requiredField(fields: Fields, field: string): unknown {
  if (!Object.hasOwn(fields, field)) throw new UsageError('PARAMS-FIELD', `${field} is missing`);
  return fields[field] ?? null;
}

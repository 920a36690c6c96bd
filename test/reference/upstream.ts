/**
 * What the published connector does with addresses, ids and parameters, read from descriptions and outcomes of it and
 * written apart from ours: the measure that ours is held against. Where releases differ, the newest one read. Its
 * mistakes are kept. Source: wire.md 6, golden/ranks.json.
 */

export class Refused extends Error {}

/** Python's `str.strip`: blanks by its table, which is not that of JavaScript. */
export function strip(text: string): string {
  const blank = String.raw`(?:[^\S\ufeff]|[\x1c-\x1f\x85])+`;
  return text.replace(new RegExp(`^${blank}|${blank}$`, 'g'), '');
}

/** Python's `int` of a text: sign, single underscores between digits, digits of any script. */
function int(text: string): number {
  const inner = strip(text);
  if (!/^[+-]?\p{Nd}(?:_?\p{Nd})*$/u.test(inner)) throw new Refused('no number');
  const plain = [...inner.replaceAll('_', '')].map((char) => (/\p{Nd}/u.test(char) ? digitOf(char) : char));
  return Number(plain.join(''));
}

/** Digits of a script stand in tens. */
function digitOf(char: string): number {
  let zero = char.codePointAt(0)!;
  while (/\p{Nd}/u.test(String.fromCodePoint(zero - 1)) && char.codePointAt(0)! - zero < 9) zero--;
  return char.codePointAt(0)! - zero;
}

/** Host, handshake port, notify port. */
export type Triple = readonly [unknown, number, number];

export function zmqAddress(address: string): Triple {
  const parts: { [key: string]: string } = Object.create(null);
  for (const segment of address.split(',')) {
    const [key = '', ...values] = segment.split(':');
    parts[strip(key)] = strip(values.join(':'));
  }
  const { host, handshake, notify } = parts;
  if (host === undefined || handshake === undefined || notify === undefined)
    throw new Refused('a key is missing');
  return [host, int(handshake), int(notify)];
}

/** The address of the peer in a request id, as text. */
export function peerOf(requestId: string, isProducer: boolean): string {
  const found = isProducer
    ? /___decode_addr_([^\n]+)_[0-9a-f]{32}(?:-[^\n]*)?\n?$/.exec(requestId)
    : /___prefill_addr_([^\n]+?)___decode_addr_/.exec(requestId);
  if (found === null) throw new Refused('no address');
  return found[1]!;
}

export function stripSuffix(requestId: string): string {
  return /^([^\n]+)-[0-9a-fA-F]{8}$/.exec(requestId)?.[1] ?? requestId;
}

export function ackCount(prefillTp: number, decodeTp: number): number {
  if (prefillTp <= 0 || decodeTp <= 0) throw new Refused('no size');
  if (decodeTp > prefillTp && decodeTp % prefillTp !== 0) throw new Refused('no multiple');
  return decodeTp <= prefillTp ? 1 : decodeTp / prefillTp;
}

export function remoteTpRank(rank: number, localTp: number, remoteTp: number): number {
  if (localTp <= 0 || remoteTp <= 0 || rank < 0 || rank >= localTp) throw new Refused('no rank');
  if (Math.max(localTp, remoteTp) % Math.min(localTp, remoteTp) !== 0) throw new Refused('no multiple');
  return Math.floor((rank * remoteTp) / localTp);
}

type Fields = { readonly [field: string]: unknown };

/** What a port field becomes: a text by `int`, a number cut, a truth value as 1 or 0. */
function portOf(value: unknown): number {
  if (typeof value === 'string') return int(value);
  if (typeof value === 'number' || typeof value === 'boolean') return Math.trunc(Number(value));
  throw new Refused('no port');
}

function addressOf(requestId: string, isProducer: boolean, fields: Fields): Triple {
  const own = ['remote_host', 'remote_handshake_port', 'remote_notify_port'].map(
    (key) => fields[key] ?? null,
  );
  const [host, handshake, notify] = own;
  if (!own.includes(null)) return [host, portOf(handshake), portOf(notify)];
  try {
    return zmqAddress(peerOf(requestId, isProducer));
  } catch (error) {
    const whole = fields['remote_zmq_address'] ?? '';
    if (!(error instanceof Refused) || typeof whole !== 'string' || whole === '') throw error;
    return zmqAddress(whole);
  }
}

export function requestMeta(requestId: string, isProducer: boolean, fields: Fields): object {
  const { transfer_id, remote_block_ids = [], remote_engine_id = '', remote_tp_size = 1 } = fields;
  if (transfer_id === undefined) throw new Refused('no transfer id');
  const rank = fields['remote_dp_rank'] ?? 0;
  const [host, handshake, notify] = addressOf(requestId, isProducer, fields);
  return {
    transferId: transfer_id,
    blocks: remote_block_ids,
    engineId: remote_engine_id,
    host,
    ports: [handshake, notify],
    tpSize: fields['tp_size'] === undefined ? remote_tp_size : fields['tp_size'],
    dpSize: fields['remote_dp_size'] === undefined ? 1 : fields['remote_dp_size'],
    dpRank: typeof rank === 'string' ? int(rank) : rank,
  };
}

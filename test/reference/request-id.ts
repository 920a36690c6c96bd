import { UsageError } from '../../src/base/failure.ts';
import type { Role } from '../../src/base/topology.ts';
import { buildZmqAddress, parseZmqAddress, type ZmqAddress } from './addresses.ts';

/**
 * The request id by which P and D find each other: the proxy writes both addresses into it, vLLM wraps it. Everything
 * here looks for fixed texts from left to right, so that the time is linear in the length of the id. Source: wire.md 6.2.
 */

const PREFILL_MARK = '___prefill_addr_';
const DECODE_MARK = '___decode_addr_';

/** Longest id that is read at all; two addresses with the longest host names and the wrappers fit. */
export const REQUEST_ID_CHARS_MAX = 1024;

/** What a request id says, the addresses as they stand in it: another connector may have another form of them. */
export interface RequestIdParts {
  readonly prefill: string;
  readonly decode: string;
  /** 32 lower-case hex digits. */
  readonly unique: string;
}

/**
 * `___prefill_addr_<P>___decode_addr_<D>_<unique>`, with 32 lower-case hex digits.
 * @throws UsageError REQUEST-ID-UNIQUE, ADDRESS-*, or REQUEST-ID-FORM for a host that would be read back as another one.
 */
export function buildRequestId(prefill: ZmqAddress, decode: ZmqAddress, unique: string): string {
  requireUnique(unique, 'REQUEST-ID-UNIQUE');
  const parts = { prefill: buildZmqAddress(prefill), decode: buildZmqAddress(decode), unique };
  const id = `${PREFILL_MARK}${parts.prefill}${DECODE_MARK}${parts.decode}_${unique}`;
  const read = readRequestId(id);
  if (read.prefill !== parts.prefill || read.decode !== parts.decode || read.unique !== unique)
    throw new UsageError('REQUEST-ID-FORM', 'a host of this request id looks like a part of the id');
  return id;
}

/** Whether a text means to be such an id, well formed or not. */
export function holdsAddresses(requestId: string): boolean {
  return requestId.includes(PREFILL_MARK) || requestId.includes(DECODE_MARK);
}

/**
 * The parts of an id, wherever in the text it begins and whatever `-...` follows it. An id is good for both sides or for
 * neither: if P could read less of it than D, D would wait for a P that never comes.
 * @throws UsageError REQUEST-ID-FORM.
 */
export function readRequestId(requestId: string): RequestIdParts {
  if (requestId.length > REQUEST_ID_CHARS_MAX)
    refuse(`a request id of ${requestId.length} characters is too long`);
  if (!/^[\t -~]*$/.test(requestId)) refuse('a request id holds a character that no HTTP header may hold');
  const prefillAt = onlyPlace(requestId, PREFILL_MARK) + PREFILL_MARK.length;
  const decodeAt = onlyPlace(requestId, DECODE_MARK);
  const prefill = requestId.slice(prefillAt, decodeAt);
  const rest = requestId.slice(decodeAt + DECODE_MARK.length);
  // The shortest address: what a suffix holds is never part of it.
  const end = /_([0-9a-f]{32})/.exec(rest);
  if (end === null) refuse('a request id does not end with 32 hex digits');
  const decode = rest.slice(0, end.index);
  const suffix = rest.slice(end.index + end[0].length);
  if (suffix !== '' && !suffix.startsWith('-'))
    refuse('more than a suffix follows the 32 hex digits of a request id');
  if (prefill === '' || decode === '') refuse('a request id has an empty address');
  return { prefill, decode, unique: end[1]! };
}

/** Where a mark stands in the id; it must be there once and only once. */
function onlyPlace(requestId: string, mark: string): number {
  const at = requestId.indexOf(mark);
  if (at < 0) refuse(`a request id has no ${mark}`);
  if (requestId.indexOf(mark, at + 1) >= 0) refuse(`a request id has ${mark} twice`);
  return at;
}

function refuse(detail: string): never {
  throw new UsageError('REQUEST-ID-FORM', detail);
}

/** Both addresses of an id. @throws UsageError REQUEST-ID-FORM, or ADDRESS-* for an address of another connector. */
export function parseRequestId(requestId: string): {
  readonly prefill: ZmqAddress;
  readonly decode: ZmqAddress;
} {
  const { prefill, decode } = readRequestId(requestId);
  return { prefill: parseZmqAddress(prefill), decode: parseZmqAddress(decode) };
}

/** Whom an instance of the given role has to dial for this request. @throws UsageError as {@link parseRequestId}. */
export function peerOfRequest(requestId: string, role: Role): ZmqAddress {
  const { prefill, decode } = parseRequestId(requestId);
  return role === 'prefill' ? decode : prefill;
}

/**
 * The id without the 8 hex digits, in either case, that vLLM adds anew on each leg, so that both legs agree on it. Any
 * text is fine; one without such a suffix, with nothing before it or with a line break in it stays as it is.
 */
export function stripSuffix(requestId: string): string {
  const at = requestId.length - 9;
  const hasSuffix = at > 0 && /^-[0-9a-fA-F]{8}$/.test(requestId.slice(at)) && !requestId.includes('\n');
  return hasSuffix ? requestId.slice(0, at) : requestId;
}

/** `tx-<unique>`. @throws UsageError TRANSFER-ID. */
export function buildTransferId(unique: string): string {
  return `tx-${requireUnique(unique, 'TRANSFER-ID')}`;
}

/**
 * The 32 hex digits of a transfer id. Older branches wrote them with the dashes of a uuid; they are read as well, but
 * the id itself goes on as it came, because peers compare it as text.
 * @throws UsageError TRANSFER-ID.
 */
export function parseTransferId(text: string): string {
  const parts = /^tx-([0-9a-f]{8})(-?)([0-9a-f]{4})\2([0-9a-f]{4})\2([0-9a-f]{4})\2([0-9a-f]{12})$/.exec(
    text,
  );
  if (parts === null)
    throw new UsageError('TRANSFER-ID', 'a transfer id is tx- and 32 lower-case hex digits');
  const [, first, , ...others] = parts;
  return `${first}${others.join('')}`;
}

function requireUnique(text: string, code: string): string {
  if (!/^[0-9a-f]{32}$/.test(text)) throw new UsageError(code, 'it takes 32 lower-case hex digits');
  return text;
}

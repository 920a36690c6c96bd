import { requireWhole } from '../../src/base/checks.ts';
import { UsageError } from '../../src/base/failure.ts';

/**
 * Where a rank can be reached, in the forms that the proxies and connectors of the `moriio` mode use. An instance tells
 * one base port for each socket; each of its ranks listens at the base plus the rank's offset. Source: wire.md 6.
 */

export const PORT_MAX = 65_535;
/** What the published connector listens at when nobody says otherwise. */
export const DEFAULT_HANDSHAKE_PORT = 6301;
export const DEFAULT_NOTIFY_PORT = 61_005;

/** Longest address that is read at all; the longest host name and two ports fit three times over. */
export const ADDRESS_CHARS_MAX = 1024;
/** Longest host name that DNS allows. */
const HOST_CHARS_MAX = 255;

/** What Python takes for a blank. Not JavaScript's: the marks 1C to 1F and 85 are blanks, the byte order mark is none. */
const BLANKS =
  '\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a' +
  '\u2028\u2029\u202f\u205f\u3000';

/** How an instance makes itself known: a host and the base ports of its two ZeroMQ sockets. */
export interface ZmqAddress {
  /** Name, IPv4 or IPv6, as the instance wrote it: keys made of it are compared character by character. */
  readonly host: string;
  readonly handshakePort: number;
  readonly notifyPort: number;
}

/** A port as a number. @throws UsageError ADDRESS-PORT when it is not a whole number from 1 to 65535. */
export function requirePort(port: unknown, what: string): number {
  return requireWhole(port, [1, PORT_MAX], 'ADDRESS-PORT', what);
}

/** A text without the blanks at its ends; what a blank is, Python's `str.strip` says, by which the connector cuts. */
export function trimBlanks(text: string): string {
  let from = 0;
  let to = text.length;
  while (from < to && BLANKS.includes(text[from]!)) from++;
  while (to > from && BLANKS.includes(text[to - 1]!)) to--;
  return text.slice(from, to);
}

/** A port as decimal digits. Signs, inner blanks, underscores, other digits and fractions are refused. */
export function parsePort(text: string, what: string): number {
  if (!/^[0-9]+$/.test(text))
    throw new UsageError('ADDRESS-PORT', `${what} must be decimal digits, not ${quoted(text)}`);
  return requirePort(Number(text), what);
}

/** A name, an IPv4 or IPv6 address, with its scope or brackets if it has any. @throws UsageError ADDRESS-HOST. */
export function requireHost(host: unknown): string {
  const isHost =
    typeof host === 'string' &&
    host.length <= HOST_CHARS_MAX &&
    /^(?:[A-Za-z0-9._:%-]+|\[[A-Za-z0-9._:%-]+\])$/.test(host);
  if (isHost) return host;
  const shown = typeof host === 'string' ? quoted(host) : `a value of type ${typeof host}`;
  throw new UsageError('ADDRESS-HOST', `${shown} is no host`);
}

/** `host:IP,handshake:PORT,notify:PORT`. @throws UsageError ADDRESS-HOST or ADDRESS-PORT. */
export function buildZmqAddress({ host, handshakePort, notifyPort }: ZmqAddress): string {
  requireHost(host);
  requirePort(handshakePort, 'the handshake port');
  requirePort(notifyPort, 'the notify port');
  return `host:${host},handshake:${handshakePort},notify:${notifyPort}`;
}

/**
 * The inverse of {@link buildZmqAddress}. Keys may come in any order, unknown ones are passed over; each part is cut at
 * its first colon, so that an IPv6 host needs no brackets. Blanks around commas and first colons do not count.
 * @throws UsageError ADDRESS-FORM, ADDRESS-HOST or ADDRESS-PORT.
 */
export function parseZmqAddress(text: string): ZmqAddress {
  requireShort(text);
  const parts = new Map<string, string>();
  for (const part of text.split(',')) {
    const colon = part.indexOf(':');
    const key = trimBlanks(colon < 0 ? part : part.slice(0, colon));
    const isKnown = key === 'host' || key === 'handshake' || key === 'notify';
    if (isKnown && parts.has(key)) throw new UsageError('ADDRESS-FORM', `${key} is there twice`);
    if (isKnown) parts.set(key, colon < 0 ? '' : trimBlanks(part.slice(colon + 1)));
  }
  const partOf = (key: string): string => {
    const part = parts.get(key);
    if (part === undefined) throw new UsageError('ADDRESS-FORM', `${quoted(text)} has no ${key}`);
    return part;
  };
  return {
    host: requireHost(partOf('host')),
    handshakePort: parsePort(partOf('handshake'), 'the handshake port'),
    notifyPort: parsePort(partOf('notify'), 'the notify port'),
  };
}

/** `host:port` without a scheme, IPv6 in brackets, as URLs have it. */
export function buildHttpAddress(host: string, port: number): string {
  return `${inBrackets(requireHost(host))}:${requirePort(port, 'the HTTP port')}`;
}

/**
 * Host and port of a `host:port`. An IPv6 host without brackets is read up to the last colon, because the published
 * connector writes it so.
 * @throws UsageError ADDRESS-FORM, ADDRESS-HOST or ADDRESS-PORT.
 */
export function parseHttpAddress(text: string): { readonly host: string; readonly port: number } {
  requireShort(text);
  const colon = text.lastIndexOf(':');
  if (colon < 0) throw new UsageError('ADDRESS-FORM', `${quoted(text)} has no port`);
  const host = requireHost(text.slice(0, colon));
  const port = parsePort(text.slice(colon + 1), 'the HTTP port');
  return { host: host.startsWith('[') ? host.slice(1, -1) : host, port };
}

/** What a ZeroMQ socket dials: `tcp://host:port`, IPv6 in brackets. */
export function tcpPath(host: string, port: number): string {
  return `tcp://${inBrackets(requireHost(host))}:${requirePort(port, 'the port')}`;
}

function inBrackets(host: string): string {
  return host.includes(':') && !host.startsWith('[') ? `[${host}]` : host;
}

function requireShort(text: string): void {
  if (text.length > ADDRESS_CHARS_MAX)
    throw new UsageError('ADDRESS-FORM', `an address of ${text.length} characters is too long`);
}

/** At most the first 80 characters, so that a refusal of a long text is a short line. */
function quoted(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}...` : text);
}

/**
 * How far behind its instance's base port a rank listens and is dialled: one formula for both sides, or two ranks of a
 * host want one port. Without the TP size only DP rank 0 has a port; to take the size as 1 then (vLLM issue 53579) would
 * land on another DP rank.
 * @throws UsageError PORT-RANK for a rank that is not there or a size that is needed and missing.
 */
export function offsetOfRank(dpRank: number, tpRank: number, tpSize: number | undefined): number {
  requireWhole(dpRank, [0, PORT_MAX], 'PORT-RANK', 'the DP rank');
  if (tpSize === undefined && dpRank > 0)
    throw new UsageError('PORT-RANK', `the port of DP rank ${dpRank} needs the TP size`);
  const size = requireWhole(tpSize ?? PORT_MAX, [1, PORT_MAX], 'PORT-RANK', 'the TP size');
  requireWhole(tpRank, [0, size - 1], 'PORT-RANK', 'the TP rank');
  return dpRank * size + tpRank;
}

/** The port of a rank. @throws UsageError PORT-RANK, or ADDRESS-PORT when it would lie above 65535. */
export function portOfRank(
  basePort: number,
  dpRank: number,
  tpRank: number,
  tpSize: number | undefined,
): number {
  requirePort(basePort, 'the base port');
  const what = `the port of DP rank ${dpRank}, TP rank ${tpRank} above base ${basePort}`;
  return requirePort(basePort + offsetOfRank(dpRank, tpRank, tpSize), what);
}

export interface RankPort {
  readonly dpRank: number;
  readonly tpRank: number;
  readonly port: number;
}

/** The ports of a whole instance, DP rank by DP rank. @throws UsageError as {@link portOfRank}. */
export function portsOfInstance(basePort: number, dpSize: number, tpSize: number): RankPort[] {
  requireWhole(dpSize, [1, PORT_MAX], 'PORT-RANK', 'the DP size');
  // The last rank has the highest port: if that one fits, all do, and the list is no longer than there are ports.
  portOfRank(basePort, dpSize - 1, tpSize - 1, tpSize);
  return Array.from({ length: dpSize * tpSize }, (_, offset) => ({
    dpRank: Math.floor(offset / tpSize),
    tpRank: offset % tpSize,
    port: basePort + offset,
  }));
}

/** What to dial to reach every TP rank of one DP rank; `tpSize` is that of the side that is dialled. */
export function pathsOfGroup(host: string, basePort: number, dpRank: number, tpSize: number): string[] {
  portOfRank(basePort, dpRank, tpSize - 1, tpSize);
  return Array.from({ length: tpSize }, (_, tpRank) =>
    tcpPath(host, portOfRank(basePort, dpRank, tpRank, tpSize)),
  );
}

/** An instance's name in `remote_engine_id`: host and handshake port, an IPv6 host without brackets. */
export function engineIdOf({ host, handshakePort }: ZmqAddress): string {
  return `${host}:${handshakePort}`;
}

/** Under what name the peers of an instance are kept: its id, the DP rank and, where several are known, the TP rank. */
export function peerName(engineId: string, dpRank: number, tpRank: number | null): string {
  return tpRank === null ? `${engineId}_dp${dpRank}` : `${engineId}_dp${dpRank}_tp${tpRank}`;
}

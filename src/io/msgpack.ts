import { UsageError } from '../base/failure.ts';
import { decodeUtf8, encodeUtf8 } from '../base/utf8.ts';

/**
 * Msgpack, as much of it as MoRI-IO's descriptors and control frames use, with the bytes and the leniency of
 * msgpack-cxx (mori-io.md A2). Our own because both must be equal: @msgpack/msgpack writes the same bytes for
 * small numbers but 64-bit ones always in full, and its reader hands back finished values, so that nobody can
 * tell 9.0 from 9, refuse what is out of range, or read a str from a bin.
 *
 * Reading has two steps, as upstream: `openMsgpack` walks one whole object, so a cut-off input is
 * `DESC-SHORT` even where an earlier field has the wrong type; then fields are read with their types. The
 * walk keeps a count, not a stack, and nothing is allocated by a length that the input only claims.
 *
 * Errors are UsageErrors: `DESC-SHORT` (insufficient bytes), `DESC-FORMAT` (the byte c1, which starts
 * nothing), `DESC-TYPE` (wrong type or out of range), `DESC-TEXT` (a str that is not UTF-8: upstream keeps
 * such bytes in a std::string, a JavaScript string cannot), `DESC-RANGE` (a number of ours that its field
 * cannot hold).
 */

/** The closed range of an integer field. */
export interface IntRange {
  readonly least: number | bigint;
  readonly most: number | bigint;
}

export const INT32: IntRange = { least: -(2 ** 31), most: 2 ** 31 - 1 };
export const UINT16: IntRange = { least: 0, most: 2 ** 16 - 1 };
export const UINT32: IntRange = { least: 0, most: 2 ** 32 - 1 };
export const UINT64: IntRange = { least: 0n, most: 2n ** 64n - 1n };

/** A place in an input; reading moves it. */
export interface Cursor {
  readonly bytes: Uint8Array;
  offset: number;
}

/**
 * Starts reading at the first byte, after checking that one whole object is there. What follows it is
 * ignored.
 */
export function openMsgpack(bytes: Uint8Array): Cursor {
  skipObject({ bytes, offset: 0 });
  return { bytes, offset: 0 };
}

/** Passes over one object with all that is in it. */
export function skipObject(cursor: Cursor): void {
  let pendingObjects = 1;
  while (pendingObjects > 0) {
    if (isSmallInt(cursor.bytes[cursor.offset])) {
      cursor.offset += 1;
      pendingObjects -= 1;
      continue;
    }
    const head = takeHead(cursor);
    const inner = head.kind === 'array' || head.kind === 'map' ? head.objects : 0;
    // Claims may drive the count past 2^53, where it is no longer exact: the input ends long before it gets
    // to zero.
    pendingObjects += inner - 1;
    if (head.kind === 'str' || head.kind === 'bin' || head.kind === 'other') {
      checkLength(cursor, head.sizeBytes);
      cursor.offset += head.sizeBytes;
    }
  }
}

/** The number of elements of the array that starts here; the elements follow. */
export function readArrayCount(cursor: Cursor): number {
  const head = takeHead(cursor);
  return head.kind === 'array' ? head.objects : wrongType('an array', head);
}

/** An integer in any width, minimal or not; a number up to 32 bits wide, else a bigint. */
export function readInt(cursor: Cursor, { least, most }: IntRange): number | bigint {
  const value = takeInt(cursor);
  if (value < least || value > most) {
    throw new UsageError('DESC-TYPE', `${value} is not within ${least}..${most}`);
  }
  return value;
}

function takeInt(cursor: Cursor): number | bigint {
  const tag = cursor.bytes[cursor.offset];
  if (isSmallInt(tag)) {
    cursor.offset += 1;
    return (tag << 24) >> 24;
  }
  const head = takeHead(cursor);
  return head.kind === 'int' ? head.value : wrongType('an integer', head);
}

/** An integer that is its own tag, as most are. Beyond the end of the input there is none. */
function isSmallInt(tag: number): boolean {
  return tag <= 0x7f || tag >= 0xe0;
}

/** A text, packed as str or as bin. */
export function readText(cursor: Cursor): string {
  const head = takeHead(cursor);
  if (head.kind !== 'str' && head.kind !== 'bin') return wrongType('a text', head);
  const text = decodeUtf8(takeBytes(cursor, head.sizeBytes));
  if (text === undefined) throw new UsageError('DESC-TEXT', 'a text is not UTF-8');
  return text;
}

/**
 * Raw bytes, packed as bin: a view into the input, to be copied by whoever keeps it. A str is refused.
 * Upstream's library is said to take one for a 64-byte field but then to copy 64 bytes however short it is;
 * no such case was run.
 */
export function readBin(cursor: Cursor): Uint8Array {
  const head = takeHead(cursor);
  return head.kind === 'bin' ? takeBytes(cursor, head.sizeBytes) : wrongType('raw bytes', head);
}

/** Appends the head of an array; the caller appends its elements. */
export function writeArrayCount(out: number[], count: number): void {
  writeSized(out, count, { fixTag: 0x90, fixMost: 0x0f, tags: [undefined, 0xdc, 0xdd] });
}

/**
 * Appends an integer in its shortest form. Throws `DESC-RANGE` when the field of that range cannot hold it.
 */
export function writeInt(out: number[], value: number | bigint, range: IntRange): void {
  const isInteger = typeof value === 'bigint' || Number.isInteger(value);
  if (!isInteger || value < range.least || value > range.most) {
    throw new UsageError('DESC-RANGE', `${value} is no integer within ${range.least}..${range.most}`);
  }
  // Most are small, and bigints are slow.
  if (value >= -32 && value <= 0x7f) {
    out.push(Number(value) & 0xff);
    return;
  }
  const exact = BigInt(value);
  if (exact >= 0n) writeWide(out, 0xcc, exact, (bits) => exact >> bits === 0n);
  else writeWide(out, 0xd0, exact, (bits) => exact >= -(1n << (bits - 1n)));
}

/** Appends a text as str. */
export function writeText(out: number[], text: string): void {
  const bytes = encodeUtf8(text);
  writeSized(out, bytes.length, { fixTag: 0xa0, fixMost: 0x1f, tags: [0xd9, 0xda, 0xdb] });
  append(out, bytes);
}

/** Appends raw bytes as bin. */
export function writeBin(out: number[], bytes: Uint8Array): void {
  writeSized(out, bytes.length, { fixTag: 0, fixMost: -1, tags: [0xc4, 0xc5, 0xc6] });
  append(out, bytes);
}

/**
 * What the first bytes of an object say. A map counts its keys and its values; 'other' is nil, bool, float or
 * ext.
 */
type Head =
  | { kind: 'int'; value: number | bigint }
  | { kind: 'array' | 'map'; objects: number }
  | { kind: 'str' | 'bin' | 'other'; sizeBytes: number };

function takeHead(cursor: Cursor): Head {
  checkLength(cursor, 1);
  const tag = cursor.bytes[cursor.offset];
  cursor.offset += 1;
  if (isSmallInt(tag)) return { kind: 'int', value: (tag << 24) >> 24 };
  if (tag <= 0x8f) return { kind: 'map', objects: (tag & 0x0f) * 2 };
  if (tag <= 0x9f) return { kind: 'array', objects: tag & 0x0f };
  if (tag <= 0xbf) return { kind: 'str', sizeBytes: tag & 0x1f };
  return wideHead(cursor, WIDE_TAGS[tag - 0xc0]);
}

/** What a tag from c0 to df announces, and the bytes of the number that follows ('other': of the content). */
type WideTag = readonly ['none' | 'other' | 'bin' | 'ext' | 'uint' | 'int' | 'str' | 'array' | 'map', number];

// biome-ignore format: one row per group of tags, in the order of the tags from c0
const WIDE_TAGS: readonly WideTag[] = [
  ['other', 0], ['none', 0], ['other', 0], ['other', 0],
  ['bin', 1], ['bin', 2], ['bin', 4], ['ext', 1], ['ext', 2], ['ext', 4],
  ['other', 4], ['other', 8],
  ['uint', 1], ['uint', 2], ['uint', 4], ['uint', 8], ['int', 1], ['int', 2], ['int', 4], ['int', 8],
  ['other', 2], ['other', 3], ['other', 5], ['other', 9], ['other', 17],
  ['str', 1], ['str', 2], ['str', 4], ['array', 2], ['array', 4], ['map', 2], ['map', 4],
];

function wideHead(cursor: Cursor, [what, widthBytes]: WideTag): Head {
  if (what === 'none') throw new UsageError('DESC-FORMAT', `no object starts at byte ${cursor.offset - 1}`);
  if (what === 'other') return { kind: 'other', sizeBytes: widthBytes };
  const value = takeUint(cursor, widthBytes);
  if (what === 'uint') return { kind: 'int', value };
  if (what === 'int') return { kind: 'int', value: signed(value, 8 * widthBytes) };
  const size = Number(value);
  if (what === 'ext') return { kind: 'other', sizeBytes: size + 1 };
  if (what === 'str' || what === 'bin') return { kind: what, sizeBytes: size };
  return { kind: what, objects: what === 'map' ? 2 * size : size };
}

/** A number up to 4 bytes wide, a bigint of 8. */
function takeUint(cursor: Cursor, widthBytes: number): number | bigint {
  if (widthBytes > 4) {
    const high = BigInt(takeUint(cursor, 4));
    return (high << 32n) | BigInt(takeUint(cursor, widthBytes - 4));
  }
  checkLength(cursor, widthBytes);
  let value = 0;
  for (const end = cursor.offset + widthBytes; cursor.offset < end; cursor.offset += 1)
    value = value * 0x100 + cursor.bytes[cursor.offset];
  return value;
}

function signed(value: number | bigint, bits: number): number | bigint {
  if (typeof value === 'bigint') return BigInt.asIntN(bits, value);
  const unused = 32 - bits;
  return (value << unused) >> unused;
}

/** A view of the next bytes. The claim is checked against what is there before anything is made of it. */
function takeBytes(cursor: Cursor, sizeBytes: number): Uint8Array {
  checkLength(cursor, sizeBytes);
  const end = cursor.offset + sizeBytes;
  const view = cursor.bytes.subarray(cursor.offset, end);
  cursor.offset = end;
  return view;
}

function checkLength(cursor: Cursor, sizeBytes: number): void {
  const end = cursor.offset + sizeBytes;
  if (end > cursor.bytes.length) {
    throw new UsageError('DESC-SHORT', `insufficient bytes: ${end} needed, ${cursor.bytes.length} there`);
  }
}

function wrongType(wanted: string, head: Head): never {
  throw new UsageError('DESC-TYPE', `${wanted} expected, found ${head.kind}`);
}

/**
 * Tags for lengths of 8, 16 and 32 bits (arrays have none of 8), and the range that fits into the tag itself.
 */
interface SizeTags {
  readonly fixTag: number;
  readonly fixMost: number;
  readonly tags: readonly [number | undefined, number, number];
}

function writeSized(out: number[], size: number, { fixTag, fixMost, tags }: SizeTags): void {
  if (size <= fixMost) out.push(fixTag | size);
  else if (size <= 0xff && tags[0] !== undefined) out.push(tags[0], size);
  else if (size <= 0xffff) pushBigEndian(out, tags[1], BigInt(size), 2);
  else pushBigEndian(out, tags[2], BigInt(size), 4);
}

/** The first width of 1, 2, 4 and 8 bytes that holds the value; tags follow each other in that order. */
function writeWide(out: number[], firstTag: number, value: bigint, fits: (bits: bigint) => boolean): void {
  const step = [8n, 16n, 32n].findIndex(fits);
  const power = step === -1 ? 3 : step;
  pushBigEndian(out, firstTag + power, value, 2 ** power);
}

function pushBigEndian(out: number[], tag: number, value: bigint, widthBytes: number): void {
  out.push(tag);
  for (let index = widthBytes - 1; index >= 0; index -= 1) {
    out.push(Number((value >> BigInt(8 * index)) & 0xffn));
  }
}

/** One by one: spreading a long text into `push` would overflow the stack. */
function append(out: number[], bytes: Uint8Array): void {
  for (const byte of bytes) out.push(byte);
}

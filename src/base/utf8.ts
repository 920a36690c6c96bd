import { UsageError } from './failure.ts';

/**
 * UTF-8 for the pure layers, whose library is ES2023 alone and so has no TextEncoder. Strict both ways: what
 * is not UTF-8 is reported, never replaced, because a replaced byte would change a key that two engines
 * compare. A byte order mark is a character like any other.
 */

/** The bytes of a text. Throws `TEXT-SURROGATE` on half a surrogate pair, which has no bytes. */
export function encodeUtf8(text: string): Uint8Array {
  const out: number[] = [];
  for (const char of text) pushPoint(out, char.codePointAt(0)!);
  return Uint8Array.from(out);
}

/**
 * The text of the bytes, or undefined when they are not UTF-8 (overlong, cut off, surrogate, above U+10FFFF).
 */
export function decodeUtf8(bytes: Uint8Array): string | undefined {
  let text = '';
  for (let offset = 0; offset < bytes.length; ) {
    const widthBytes = widthOf(bytes[offset]);
    const point = pointAt(bytes, offset, widthBytes);
    if (point === undefined) return undefined;
    text += String.fromCodePoint(point);
    offset += widthBytes;
  }
  return text;
}

function pushPoint(out: number[], point: number): void {
  if (isSurrogate(point)) throw new UsageError('TEXT-SURROGATE', 'text holds half a surrogate pair');
  if (point < 0x80) out.push(point);
  else if (point < 0x800) out.push(0xc0 | (point >> 6), tail(point));
  else if (point < 0x10000) out.push(0xe0 | (point >> 12), tail(point >> 6), tail(point));
  else out.push(0xf0 | (point >> 18), tail(point >> 12), tail(point >> 6), tail(point));
}

function tail(bits: number): number {
  return 0x80 | (bits & 0x3f);
}

/** How many bytes the sequence has by its first byte; 0 when no sequence starts with it. */
function widthOf(lead: number): number {
  if (lead < 0x80) return 1;
  if (lead < 0xc0) return 0;
  if (lead < 0xe0) return 2;
  if (lead < 0xf0) return 3;
  return lead < 0xf8 ? 4 : 0;
}

/** By width: the bits of the first byte that count, and the least code point that needs the width. */
const LEAD_MASK = [0, 0x7f, 0x1f, 0x0f, 0x07] as const;
const LEAST_POINT = [0, 0, 0x80, 0x800, 0x10000] as const;

function pointAt(bytes: Uint8Array, offset: number, widthBytes: number): number | undefined {
  if (widthBytes === 0 || offset + widthBytes > bytes.length) return undefined;
  let point = bytes[offset] & LEAD_MASK[widthBytes];
  for (let index = offset + 1; index < offset + widthBytes; index += 1) {
    if ((bytes[index] & 0xc0) !== 0x80) return undefined;
    point = (point << 6) | (bytes[index] & 0x3f);
  }
  if (point < LEAST_POINT[widthBytes] || point > 0x10ffff || isSurrogate(point)) return undefined;
  return point;
}

function isSurrogate(point: number): boolean {
  return point >= 0xd800 && point <= 0xdfff;
}

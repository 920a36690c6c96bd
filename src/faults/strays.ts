import type { BytesMessage } from '../wire/messages.ts';

/** Bytes that a port scanner, an old peer or a bug may send. The order is part of the tape format: add at the end. */
const STRAYS: readonly { readonly name: string; readonly bytes: readonly number[] }[] = [
  { name: 'not UTF-8', bytes: [0xff, 0xfe, 0x80, 0x81] },
  { name: 'empty', bytes: [] },
  { name: 'one byte', bytes: [0x81] },
  { name: 'a msgpack map cut short', bytes: [0x82, 0xa4, 0x74, 0x79, 0x70, 0x65] },
  {
    name: 'a msgpack map of an unknown type',
    bytes: [0x81, 0xa4, 0x74, 0x79, 0x70, 0x65, 0xa3, 0x66, 0x6f, 0x6f],
  },
  { name: 'a claim of 2^32 elements', bytes: [0xdd, 0xff, 0xff, 0xff, 0xff, 0x00] },
  { name: 'a word', bytes: [0x68, 0x65, 0x6c, 0x6c, 0x6f] },
];

export const STRAY_KINDS = STRAYS.length;

export function strayBytes(kind: number): BytesMessage {
  return { kind: 'bytes', port: 'notify', bytes: Uint8Array.from(STRAYS[kind % STRAYS.length]!.bytes) };
}

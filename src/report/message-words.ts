import { decodeUtf8 } from '../base/utf8.ts';
import type { MessageRow } from '../record/messages.ts';
import { decodeMsgpack } from '../wire/msgpack.ts';

type Of<K extends MessageRow['kind']> = Extract<MessageRow, { readonly kind: K }>;

const WORDS: { readonly [K in MessageRow['kind']]: (message: Of<K>) => string } = {
  generate: ({ leg, request, promptTokens, transfer }) =>
    `${leg} leg of request ${request} (${promptTokens} prompt tokens, transfer ${transfer})`,
  answer: ({ leg, request, ok, cause }) =>
    `answer to the ${leg} leg of request ${request}${ok ? '' : `: failed, ${cause}`}`,
  abort: ({ request }) => `abort of request ${request}`,
  engineDown: ({ engine }) => `connection to engine ${engine} lost`,
  runStep: ({ step, requests, tokenFrom, tokenTo }) => {
    const items = requests.map(
      (request, at) => `request ${request} tokens ${tokenFrom[at]}..${tokenTo[at]! - 1}`,
    );
    return `step ${step}: ${items.join(', ') || 'no request'}`;
  },
  stepDone: ({ step }) => `step ${step} done`,
  report: (message) => {
    const ends = (['sent', 'received', 'failed'] as const).filter((end) => message[end].length > 0);
    return `report: ${ends.map((end) => `${end} request ${message[end].join(' ')}`).join(', ')}`;
  },
  metaRequest: () => 'handshake request',
  metaReply: () => 'handshake reply',
  claim: ({ transfer }) => `claim of transfer ${transfer}`,
  grant: ({ grant, transfer, blocks, slotFrom, slotTo }) =>
    `grant ${grant} for transfer ${transfer}: blocks ${blocks.join(' ')}, slots ${slotFrom}..${slotTo - 1}`,
  refuse: ({ transfer }) => `refusal of transfer ${transfer}`,
  seal: ({ transfer, ok }) => `seal of transfer ${transfer}${ok ? '' : ' (failed)'}`,
  sealAck: ({ transfer }) => `acknowledgement of the seal of transfer ${transfer}`,
  revoke: ({ transfer }) => `revoke of transfer ${transfer}`,
  bytes: ({ port, bytes, length }) => `${port} message ${bytesInWords(bytes, length)}`,
};

export function messageInWords(message: MessageRow): string {
  // The table's type says that each kind has words of its own; the compiler cannot follow that through the index.
  return (WORDS[message.kind] as (message: MessageRow) => string)(message);
}

/** Text as text, a msgpack map by its fields, anything else in hex. */
function bytesInWords(bytes: readonly number[], length: number): string {
  const printable = bytes.length > 0 && bytes.every((byte) => byte >= 32 && byte < 127);
  if (printable) return `"${decodeUtf8(Uint8Array.from(bytes.slice(0, 48)))}"`;
  const fields = mapFields(Uint8Array.from(bytes));
  if (fields !== null) return fields;
  const hex = bytes.slice(0, 8).map((byte) => byte.toString(16).padStart(2, '0'));
  return `<${hex.join(' ')}${length > 8 ? ' ...' : ''}>, ${length} bytes`;
}

function mapFields(bytes: Uint8Array): string | null {
  try {
    const value: unknown = decodeMsgpack(bytes);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return null;
    const fields = Object.entries(value).filter(
      ([, field]) => typeof field !== 'object' || Array.isArray(field),
    );
    return `{${fields
      .map(([name, field]) => `${name} ${Array.isArray(field) ? field.join(' ') : String(field)}`)
      .join(', ')
      .slice(0, 90)}}`;
  } catch {
    return null;
  }
}

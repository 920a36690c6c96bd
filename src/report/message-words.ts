import { decodeUtf8 } from '../base/utf8.ts';
import type { MessageRow } from '../record/messages.ts';
import { decodeMsgpack } from '../wire/msgpack.ts';
import type { Names } from './names.ts';

type Of<K extends MessageRow['kind']> = Extract<MessageRow, { readonly kind: K }>;

const WORDS: { readonly [K in MessageRow['kind']]: (message: Of<K>, names: Names) => string } = {
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
  peer: peerInWords,
  bytes: ({ port, bytes, length }) => `${port} message ${bytesInWords(bytes, length)}`,
};

export function messageInWords(message: MessageRow, names: Names): string {
  // The table's type says that each kind has words of its own; the compiler cannot follow that through the index.
  return (WORDS[message.kind] as (message: MessageRow, names: Names) => string)(message, names);
}

const FIELDS_SHOWN_MAX = 90;

/** A connector's own message: by its words, or by its fields. */
function peerInWords(message: Of<'peer'>, { messageWords }: Names): string {
  const { kind: _, name, ...fields } = message;
  const words = Object.hasOwn(messageWords, name) ? messageWords[name] : undefined;
  const shown = (field: string): string => fieldInWords((fields as Readonly<Record<string, unknown>>)[field]);
  if (words !== undefined) return words.replace(/\{(\w+)\}/g, (_whole, field: string) => shown(field));
  const told = Object.keys(fields).map((field) => `${field} ${shown(field)}`);
  return `${name} {${told.join(', ').slice(0, FIELDS_SHOWN_MAX)}}`;
}

function fieldInWords(value: unknown): string {
  return Array.isArray(value) ? value.join(' ') : String(value);
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

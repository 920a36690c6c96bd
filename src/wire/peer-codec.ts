import { encode } from '@msgpack/msgpack';
import { isIndex, isRecord } from '../base/checks.ts';
import { UsageError } from '../base/failure.ts';
import { finish, mix } from '../base/mix.ts';
import type { PeerMessage } from './messages.ts';
import { decodeMsgpack } from './msgpack.ts';

/**
 * A connector's own messages between ranks, described by rows of a table, and their form as bytes: a msgpack map and a
 * 4-byte checksum. The simulator hands messages over as objects and comes here only when a fault harms the bytes; a real
 * socket comes here always. The checksum turns damage into loss, which a protocol survives; without it a flipped bit
 * could name another block.
 */

/** Whether a value is what a field may hold. */
export type Field<T> = (value: unknown) => value is T;

/** One kind of message of a connector. */
export interface PeerForm {
  readonly fields: { readonly [field: string]: Field<unknown> };
  /** The field whose number says what the message is about, for the keys of draws; `transfer` when absent. */
  readonly about?: string;
  /** Words for a reader, with fields in braces: `grant {grant} for transfer {transfer}`. */
  readonly says?: string;
}

export type PeerForms = { readonly [name: string]: PeerForm };

const [FORMS_MAX, WORDS_CHARACTERS_MAX] = [64, 200];
const NAME = /^[A-Za-z_][\w.-]{0,39}$/;

/** A name that a connector may give a message: letters, digits, `_`, `-` and `.`, at most 40, no digit first. */
export function isMessageName(name: unknown): name is string {
  return typeof name === 'string' && NAME.test(name);
}

/** What is wrong with a table of forms that somebody else wrote, in words that go on from it; '' when nothing is. */
export function oddityOfForms(forms: unknown): string {
  if (!isRecord(forms)) return 'is no object with a row for each message';
  const names = Object.keys(forms);
  if (names.length > FORMS_MAX) return `has ${names.length} rows, at most ${FORMS_MAX} are read`;
  const wrong = names.find((name) => !isMessageName(name) || !isForm(forms[name]));
  return wrong === undefined
    ? ''
    : `has a row ${JSON.stringify(wrong.slice(0, 60))} that is none: ${FORM_WORDS}`;
}

const FORM_WORDS =
  'a name of letters, digits, _, - and ., and { fields: functions by the names of fields, about?: a field, says?: a short text }';

function isForm(form: unknown): boolean {
  if (!isRecord(form) || !isRecord(form['fields'])) return false;
  const { fields, about, says } = form;
  const isText = (text: unknown): boolean =>
    text === undefined || (typeof text === 'string' && text.length <= WORDS_CHARACTERS_MAX);
  return Object.values(fields).every((field) => typeof field === 'function') && isText(about) && isText(says);
}

/** The messages that a table of forms describes. */
export type PeerMessageOf<F extends PeerForms> = {
  [N in keyof F & string]: { readonly kind: 'peer'; readonly name: N } & {
    readonly [K in keyof F[N]['fields']]: F[N]['fields'][K] extends Field<infer T> ? T : never;
  };
}[keyof F & string];

/** A whole number from 0 up that is exact. */
export const index: Field<number> = isIndex;

export const flag: Field<boolean> = (value): value is boolean => typeof value === 'boolean';

export const indices: Field<readonly number[]> = (value): value is readonly number[] =>
  Array.isArray(value) && value.every(isIndex);

export const bytes: Field<Uint8Array> = (value): value is Uint8Array => value instanceof Uint8Array;

/** Longest frame that is read at all; a handshake of a few hundred layers fits many times over. */
export const PEER_FRAME_BYTES_MAX = 1 << 20;

/** What the form does not name is left out: a sender may keep its own notes on a message. Without a form all is kept. */
export function encodePeerMessage(message: PeerMessage, forms: PeerForms): Uint8Array {
  const fields = Object.hasOwn(forms, message.name) ? forms[message.name]!.fields : null;
  const map: Record<string, unknown> = { kind: message.name };
  for (const [field, value] of Object.entries(message)) {
    const isKept = fields === null || Object.hasOwn(fields, field);
    if (isKept && field !== 'kind' && field !== 'name') map[field] = value;
  }
  const body = encode(map);
  const frame = new Uint8Array(body.length + 4);
  frame.set(body);
  new DataView(frame.buffer).setUint32(body.length, checksum(body));
  return frame;
}

/** The message, or the cause of its refusal as text. Never throws, whatever the bytes. */
export function decodePeerMessage<F extends PeerForms>(
  frame: Uint8Array,
  forms: F,
): PeerMessageOf<F> | string {
  if (frame.length < 5) return `frame of ${frame.length} bytes is too short`;
  if (frame.length > PEER_FRAME_BYTES_MAX)
    return `frame of ${frame.length} bytes is longer than ${PEER_FRAME_BYTES_MAX}`;
  const body = frame.subarray(0, frame.length - 4);
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
  if (view.getUint32(body.length) !== checksum(body)) return 'frame checksum does not match';
  let value: unknown;
  try {
    value = decodeMsgpack(body);
  } catch (error) {
    if (error instanceof UsageError) return `frame is not msgpack: ${error.code}`;
    throw error;
  }
  if (!isRecord(value)) return `${NOT_A_MESSAGE}: no map`;
  const { kind: name, ...fields } = value;
  const message = { ...fields, kind: 'peer', name };
  const odd = oddityOf(message, forms);
  return odd === '' ? (message as unknown as PeerMessageOf<F>) : odd;
}

function checksum(body: Uint8Array): number {
  let hash = body.length;
  for (const byte of body) hash = mix(hash, byte);
  return finish(hash);
}

/**
 * Why a value is no message that the forms describe, or ''. Holds for what comes as an object as well as for what was
 * decoded: a number in it is whole, exact and not negative, whatever its sender was.
 */
export function oddityOf(value: unknown, forms: PeerForms): string {
  if (!isRecord(value) || value['kind'] !== 'peer') return `${NOT_A_MESSAGE}: no map`;
  const name = value['name'];
  if (typeof name !== 'string' || !Object.hasOwn(forms, name)) return `${NOT_A_MESSAGE}: unknown kind`;
  const { fields } = forms[name]!;
  for (const field in fields) {
    if (!fields[field]!(value[field])) return `${NOT_A_MESSAGE}: field ${field} of ${name}`;
  }
  return '';
}

const NOT_A_MESSAGE = 'not a message of this protocol';

/** The field that says it where a form names none. */
export const ABOUT_USUALLY = 'transfer';

/** What a message is about, as a number for the key of a draw; 0 when it does not say. */
export function aboutOf(message: PeerMessage, forms: PeerForms): number {
  const form = Object.hasOwn(forms, message.name) ? forms[message.name] : undefined;
  const about = message[form?.about ?? ABOUT_USUALLY];
  return isIndex(about) ? about : 0;
}

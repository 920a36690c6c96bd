import type { ActorId } from '../base/topology.ts';
import type { Effect, Note, PostedBatch } from '../wire/machine.ts';
import { type MessageRow, messageRow } from './messages.ts';
import { type PlainOf, plainFields } from './plain.ts';

type Of<K extends Effect['kind']> = Extract<Effect, { readonly kind: K }>;

/** A note that has fields of its own besides its plain ones. */
type Fact = Extract<Note, { readonly kind: 'log' | 'refused' }>;

export type NoteRow = PlainOf<Exclude<Note, Fact>> | Fact;

/** A batch without its segments: how many there are, and their bytes together. */
export type BatchRow = Omit<PlainOf<PostedBatch>, 'runs'> & {
  readonly segments: number;
  readonly bytes: number;
};

/** An effect as a row: what was asked for, with its own fields. */
export type EffectRow =
  | { readonly kind: 'send'; readonly to: ActorId; readonly message: MessageRow }
  | { readonly kind: 'post'; readonly batch: BatchRow }
  | { readonly kind: 'note'; readonly note: NoteRow }
  | PlainOf<Exclude<Effect, { readonly kind: 'send' | 'post' | 'note' }>>;

export function effectRow(effect: Effect): EffectRow {
  switch (effect.kind) {
    case 'send':
      return { kind: 'send', to: effect.to, message: messageRow(effect.message) };
    case 'post':
      return { kind: 'post', batch: batchRow(effect) };
    case 'note':
      return { kind: 'note', note: noteRow(effect.note) };
    default:
      return plainFields(effect);
  }
}

function noteRow(note: Note): NoteRow {
  if (note.kind !== 'log' && note.kind !== 'refused') return plainFields(note);
  return { ...note, fields: plainFields(note.fields) };
}

function batchRow({ batch }: Of<'post'>): BatchRow {
  const { runs, ...rest } = batch;
  let bytes = 0;
  for (let at = 2; at < runs.length; at += 3) bytes += runs[at]!;
  return { ...plainFields(rest), segments: runs.length / 3, bytes };
}

import type { EffectRow, NoteRow } from '../record/effects.ts';
import { factInWords, spaced } from './fact-words.ts';
import { messageInWords } from './message-words.ts';
import { type Names, nameOf } from './names.ts';

/** What a machine asked for, in words; '' for an effect that no reader needs. */
export function effectInWords(effect: EffectRow, names: Names): string {
  switch (effect.kind) {
    case 'send':
      return `sends to ${nameOf(names, effect.to)}: ${messageInWords(effect.message, names)}`;
    case 'post': {
      const { operation, segments, transfer, layer, peer } = effect.batch;
      return `posts ${segments} ${operation}s of layer ${layer} (transfer ${transfer}) towards ${nameOf(names, peer)}`;
    }
    case 'reset':
      return `resets its queue pairs towards ${nameOf(names, effect.peer)}`;
    case 'fence':
      return `fences ${nameOf(names, effect.peer)}`;
    case 'note':
      return noteInWords(effect.note);
    default:
      return '';
  }
}

type Of<K extends NoteRow['kind']> = Extract<NoteRow, { readonly kind: K }>;

const NOTES: { readonly [K in NoteRow['kind']]?: (note: Of<K>) => string } = {
  log: ({ name, fields }) => factInWords(name, fields),
  allocate: ({ blocks, request }) => `gives blocks ${blocks.join(' ')} to request ${request}`,
  share: ({ blocks, request }) => `shares cached blocks ${blocks.join(' ')} with request ${request}`,
  free: ({ blocks, request }) => `frees blocks ${blocks.join(' ')} of request ${request}`,
  external: ({ tokenFrom, tokenTo, request }) =>
    `waits for tokens ${tokenFrom}..${tokenTo - 1} of request ${request}`,
  assign: ({ request, prefill, decode, transfer }) =>
    `gives request ${request} to engines ${prefill} and ${decode}, transfer ${transfer}`,
  outcome: ({ request, outcome, cause }) =>
    `request ${request} ${outcome}${cause === '' ? '' : ` (${cause})`}`,
  refused: ({ reason, fields }) => `refuses: ${factInWords(reason, fields)}`,
  died: ({ thread, cause }) => `thread ${thread} dies: ${cause}`,
  spin: ({ thread, waitsFor }) => `${thread} polls for ${spaced(waitsFor)}`,
  misread: ({ request, layer }) => `reads a wrong cell of request ${request} in layer ${layer}`,
};

function noteInWords(note: NoteRow): string {
  const words = NOTES[note.kind] as ((note: NoteRow) => string) | undefined;
  return words?.(note) ?? '';
}

/** Notes in which the actor itself says something: a moment that the code's author thought worth a line. */
const TELLING: readonly NoteRow['kind'][] = ['log', 'died', 'misread', 'refused'];

export function isTelling(effect: EffectRow): boolean {
  return effect.kind === 'note' && TELLING.includes(effect.note.kind);
}

/** Whether a reader sees anything of it. */
export function isShown(effect: EffectRow): boolean {
  if (effect.kind === 'note') return NOTES[effect.note.kind] !== undefined;
  return ['send', 'post', 'reset', 'fence'].includes(effect.kind);
}

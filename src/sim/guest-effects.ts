import { isIndex } from '../base/checks.ts';
import { describeValue } from '../base/thrown.ts';
import { I9 } from '../oracle/invariants/i9-bounded-wait.ts';
import { I10 } from '../oracle/invariants/i10-honest-report.ts';
import { IMPOSSIBLE, NOT_FOR_GUESTS } from '../oracle/invariants/i12-possible-request.ts';
import type { Effect, Emit, Fields, Note } from '../wire/machine.ts';
import type { Message } from '../wire/messages.ts';
import { isMessageName, type PeerForms } from '../wire/peer-codec.ts';
import { oddityOfPlain } from '../wire/plain.ts';
import type { Mistake } from './effect-border.ts';
import { blame, blameEffect, EFFECTS_MAX, type Guest, type GuestBounds } from './guest.ts';
import { isFields, isName } from './guest-facts.ts';

/**
 * What a connector may ask for. What nobody can ask for is the border's (effect-border.ts); here is what is only for the
 * engine and the proxy, and told with the hook and the place in the connector's code.
 */

/** The notes of a connector; all others are facts that only the engine or the proxy can know. */
const NOTES: {
  readonly [K in Note['kind']]?: (note: Extract<Note, { kind: K }>, bounds: GuestBounds) => boolean;
} = {
  loaded: ({ request, blocks, tokenTo }, bounds) =>
    isIndex(request) &&
    request < bounds.requests &&
    Array.isArray(blocks) &&
    blocks.length <= bounds.blocks &&
    blocks.every((block) => isIndex(block) && block < bounds.blocks) &&
    isIndex(tokenTo) &&
    tokenTo <= blocks.length * bounds.blockTokens,
  refused: ({ reason, fields }) => isName(reason) && isFields(fields),
  died: ({ thread, cause }) => typeof thread === 'string' && typeof cause === 'string',
  spin: ({ thread, waitsFor }) => typeof thread === 'string' && isName(waitsFor),
  goal: ({ name }, { goals }) => goals.includes(name),
  log: ({ name, fields }) => isName(name) && isFields(fields),
};

/** All kinds of effects, and whether the scheduler side of a connector may ask for them too. */
const KIND_ROWS: { readonly [K in Effect['kind']]: boolean } = {
  send: true,
  note: true,
  arm: false,
  stop: false,
  turn: false,
  join: false,
  connect: false,
  post: false,
  fence: false,
  reset: false,
};
/** What a guest calls a kind may be a name that every object has. */
const KINDS: ReadonlyMap<string, boolean> = new Map(Object.entries(KIND_ROWS));

/** The guest's way to ask for effects: each is looked at before the world acts on it. */
export function guardEmit(guest: Guest, emit: Emit): Emit {
  if (guest.through !== null && emit === guest.emit) return guest.through;
  guest.emit = emit;
  guest.through = (effect) => {
    if (++guest.effects > EFFECTS_MAX)
      blame(guest, I9.breaches['effects-without-end'], { count: guest.effects });
    emit(checkEffect(guest, effect));
  };
  return guest.through;
}

/** The effect, if it is one. @throws GuestFault */
function checkEffect(guest: Guest, effect: Effect): Effect {
  let mistake: Mistake | null;
  let own = effect;
  try {
    own = ownFacts(effect);
    mistake = mistakeOf(guest, own, guest.host.bounds);
  } catch {
    // What cannot even be read: a getter that throws, a proxy.
    mistake = odd('unreadable', { value: describeValue(effect) });
  }
  if (mistake !== null) return blameEffect(guest, kindOf(effect), mistake);
  return own;
}

function kindOf(effect: Effect): string {
  try {
    return KINDS.has(effect.kind) ? effect.kind : 'effect';
  } catch {
    return 'effect';
  }
}

function mistakeOf(guest: Guest, effect: Effect, bounds: GuestBounds): Mistake | null {
  if (typeof effect !== 'object' || effect === null) return noEffect(effect);
  const isForSchedulers = KINDS.get(effect.kind);
  if (isForSchedulers === undefined) return noEffect(effect.kind);
  if (!isForSchedulers && bounds.topology.actors[guest.actor]!.tpRank < 0)
    return odd('not-of-scheduler-side', { effect: effect.kind });
  const mistake = bounds.mistakeIn(effect, guest.actor);
  if (mistake !== null) return mistake;
  if (effect.kind === 'join') return odd('joins-ranks', {});
  if (effect.kind === 'turn' && effect.thread === 0) return odd('turn-of-engine', {});
  if (effect.kind === 'send') return mistakeInMessage(effect.message, bounds);
  return effect.kind === 'note' ? mistakeInNote(effect.note, bounds) : null;
}

/** Of its own form, or bytes. Fields that do not fit are for the receiver to refuse. */
function mistakeInMessage(message: Message, { forms, blocks }: GuestBounds): Mistake | null {
  if (message.kind === 'bytes' && isBytes(message)) return null;
  const name: unknown = message.kind === 'peer' ? message.name : null;
  if (!isMessageName(name)) return odd('not-between-peers', { value: describeValue(message) });
  if (forms !== null && !Object.hasOwn(forms, name))
    return odd('message-without-form', { message: name, forms: Object.keys(forms).join(', ') });
  const oddity = oddityOfPlain(message, blocks);
  return oddity === '' ? null : odd('message-not-plain', { message: name, oddity });
}

function mistakeInNote(note: Note, bounds: GuestBounds): Mistake | null {
  const check = Object.hasOwn(NOTES, note.kind) ? NOTES[note.kind] : undefined;
  if (check === undefined) return odd('note-of-engine', { value: describeValue(note) });
  if (check(note as never, bounds)) return null;
  if (note.kind !== 'loaded') return odd('odd-note', { value: describeValue(note) });
  return { breach: I10.breaches['loaded-what-is-not'], ids: { note: describeValue(note) } };
}

/** Of what a connector tells of itself a copy is looked at and kept: it may be read again when the step is written down. */
function ownFacts(effect: Effect): Effect {
  if (effect?.kind !== 'note') return effect;
  const { note } = effect;
  if (note?.kind === 'log') return { kind: 'note', note: { ...note, fields: { ...note.fields } } };
  return note?.kind === 'refused' ? { kind: 'note', note: { ...note, fields: { ...note.fields } } } : effect;
}

function odd(name: keyof typeof NOT_FOR_GUESTS, ids: Fields): Mistake {
  return { breach: NOT_FOR_GUESTS[name], ids };
}

function noEffect(asked: unknown): Mistake {
  const value = typeof asked === 'string' ? asked : describeValue(asked);
  return { breach: IMPOSSIBLE['no-effect'], ids: { value } };
}

function isBytes(message: object): boolean {
  const { port, bytes } = message as { port?: unknown; bytes?: unknown };
  return (
    (port === 'notify' || port === 'handshake') && bytes instanceof Uint8Array && oddityOfPlain(bytes) === ''
  );
}

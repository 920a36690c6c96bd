import { BrokenBelief } from '../base/failure.ts';
import { describeThrown, describeValue, type GuestCode, guestFrames, stackHead } from '../base/thrown.ts';
import { type ActorId, PROXY, type Topology } from '../base/topology.ts';
import type { Preemption } from '../connector/plug.ts';
import type { Breach } from '../oracle/breach.ts';
import { I7 } from '../oracle/invariants/i7-odd-message.ts';
import type { Effect, Emit, Fields } from '../wire/machine.ts';
import type { PeerForms } from '../wire/peer-codec.ts';
import type { Mistake } from './effect-border.ts';

/**
 * The border between the world and a guest: the connector and the policy under attack. Whatever a guest throws, returns or
 * asks for is its own doing and a finding about it; whatever else goes wrong is ours.
 */

/** What a guest did wrong. */
export interface Fault {
  readonly actor: ActorId;
  readonly breach: Breach;
  /** The hook, the thread, or the kind of effect. */
  readonly part: string;
  readonly ids: Fields;
  /** Where its code stood, innermost first. */
  readonly stack: readonly string[];
}

/** Leaves a hook whose guest has done wrong. It was told before it was thrown. */
export class GuestFault extends Error {
  override readonly name = 'GuestFault';
}

/** What of the world a border needs to know. */
export interface GuestBounds {
  readonly topology: Topology;
  readonly requests: number;
  readonly blocks: number;
  readonly blockTokens: number;
  /** The connector's own messages; null when it does not describe them. */
  readonly forms: PeerForms | null;
  /** The connector's own coverage points. */
  readonly goals: readonly string[];
  /** What is wrong with an effect, whoever asks for it; null when nothing is. */
  readonly mistakeIn: (effect: Effect, actor: ActorId) => Mistake | null;
}

export interface GuestHost {
  readonly bounds: GuestBounds;
  /** The guest of each actor, to ask what it does. */
  readonly guests: Map<ActorId, Guest>;
  readonly now: () => number;
  /** The draws of a rank whose connector has threads. */
  readonly preemption: Preemption;
  readonly tell: (fault: Fault) => void;
}

export interface Guest {
  readonly actor: ActorId;
  /** Its own name: `connector "mine"`. */
  readonly who: string;
  readonly host: GuestHost;
  /** The hook that it is in. */
  hook: string;
  /** Effects of this call of the hook. */
  effects: number;
  /** A hook that has answered `again` and nothing else since. */
  again: { readonly hook: string; readonly since: number; turns: number } | null;
  /** The world's way for effects that it was given last, and the guarded one in its place. */
  emit: Emit | null;
  through: Emit | null;
}

export function newGuest(host: GuestHost, actor: ActorId, who: string): Guest {
  const guest: Guest = { actor, who, host, hook: '', effects: 0, again: null, emit: null, through: null };
  if (actor !== PROXY) host.guests.set(actor, guest);
  return guest;
}

/** What a hook must return, as a check and as a sentence. */
export interface Rule {
  readonly holds: (value: unknown, args: readonly unknown[], guest: Guest) => boolean;
  readonly must: string;
}

/** Effects of one call of a hook that are taken for endless. */
export const EFFECTS_MAX = 100_000;

const GUEST_CODE: GuestCode = { border: 'enterGuest', ours: folderOfOurs(new Error()) };

/** The folder of our code, read off a stack that begins here; of somebody's bundle, its file. */
function folderOfOurs(here: Error): string {
  const frame = /(?:\(|at )(?:file:\/\/)?([^()]*?)(?:\/sim\/guest\.ts|\/chunks\/[^/]+\.js)?:\d+:\d+\)?$/.exec(
    stackHead(here)[0] ?? '',
  );
  // A text that stands in no path, where stacks have another form.
  return frame?.[1] || '\0';
}

type Hook = (...args: readonly unknown[]) => unknown;

/** Hooks have at most four arguments. Written out, since an engine spreads a list into a call by way of its iterator. */
function call(hook: Hook, owner: object, args: readonly unknown[]): unknown {
  if (args.length === 3) return hook.call(owner, args[0], args[1], args[2]);
  if (args.length === 0) return hook.call(owner);
  if (args.length === 1) return hook.call(owner, args[0]);
  if (args.length === 2) return hook.call(owner, args[0], args[1]);
  return hook.call(owner, args[0], args[1], args[2], args[3]);
}

/** Calls a hook of a guest. All of a guest's code runs within this function: its name is the border in a stack. */
export function enterGuest(guest: Guest, owner: object, hook: string, args: readonly unknown[]): unknown {
  guest.hook = hook;
  guest.effects = 0;
  let value: unknown;
  try {
    value = call((owner as Readonly<Record<string, Hook>>)[hook]!, owner, args);
  } catch (thrown) {
    // A belief of ours is no bug of the guest, whoever came upon it.
    if (safely(() => thrown instanceof GuestFault || thrown instanceof BrokenBelief)) throw thrown;
    blameThrown(guest, thrown);
  }
  const odd = oddKindOf(value);
  if (odd !== null) blame(guest, I7.breaches['returned-no-answer'], { value: odd }, null);
  return value;
}

/** @throws GuestFault unless the rule holds. */
export function mustReturn(guest: Guest, rule: Rule, value: unknown, args: readonly unknown[] = []): void {
  let holds = false;
  try {
    holds = rule.holds(value, args, guest);
  } catch {
    // A getter of what the guest made may throw.
  }
  const { must } = rule;
  if (!holds) blame(guest, I7.breaches['returned-wrong'], { value: describeValue(value), must }, null);
}

/**
 * @throws GuestFault once it has told of the guest, its hook and the place in its code. By default that is where it asked for an
 * effect; what it returned has no place.
 */
export function blame(guest: Guest, breach: Breach, ids: Fields, thrown: unknown = new Error()): never {
  return tell(guest, { breach, part: guest.hook, ids, stack: guestFrames(thrown, GUEST_CODE) });
}

/** As {@link blame}, of an effect that was asked for: its kind is the part, as with the border of all machines. */
export function blameEffect(guest: Guest, effect: string, { breach, ids }: Mistake): never {
  const stack = guestFrames(new Error(), GUEST_CODE);
  return tell(guest, { breach, part: effect, ids: { effect, ...ids }, stack });
}

/** A connector that has threads may say which of them died. */
function blameThrown(guest: Guest, thrown: unknown): never {
  const thread = threadOf(thrown);
  if (thread === null) return blame(guest, I7.breaches.threw, { thrown: describeThrown(thrown) }, thrown);
  const ids = { thread, thrown: (thrown as Error).message };
  const stack = guestFrames(thrown, GUEST_CODE);
  return tell(guest, { breach: I7.breaches['thread-died'], part: thread, ids, stack });
}

function tell(guest: Guest, fault: Omit<Fault, 'actor'>): never {
  const { actor, who, hook } = guest;
  guest.host.tell({ ...fault, actor, ids: { hook, guest: who, ...fault.ids } });
  throw new GuestFault(fault.breach.name);
}

function threadOf(thrown: unknown): string | null {
  try {
    if (!(thrown instanceof Error) || !('thread' in thrown)) return null;
    return typeof thrown.thread === 'string' && typeof thrown.message === 'string' ? thrown.thread : null;
  } catch {
    return null;
  }
}

/** What a hook that is no plain function returns. A promise that is left alone must not end the process. */
function oddKindOf(value: unknown): string | null {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return null;
  try {
    const { then, next } = value as { then?: unknown; next?: unknown };
    if (typeof then === 'function') {
      then.call(value, undefined, () => undefined);
      return 'a promise';
    }
    return typeof next === 'function' ? 'a generator' : null;
  } catch {
    return null;
  }
}

/** Reads what a guest made: a getter of it may throw. */
function safely(test: () => boolean): boolean {
  try {
    return test();
  } catch {
    return false;
  }
}

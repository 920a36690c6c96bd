import { mix } from '../base/mix.ts';
import type { ActorId } from '../base/topology.ts';
import { type MessageFault, messageFaultOf } from '../faults/message-faults.ts';
import type { Message } from '../wire/messages.ts';
import type { Core } from './core.ts';
import { EVENT } from './event-queue.ts';
import { kindOf, MICROS_OF, objectOf, pathOf, pickMessageFault } from './network.ts';
import { DRAW } from './tape.ts';

/** Carries messages: in order within one connection, any order across, and what the adversary does to them. */
export class PostOffice {
  readonly #core: Core;
  /** Last delivery on each connection: a later message is not delivered before it. */
  readonly #lastDelivery: Float64Array;
  readonly #pickFault: (hash: number) => number;

  constructor(core: Core) {
    this.#core = core;
    this.#lastDelivery = new Float64Array(core.actorCount * core.actorCount);
    // Of the profile alone: a closure that holds the core keeps whole worlds alive until the next full collection.
    const { profile } = core.spec;
    this.#pickFault = (hash) => pickMessageFault(profile, hash);
  }

  send(from: ActorId, to: ActorId, message: Message): void {
    const core = this.#core;
    const path = pathOf(core.topology, from, to);
    const pair = from * core.actorCount + to;
    const { forms, keys } = core;
    const who = keys.pairs[pair]!;
    const kind = kindOf(message);
    const object = objectOf(message, forms);
    const about = mix(mix(kind, pair), object);
    core.fold(about);
    core.judge.sent(from, to, message);
    const fault = path === 'peer' ? this.#drawFault(who, kind, object) : null;
    const base = core.spec.network[MICROS_OF[path]];
    const held = core.delay(DRAW.deliverDelay, who, kind, object);
    let at = core.now + base + held;
    const copies = fault?.copies ?? 1;
    if (copies === 0) {
      core.push(EVENT.lost, to, at, object, held, null, message);
      return;
    }
    if (fault?.inOrder ?? true) {
      at = Math.max(at, this.#lastDelivery[pair]!);
      this.#lastDelivery[pair] = at;
    }
    const arrives = fault?.harm?.(message, object, forms) ?? message;
    for (let copy = 0; copy < copies; copy++) {
      const input = { kind: 'message', from, message: arrives } as const;
      core.push(EVENT.deliver, to, at + copy * base, about, held, input, null);
    }
  }

  #drawFault(who: number, kind: number, object: number): MessageFault | null {
    const { profile, replaying, tape } = this.#core.spec;
    if (!replaying && !profile.harmsMessages) return null;
    const occurrence = this.#core.occurrences.next(DRAW.fate, who, kind, object);
    const fault = messageFaultOf(tape.choose(DRAW.fate, who, kind, object, occurrence, this.#pickFault));
    if (fault !== null) this.#core.judge.disturbed();
    return fault;
  }
}

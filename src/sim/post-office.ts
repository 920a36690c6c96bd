import { mix } from '../base/mix.ts';
import type { ActorId } from '../base/topology.ts';
import type { BytesMessage, Message, PeerMessage } from '../wire/messages.ts';
import { encodePeerMessage } from '../wire/peer-codec.ts';
import type { Core } from './core.ts';
import { drawFate, FATE, kindNumber, MICROS_OF, objectOf, pathOf } from './network.ts';
import { HAPPENING } from './ready-set.ts';
import { DRAW } from './tape.ts';

/** Carries messages: in order within one connection, any order across, and what the adversary does to them. */
export class PostOffice {
  readonly #core: Core;
  /** Last delivery on each connection: a later message is not delivered before it. */
  readonly #lastDelivery: Float64Array;

  constructor(core: Core) {
    this.#core = core;
    this.#lastDelivery = new Float64Array(core.actorCount * core.actorCount);
  }

  send(from: ActorId, to: ActorId, message: Message): void {
    const core = this.#core;
    const { network, profile, replaying, tape } = core.spec;
    const path = pathOf(core.topology, from, to);
    const pair = from * core.actorCount + to;
    const kind = kindNumber(message);
    const object = objectOf(message);
    const about = mix(pair * 16 + kind, object);
    core.fold(about);
    core.judge.sent(from, to, message);
    const isRisky = path === 'peer';
    const fate = isRisky
      ? drawFate(tape, replaying, profile, core.occurrences, pair, kind, object)
      : FATE.arrives;
    if (fate !== FATE.arrives) core.judge.disturbed();
    const base = network[MICROS_OF[path]];
    const held = core.delay(DRAW.deliverDelay, pair, kind, object);
    let at = core.now + base + held;
    if (fate === FATE.lost) {
      core.push(HAPPENING.lost, to, at, object, held, null, message);
      return;
    }
    if (fate !== FATE.overtakes) {
      at = Math.max(at, this.#lastDelivery[pair]!);
      this.#lastDelivery[pair] = at;
    }
    const arrives = fate === FATE.harmed ? harm(message, object) : message;
    core.push(HAPPENING.deliver, to, at, about, held, { kind: 'message', from, message: arrives }, null);
    if (fate === FATE.twice)
      core.push(HAPPENING.deliver, to, at + base, about, held, { kind: 'message', from, message }, null);
  }
}

/** The message's real bytes with one of them changed. */
function harm(message: Message, object: number): BytesMessage {
  const bytes = encodePeerMessage(message as PeerMessage);
  bytes[object % bytes.length]! ^= 0x55;
  return { kind: 'bytes', port: 'notify', bytes };
}

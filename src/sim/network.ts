import { below, finish, mix } from '../base/mix.ts';
import type { ActorId, Topology } from '../base/topology.ts';
import type { Message, PeerMessage } from '../wire/messages.ts';
import { aboutOf, type PeerForms } from '../wire/peer-codec.ts';
import type { Profile } from './draws.ts';

/** Base latencies of the three kinds of path, in microseconds. */
export interface NetworkProfile {
  readonly localMicros: number;
  readonly httpMicros: number;
  readonly peerMicros: number;
}

export const CHECK_NETWORK: NetworkProfile = { localMicros: 1, httpMicros: 20, peerMicros: 10 };

export type Path = 'local' | 'http' | 'peer';

export const MICROS_OF: { readonly [path in Path]: keyof NetworkProfile } = {
  local: 'localMicros',
  http: 'httpMicros',
  peer: 'peerMicros',
};

export function pathOf(topology: Topology, from: ActorId, to: ActorId): Path {
  const source = topology.actors[from]!.engine;
  const target = topology.actors[to]!.engine;
  if (source < 0 || target < 0) return 'http';
  return source === target ? 'local' : 'peer';
}

/** Numbers of the message kinds that are not a connector's own. */
export const KIND_NUMBERS: { readonly [K in Exclude<Message, PeerMessage>['kind']]: number } = {
  generate: 0,
  answer: 1,
  abort: 2,
  engineDown: 3,
  runStep: 4,
  stepDone: 5,
  report: 6,
  bytes: 15,
};

/** Where the kinds of a connector that describes them begin, and those of one that does not. */
const [FIRST_OF_FORMS, FIRST_OF_NAMES] = [7, 0x10000];

export function kindNumber(message: Message, forms: PeerForms): number {
  if (message.kind !== 'peer') return KIND_NUMBERS[message.kind];
  const row = rowOf(forms, message.name);
  return row >= 0 ? FIRST_OF_FORMS + row : FIRST_OF_NAMES + (hashOf(message.name) & 0xffff);
}

/** Its place among a connector's own messages, without a list of their names for each message; -1 for none of them. */
function rowOf(forms: PeerForms, name: string): number {
  if (!Object.hasOwn(forms, name)) return -1;
  let row = 0;
  for (const known in forms) {
    if (known === name) return row;
    row++;
  }
  return -1;
}

function hashOf(name: string): number {
  let hash = 0;
  for (let at = 0; at < name.length; at++) hash = mix(hash, name.charCodeAt(at));
  return finish(hash);
}

/** What a message is about: a transfer, a request, a step. */
export function objectOf(message: Message, forms: PeerForms): number {
  switch (message.kind) {
    case 'generate':
    case 'answer':
    case 'abort':
      return message.request;
    case 'runStep':
    case 'stepDone':
      return message.step;
    case 'engineDown':
      return message.engine;
    case 'report':
      return message.sent[0] ?? message.received[0] ?? message.failed[0] ?? 0;
    case 'bytes':
      return message.bytes.length;
    case 'peer':
      return aboutOf(message, forms);
  }
}

/** One message in `1 << shift` meets the fault, by level; level 0 never does. */
const SHIFTS = [32, 6, 3];

/** Picks the fault of one message by the levels of a profile; faults of a smaller value come first. */
export function pickMessageFault({ messages }: Profile, hash: number): number {
  for (let value = 1; value < messages.length; value++)
    if (below(finish(hash ^ value), 1 << 16) < rate(messages[value] ?? 0)) return value;
  return 0;
}

function rate(level: number): number {
  return level === 0 ? 0 : 1 << (16 - SHIFTS[Math.min(level, SHIFTS.length - 1)]!);
}

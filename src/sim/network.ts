import { below, finish } from '../base/mix.ts';
import type { ActorId, Topology } from '../base/topology.ts';
import type { Message, PeerMessage } from '../wire/messages.ts';
import { aboutOf, type PeerForms } from '../wire/peer-codec.ts';
import type { Profile } from './draws.ts';
import { idOfName, labelObjects } from './key-names.ts';

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

/** Messages that are not a connector's own, and what their objects are: see objectOf. */
export const MESSAGE_KINDS: { readonly [K in Exclude<Message, PeerMessage>['kind']]: string } = {
  generate: 'request',
  answer: 'request',
  abort: 'request',
  engineDown: 'engine',
  runStep: 'step',
  stepDone: 'step',
  report: 'request',
  bytes: 'bytes',
};

for (const [kind, about] of Object.entries(MESSAGE_KINDS)) labelObjects(kind, about);

/** The kind of a message in the keys of draws: the number of its name. */
export function kindOf(message: Message): number {
  return idOfName(message.kind === 'peer' ? message.name : message.kind);
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

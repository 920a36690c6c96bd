import { below, finish } from '../base/mix.ts';
import type { ActorId, Topology } from '../base/topology.ts';
import type { Message } from '../wire/messages.ts';
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

/** Numbers of message kinds in draw keys. Part of the tape format: add at the end, never renumber. */
export const KIND_NUMBERS: { readonly [K in Message['kind']]: number } = {
  generate: 0,
  answer: 1,
  abort: 2,
  engineDown: 3,
  runStep: 4,
  stepDone: 5,
  report: 6,
  metaRequest: 7,
  metaReply: 8,
  claim: 9,
  grant: 10,
  refuse: 11,
  seal: 12,
  sealAck: 13,
  revoke: 14,
  bytes: 15,
};

export function kindNumber(message: Message): number {
  return KIND_NUMBERS[message.kind];
}

/** What a message is about: a transfer, a request, a step. */
export function objectOf(message: Message): number {
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
    case 'metaRequest':
    case 'metaReply':
      return message.attempt;
    case 'bytes':
      return message.bytes.length;
    default:
      return message.transfer;
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

import type { Topology } from '../base/topology.ts';
import type { StepRecord } from '../trace/record.ts';
import type { Effect, Input, Note, PostedBatch } from '../wire/machine.ts';
import type { Message } from '../wire/messages.ts';
import {
  describeEffect,
  describeInput,
  describeLanding,
  describeMessage,
  describeNicEvent,
} from './describe.ts';
import type { RequestSetup } from './draws.ts';
import type { OpenBatch } from './nic-batches.ts';
import type { Flight } from './nic-lanes.ts';
import type { NicEvent } from './nic-side.ts';
import { HAPPENING, type Happening, type HappeningKind } from './ready-set.ts';

/** Writes a run down for a person. Only there when somebody is going to read it. */
export class Recorder {
  readonly steps: StepRecord[] = [];
  readonly #topology: Topology;

  constructor(topology: Topology) {
    this.#topology = topology;
  }

  open(happening: Happening, step: number, atMicros: number): void {
    const { kind, actor, input, payload, cause, heldMicros } = happening;
    this.steps.push({
      step,
      atMicros,
      actor,
      what: this.#what(kind, input, payload) ?? describeInput(this.#topology, input!),
      effects: [],
      cause,
      heldMicros,
      fault: isFault(happening),
      telling: false,
      ...subjectOf(happening),
    });
  }

  write(effect: Effect): void {
    const current = this.steps.at(-1);
    const text = describeEffect(this.#topology, effect);
    if (text === '' || current === undefined) return;
    if (effect.kind === 'post') Object.assign(current, about(effect.batch));
    if (effect.kind !== 'note' || !isTelling(effect.note)) current.effects.push(text);
    else {
      current.effects.unshift(text);
      current.telling = true;
    }
  }

  #what(kind: HappeningKind, input: Input | null, payload: unknown): string | undefined {
    const { actors } = this.#topology;
    switch (kind) {
      case HAPPENING.arrive: {
        const { request, promptTokens, outputTokens, ordinary } = payload as RequestSetup;
        return `request ${request} arrives: ${promptTokens} prompt tokens, ${outputTokens} to generate${ordinary === 'no' ? '' : ', ordinary'}`;
      }
      case HAPPENING.abort:
        return `the client of request ${(payload as RequestSetup).request} goes away`;
      case HAPPENING.crash:
        return 'FAULT this rank dies, and its engine with it';
      case HAPPENING.lost:
        return `FAULT a message to it is lost: ${describeMessage(payload as Message)}`;
      case HAPPENING.stray:
        return `FAULT a stranger sends it: ${describeMessage((input as Extract<Input, { kind: 'message' }>).message)}`;
      case HAPPENING.land:
        return describeLanding(payload as Flight, actors[(payload as Flight).lane.initiator]!.name);
      case HAPPENING.complete:
      case HAPPENING.engineTimer:
        return describeNicEvent(payload as NicEvent);
      default:
        return undefined;
    }
  }
}

function isFault({ kind, payload }: Happening): boolean {
  if (kind === HAPPENING.land) return (payload as Flight).effect !== null;
  return kind === HAPPENING.crash || kind === HAPPENING.lost || kind === HAPPENING.stray;
}

function isTelling(note: Note): boolean {
  return note.kind === 'say' || note.kind === 'died' || note.kind === 'misread' || note.kind === 'refused';
}

function subjectOf(happening: Happening): { transfer: number; request: number } {
  const { payload, input, kind } = happening;
  if (kind === HAPPENING.land || kind === HAPPENING.complete || kind === HAPPENING.engineTimer) {
    const { open } = payload as { open?: OpenBatch | null };
    return open === undefined || open === null ? { transfer: -1, request: -1 } : about(open.batch);
  }
  if (kind === HAPPENING.arrive || kind === HAPPENING.abort)
    return { transfer: -1, request: (payload as { request: number }).request };
  const message =
    kind === HAPPENING.lost ? (payload as Message) : input?.kind === 'message' ? input.message : null;
  if (message === null) return { transfer: -1, request: -1 };
  return {
    transfer: 'transfer' in message ? message.transfer : -1,
    request: 'request' in message ? message.request : -1,
  };
}

function about(batch: PostedBatch): { transfer: number; request: number } {
  return { transfer: batch.transfer, request: batch.request };
}

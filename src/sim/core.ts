import { mix } from '../base/mix.ts';
import type { ActorId, EngineId, Topology } from '../base/topology.ts';
import { type Breach, type Where, whereOfActor } from '../oracle/breach.ts';
import type { Judge } from '../oracle/judge.ts';
import { type Violation, violationOf } from '../oracle/verdict.ts';
import type { Effect, Fields, Input } from '../wire/machine.ts';
import { ABOUT_USUALLY, type PeerForms } from '../wire/peer-codec.ts';
import { pickDelay, pickPreemption } from './draws.ts';
import type { Mistake } from './effect-border.ts';
import { createEventQueue, type WorldEvent, type WorldEventKind } from './event-queue.ts';
import { type ActorKeys, actorKeys, labelObjects } from './key-names.ts';
import { Recorder } from './recorder.ts';
import type { RunSpec } from './run-spec.ts';
import { createOccurrences, DRAW, type DrawKind } from './tape.ts';

const NO_FORMS: PeerForms = {};

/** A delay that no transfer needs to survive unharmed; shorter ones are ordinary weather. */
const PATIENCE_MICROS = 10_000;

/** What every part of the world shares: virtual time, the event queue, draws, the digest, the verdict, the record. */
export class Core {
  readonly spec: RunSpec;
  readonly topology: Topology;
  /** The connector's own messages. */
  readonly forms: PeerForms;
  readonly actorCount: number;
  /** By what the draws of actors and of pairs of them are asked. */
  readonly keys: ActorKeys;
  readonly ready = createEventQueue();
  readonly occurrences = createOccurrences();
  readonly recorder: Recorder | null;
  /** By engine. */
  readonly #dead: boolean[] = [];
  /** Set once, before the first step: the judge itself reports to this object. */
  judge!: Judge;
  now = 0;
  step = 0;
  violation: Violation | null = null;
  #order = 0;
  #digestLow = 0x243f6a88;
  #digestHigh = 0x85a308d3;

  readonly #pickDelay: (hash: number) => number;
  readonly #pickPreemption: (hash: number) => number;

  constructor(spec: RunSpec) {
    this.spec = spec;
    this.#pickDelay = (hash) => pickDelay(spec.profile.delays, hash);
    this.#pickPreemption = (hash) => pickPreemption(spec.profile.preemptions, hash);
    this.topology = spec.setup.topology;
    this.forms = spec.connector.messages ?? NO_FORMS;
    this.actorCount = this.topology.actors.length;
    for (const _ of this.topology.engines) this.#dead.push(false);
    this.keys = actorKeys(this.topology);
    for (const name in this.forms) labelObjects(name, this.forms[name]!.about ?? ABOUT_USUALLY);
    this.recorder = spec.record ? new Recorder() : null;
  }

  /** Makes something happen at `at`. `about` names it in the digest; `held` is how much of `at` is the adversary's. */
  push(
    kind: WorldEventKind,
    actor: ActorId,
    at: number,
    about: number,
    held: number,
    input: Input | null,
    payload: unknown,
  ): WorldEvent {
    const order = this.#order++;
    const cause = this.step - 1;
    const event = {
      kind,
      actor,
      at,
      order,
      about,
      input,
      payload,
      cause,
      heldMicros: held,
      stopped: false,
    };
    this.ready.push(event);
    return event;
  }

  /** Microseconds by which the adversary holds an event back; `who` is one of `keys`. */
  delay(draw: DrawKind, who: number, kind: number, object: number): number {
    const { profile, replaying, tape } = this.spec;
    if (profile.delays === 0 && !replaying) return 0;
    const occurrence = this.occurrences.next(draw, who, kind, object);
    const held = tape.choose(draw, who, kind, object, occurrence, this.#pickDelay);
    if (held > PATIENCE_MICROS) this.judge.disturbed();
    return held;
  }

  /** Statements that a thread of a connector may run before it is preempted; 0 for no limit. */
  preemption(actor: ActorId, thread: number, activation: number, slice: number): number {
    const { profile, replaying, tape } = this.spec;
    if (profile.preemptions === 0 && !replaying) return 0;
    return tape.choose(
      DRAW.preemption,
      this.keys.actors[actor]!,
      thread,
      activation,
      slice,
      this.#pickPreemption,
    );
  }

  fold(value: number): void {
    this.#digestLow = mix(this.#digestLow, value);
    this.#digestHigh = mix(this.#digestHigh, this.#digestLow ^ 0x13198a2e);
  }

  digest(): string {
    return hex(this.#digestHigh) + hex(this.#digestLow);
  }

  /** The first broken promise ends the run. */
  fail(breach: Breach, where: Where, ids: Fields, stack: readonly string[] = []): void {
    const { step, now: atMicros } = this;
    this.violation ??= violationOf(breach, where, { ids, step, atMicros, stack });
  }

  /** An actor asks its engine or its NIC for what cannot be done. */
  refuse(actor: ActorId, kind: Effect['kind'], { breach, ids }: Mistake): void {
    this.fail(breach, whereOfActor(this.topology, actor, kind), { actor, effect: kind, ...ids });
  }

  /** Marks an engine as dead; false when it was dead already. */
  kill(engine: EngineId): boolean {
    if (this.#dead[engine] === true) return false;
    this.#dead[engine] = true;
    this.judge.engineDied(engine);
    return true;
  }

  isDead(actor: ActorId): boolean {
    return this.#dead[this.topology.actors[actor]!.engine] === true;
  }
}

function hex(word: number): string {
  return word.toString(16).padStart(8, '0');
}

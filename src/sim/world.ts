import { believe, BrokenBelief } from '../base/failure.ts';
import { below, finish, mix } from '../base/mix.ts';
import { type ActorId, type EngineId, PROXY } from '../base/topology.ts';
import type { Connector } from '../connector/plug.ts';
import { StatusCode } from '../io/codes.ts';
import { bytesOf, createQueuePair, type Flight, landMicros, type NicProfile, postBatch, PROFILES, type QueuePair, retire } from '../io/nic.ts';
import { ALL_FINE } from '../kv/kernels.ts';
import { createJudge, type Judge } from '../oracle/judge.ts';
import type { InvariantId, Violation } from '../oracle/verdict.ts';
import { placeOfHang, showChain, waitChain } from '../oracle/waits-for.ts';
import type { ChoicePolicy } from '../proxy/choose.ts';
import type { RunRecord, StepRecord } from '../trace/record.ts';
import type { Effect, Goal, Input, Note, PostedBatch } from '../wire/machine.ts';
import type { BytesMessage, Message, PeerMessage } from '../wire/messages.ts';
import { encodePeerMessage } from '../wire/peer-codec.ts';
import { buildCluster, type Cluster, type EngineLimits, type Grain } from './cluster.ts';
import { describeEffect, describeInput, describeMessage } from './describe.ts';
import { pickDelay, type Profile, type Setup } from './draws.ts';
import { resetMemory, type WorldMemory } from './memory.ts';
import { drawFate, FATE, kindNumber, type NetworkProfile, objectOf, pathOf } from './network.ts';
import type { ReferencedPrompt } from './prompts.ts';
import { createReadySet, HAPPENING, type Happening, type HappeningKind } from './ready-set.ts';
import { strayBytes, STRAY_KINDS } from './strays.ts';
import { createOccurrences, DRAW, type DrawKind, type Tape } from './tape.ts';

/** Everything a run is made from. Two runs with equal specs are equal to the last byte. */
export interface RunSpec {
  readonly setup: Setup;
  /** Puts the prompts of `setup.requests` into the run's memory, in order. */
  readonly layPrompts: () => ReferencedPrompt[];
  readonly limits: EngineLimits;
  readonly grain: Grain;
  readonly network: NetworkProfile;
  readonly nic: NicProfile;
  readonly connector: Connector;
  readonly policy: ChoicePolicy;
  readonly tape: Tape;
  /** True when the tape is a list: every draw is asked for, whatever the profile. */
  readonly replaying: boolean;
  readonly profile: Profile;
  /** Kinds of stray bytes that may come: a prefix of STRAY_KINDS. */
  readonly strayKinds: number;
  readonly memory: WorldMemory;
  readonly record: boolean;
  readonly stepsMax: number;
  readonly microsMax: number;
  readonly observer?: RunObserver;
}

/** Measures a run without a part in it. */
export interface RunObserver {
  note(atMicros: number, note: Note): void;
  /** Bytes of simulated memory that a batch moved. */
  moved(bytes: number): void;
}

export interface RunResult {
  readonly steps: number;
  readonly atMicros: number;
  /** 64 bits over every happening and effect, as 16 hex digits. */
  readonly digest: string;
  readonly violation: Violation | null;
  /** Who waits for whom, when the run hangs; else empty. */
  readonly waits: readonly string[];
  readonly goals: ReadonlyMap<Goal, number>;
  /** KV blocks still held when nothing was left to happen, over all engines that are up. */
  readonly blocksLeft: number;
  readonly record: RunRecord;
}

/** A delay that no transfer needs to survive unharmed; shorter ones are ordinary weather. */
const PATIENCE_MICROS = 10_000;

/** Numbers of effects in the digest. */
const EFFECT_NUMBERS: { readonly [K in Effect['kind']]: number } = { send: 1, arm: 2, stop: 3, turn: 4, join: 5, connect: 6, post: 7, fence: 8, note: 9 };

export function runWorld(spec: RunSpec): RunResult {
  return new World(spec).run();
}

/** One run: virtual time, the ready set, the network, the NIC, the faults, the judges. */
class World {
  readonly #spec: RunSpec;
  readonly #cluster: Cluster;
  readonly #judge: Judge;
  readonly #ready = createReadySet();
  readonly #occurrences = createOccurrences();
  readonly #prompts: ReferencedPrompt[];
  readonly #timers: Map<number, Happening>[];
  readonly #queuePairs = new Map<number, QueuePair[]>();
  /** Last delivery on each connection: a later message is not delivered before it. */
  readonly #lastDelivery: Float64Array;
  readonly #joins = new Map<number, ActorId[]>();
  readonly #deadEngines = new Set<EngineId>();
  readonly #steps: StepRecord[] = [];
  readonly #actorCount: number;
  readonly #emit = (effect: Effect): void => this.#perform(effect);
  #now = 0;
  #order = 0;
  #step = 0;
  #actor: ActorId = PROXY;
  #current: StepRecord | null = null;
  #digestLow = 0x243f6a88;
  #digestHigh = 0x85a308d3;
  #violation: Violation | null = null;

  constructor(spec: RunSpec) {
    this.#spec = spec;
    resetMemory(spec.memory);
    const { setup, limits, grain, connector, policy, memory } = spec;
    const { topology } = setup;
    this.#prompts = spec.layPrompts();
    this.#cluster = buildCluster(setup, limits, grain, connector, policy, memory);
    this.#actorCount = topology.actors.length;
    this.#timers = topology.actors.map(() => new Map<number, Happening>());
    this.#lastDelivery = new Float64Array(this.#actorCount * this.#actorCount);
    this.#judge = createJudge({
      topology,
      blocksPerEngine: topology.engines.map(() => limits.blocks),
      requests: setup.requests.map((request, index) => ({
        request: request.request,
        reference: this.#prompts[index]!.reference,
        aborts: request.abortMicros > 0,
        fits: fits(spec, request),
      })),
      checksTokens: grain.readAlways,
      isLoaded: (actor, note) => this.#cluster.isLoaded(actor, note),
      fail: (invariant, place, detail) => this.#fail(invariant, place, detail),
    });
  }

  run(): RunResult {
    this.#schedulePlan();
    while (this.#violation === null) {
      const happening = this.#ready.pop();
      if (happening === undefined) {
        this.#judgeEnd();
        break;
      }
      if (happening.stopped) continue;
      this.#now = Math.max(this.#now, happening.at);
      this.#take(happening);
      if (this.#step >= this.#spec.stepsMax) this.#fail('I9', 'whole run', `no end after ${this.#step} steps`);
      if (this.#now > this.#spec.microsMax && this.#judge.unfinished.size > 0) this.#fail('I9', 'whole run', `requests ${[...this.#judge.unfinished].join(' ')} have no end after ${this.#now} us`);
    }
    return {
      steps: this.#step,
      atMicros: this.#now,
      digest: hex(this.#digestHigh) + hex(this.#digestLow),
      violation: this.#violation,
      waits: this.#violation?.invariant === 'I2' || this.#violation?.invariant === 'I9' ? this.#waits() : [],
      goals: this.#judge.goals,
      blocksLeft: this.#blocksLeft(),
      record: { actorNames: this.#spec.setup.topology.actors.map((actor) => actor.name), steps: this.#steps },
    };
  }

  // --- the plan: what comes from outside the cluster -------------------------------------------------------------

  #schedulePlan(): void {
    const { setup } = this.#spec;
    for (const request of setup.requests) {
      this.#push(HAPPENING.arrive, PROXY, request.arriveMicros, request.request, null, request, 0);
      if (request.abortMicros > 0) {
        const at = request.arriveMicros + request.abortMicros;
        this.#push(HAPPENING.abort, PROXY, at, request.request, null, request, 0);
      }
    }
    this.#scheduleCrash();
    this.#scheduleStrays();
  }

  /** Ranks die somewhere in the time that requests are under way; one in a run on average. */
  #scheduleCrash(): void {
    const { setup, tape, profile, replaying } = this.#spec;
    if (!replaying && !profile.crash) return;
    const ranks = setup.topology.actors.filter((actor) => actor.tpRank >= 0);
    for (const { actor } of ranks) {
      const at = tape.choose(DRAW.crash, actor, 0, 0, 0, (hash) => (below(hash, ranks.length) === 0 ? 1 + below(finish(hash), 2500) : 0));
      if (at > 0) this.#push(HAPPENING.crash, actor, at, actor, null, null, 0);
    }
  }

  #scheduleStrays(): void {
    const { setup, tape, profile, replaying, strayKinds } = this.#spec;
    if (strayKinds === 0 || (!replaying && profile.strays === 0)) return;
    for (const { actor, tpRank } of setup.topology.actors) {
      if (tpRank < 0) continue;
      for (let kind = 0; kind < strayKinds; kind++) {
        const at = tape.choose(DRAW.stray, actor, kind, 0, 0, (hash) => (below(hash, 12) < profile.strays ? 1 + below(finish(hash), 1500) : 0));
        if (at > 0) this.#push(HAPPENING.stray, actor, at, kind, { kind: 'message', from: actor, message: strayBytes(kind) }, null, 0);
      }
    }
  }

  // --- the loop ---------------------------------------------------------------------------------------------------

  #push(kind: HappeningKind, actor: ActorId, at: number, about: number, input: Input | null, payload: unknown, heldMicros: number): Happening {
    const happening: Happening = { kind, actor, at, order: this.#order++, about, input, payload, cause: this.#step - 1, heldMicros, stopped: false };
    this.#ready.push(happening);
    return happening;
  }

  #take(happening: Happening): void {
    const { kind, actor } = happening;
    this.#step++;
    this.#fold(mix(mix(mix(kind, actor), happening.about), this.#now));
    if (this.#spec.record) this.#open(happening);
    this.#actor = actor;
    switch (kind) {
      case HAPPENING.arrive: {
        const { ordinary, request } = happening.payload as Setup['requests'][number];
        return this.#cluster.accept({ prompt: this.#prompts[request]!.prompt, ordinary }, this.#emit);
      }
      case HAPPENING.abort: {
        const { request } = happening.payload as Setup['requests'][number];
        return this.#stepActor(actor, { kind: 'message', from: PROXY, message: { kind: 'abort', request, transfer: 0 } });
      }
      case HAPPENING.crash:
        return this.#crash(actor);
      case HAPPENING.lost:
        return;
      case HAPPENING.land:
        return this.#land(happening.payload as Flight);
      case HAPPENING.complete:
        return this.#complete(happening.payload as { flight: Flight; code: number });
      default:
        return this.#stepActor(actor, happening.input!);
    }
  }

  #stepActor(actor: ActorId, input: Input): void {
    const engine = this.#spec.setup.topology.actors[actor]!.engine;
    if (engine >= 0 && this.#deadEngines.has(engine)) return;
    try {
      this.#cluster.step(actor, this.#now, input, this.#emit);
    } catch (error) {
      if (error instanceof BrokenBelief || !(error instanceof Error)) throw error;
      this.#judge.note(actor, { kind: 'died', thread: 'main', cause: error.message });
    }
  }

  #fold(value: number): void {
    this.#digestLow = mix(this.#digestLow, value);
    this.#digestHigh = mix(this.#digestHigh, this.#digestLow ^ 0x13198a2e);
  }

  #fail(invariant: InvariantId, place: string, detail: string): void {
    this.#violation ??= { invariant, place, detail, step: this.#step, atMicros: this.#now };
  }

  // --- effects ----------------------------------------------------------------------------------------------------

  #perform(effect: Effect): void {
    const actor = this.#actor;
    if (effect.kind === 'note') {
      if (this.#current !== null) this.#write(effect);
      this.#spec.observer?.note(this.#now, effect.note);
      return this.#judge.note(actor, effect.note);
    }
    this.#fold(mix(EFFECT_NUMBERS[effect.kind], actor));
    if (this.#current !== null) this.#write(effect);
    switch (effect.kind) {
      case 'send':
        return this.#send(actor, effect.to, effect.message);
      case 'arm':
        return this.#arm(actor, effect.timer, effect.object, effect.earliest, effect.latest);
      case 'stop':
        return this.#stop(actor, effect.timer, effect.object);
      case 'turn':
        return this.#turn(actor, effect.thread, effect.delayMicros);
      case 'join':
        return this.#join(actor, effect.phase, effect.delayMicros);
      case 'connect':
        return this.#connect(actor, effect.peer, effect.queuePairs, effect.sendQueueDepth);
      case 'post':
        return this.#post(actor, effect.batch);
      case 'fence':
        return this.#fence(actor, effect.peer);
    }
  }

  /** Microseconds by which the adversary holds a happening back. */
  #delay(draw: DrawKind, actor: number, kind: number, object: number): number {
    const { profile, replaying, tape } = this.#spec;
    if (profile.delays === 0 && !replaying) return 0;
    const occurrence = this.#occurrences.next(draw, actor, kind, object);
    const held = tape.choose(draw, actor, kind, object, occurrence, (hash) => pickDelay(profile.delays, hash));
    if (held > PATIENCE_MICROS) this.#judge.disturbed();
    return held;
  }

  #send(from: ActorId, to: ActorId, message: Message): void {
    const { network, profile, replaying, tape, setup } = this.#spec;
    const path = pathOf(setup.topology, from, to);
    const pair = from * this.#actorCount + to;
    const kind = kindNumber(message);
    const object = objectOf(message);
    this.#fold(mix(pair * 16 + kind, object));
    this.#judge.sent(from, to, message);
    const fate = path === 'peer' ? drawFate(tape, replaying, profile, this.#occurrences, pair, kind, object) : FATE.arrives;
    const base = path === 'local' ? network.localMicros : path === 'http' ? network.httpMicros : network.peerMicros;
    const held = this.#delay(DRAW.deliverDelay, pair, kind, object);
    let at = this.#now + base + held;
    if (fate !== FATE.arrives) this.#judge.disturbed();
    if (fate === FATE.lost) {
      this.#push(HAPPENING.lost, to, at, object, null, message, held);
      return;
    }
    if (fate !== FATE.overtakes) {
      at = Math.max(at, this.#lastDelivery[pair]!);
      this.#lastDelivery[pair] = at;
    }
    const arrives = fate === FATE.harmed ? harm(message, object) : message;
    this.#push(HAPPENING.deliver, to, at, mix(pair * 16 + kind, object), { kind: 'message', from, message: arrives }, null, held);
    if (fate === FATE.twice) this.#push(HAPPENING.deliver, to, at + base, mix(pair * 16 + kind, object), { kind: 'message', from, message }, null, held);
  }

  #arm(actor: ActorId, timer: number, object: number, earliest: number, latest: number): void {
    this.#stop(actor, timer, object);
    const late = Math.min(latest - earliest, this.#delay(DRAW.timerDelay, actor, timer, object));
    const happening = this.#push(HAPPENING.timer, actor, Math.max(this.#now, earliest) + late, object * 16 + timer, { kind: 'timer', timer, object }, null, late);
    this.#timers[actor]!.set(object * 16 + timer, happening);
  }

  #stop(actor: ActorId, timer: number, object: number): void {
    const timers = this.#timers[actor]!;
    const armed = timers.get(object * 16 + timer);
    if (armed === undefined) return;
    armed.stopped = true;
    timers.delete(object * 16 + timer);
  }

  #turn(actor: ActorId, thread: number, delayMicros: number): void {
    const held = this.#delay(DRAW.turnDelay, actor, thread, 0);
    this.#push(HAPPENING.turn, actor, this.#now + delayMicros + held, thread, { kind: 'turn', thread }, null, held);
  }

  /** All-reduce: when the last rank of the group arrives, all go on, each at its own pace. */
  #join(actor: ActorId, phase: number, delayMicros: number): void {
    const { engine } = this.#spec.setup.topology.actors[actor]!;
    const arrived = this.#joins.get(engine) ?? [];
    arrived.push(actor);
    this.#joins.set(engine, arrived);
    const { ranks } = this.#spec.setup.topology.engines[engine]!;
    if (arrived.length < ranks.length) return;
    this.#joins.delete(engine);
    for (const rank of ranks) {
      const held = this.#delay(DRAW.turnDelay, rank, 0, 0);
      this.#push(HAPPENING.joined, rank, this.#now + delayMicros + held, phase, { kind: 'joined', phase }, null, held);
    }
  }

  // --- the NIC ----------------------------------------------------------------------------------------------------

  #connect(actor: ActorId, peer: ActorId, count: number, depth: number): void {
    const pairs = Array.from({ length: count }, (_, index) => createQueuePair(actor, peer, index, depth));
    this.#queuePairs.set(actor * this.#actorCount + peer, pairs);
  }

  #post(actor: ActorId, batch: PostedBatch): void {
    this.#fold(mix(mix(batch.transfer, batch.layer), batch.runs.length));
    for (const run of batch.runs) this.#fold(run);
    const queuePair = this.#queuePairs.get(actor * this.#actorCount + batch.peer)?.[batch.queuePair];
    believe(queuePair !== undefined, 'INV-NIC-1', `actor ${actor} posts to ${batch.peer} without a connection`);
    this.#judge.posted(actor, batch);
    const flight = postBatch(queuePair, batch);
    believe(flight !== null, 'INV-NIC-2', `actor ${actor} overruns the send queue towards ${batch.peer}`);
    if (this.#current !== null) Object.assign(this.#current, { transfer: batch.transfer, request: batch.request });
    const held = this.#delay(DRAW.landDelay, actor, batch.layer, batch.transfer);
    const at = Math.max(this.#now + landMicros(this.#spec.nic, batch) + held, queuePair.lastLandAt);
    queuePair.lastLandAt = at;
    this.#push(HAPPENING.land, batch.peer, at, mix(mix(batch.transfer, batch.layer), batch.part), null, flight, held);
  }

  /** The batch reaches its target, whole; or not at all when the queue pair is broken or the target is gone. */
  #land(flight: Flight): void {
    const { batch, queuePair } = flight;
    const { initiator } = queuePair;
    if (flight.landed) return;
    const gone = this.#isDead(batch.peer);
    if (gone) queuePair.broken = true;
    if (queuePair.broken) return this.#completeLater(flight, StatusCode.ERR_RDMA_OP);
    // A dead initiator's writes may still be in the network; what it wanted to read has nowhere to go.
    if (batch.operation === 'write' || !this.#isDead(initiator)) {
      if (!this.#isDead(initiator)) this.#judge.landed(initiator, batch);
      if (!this.#move(initiator, batch)) {
        queuePair.broken = true;
        return this.#completeLater(flight, StatusCode.ERR_INVALID_ARGS);
      }
    }
    this.#completeLater(flight, StatusCode.SUCCESS);
  }

  /** Moves the bytes; false when a run leaves its registered region, and nothing has moved. */
  #move(initiator: ActorId, batch: PostedBatch): boolean {
    const { memory } = this.#spec;
    const local = this.#cluster.places.get(initiator)!;
    const remote = this.#cluster.places.get(batch.peer)!;
    const isWrite = batch.operation === 'write';
    const count = batch.runs.length / 3;
    if (this.#spec.observer !== undefined) this.#spec.observer.moved(bytesOf(batch));
    believe(count <= memory.runsMax, 'INV-NIC-3', `a batch of ${count} runs`);
    const base = memory.runsAddress >>> 2;
    for (let i = 0; i < batch.runs.length; i += 3) {
      memory.words[base + i] = batch.runs[isWrite ? i : i + 1]!;
      memory.words[base + i + 1] = batch.runs[isWrite ? i + 1 : i]!;
      memory.words[base + i + 2] = batch.runs[i + 2]!;
    }
    const [source, target] = isWrite ? [local, remote] : [remote, local];
    return memory.kernels.copyRuns(memory.runsAddress, count, source.regionStart, source.regionEnd, target.regionStart, target.regionEnd) === ALL_FINE;
  }

  #completeLater(flight: Flight, code: number): void {
    const { batch, queuePair } = flight;
    flight.landed = true;
    this.#judge.remoteDone(batch);
    if (this.#isDead(queuePair.initiator)) {
      this.#judge.localDone(queuePair.initiator, batch);
      return retire(flight);
    }
    const held = this.#delay(DRAW.completeDelay, queuePair.initiator, batch.layer, batch.transfer);
    const at = Math.max(this.#now + this.#spec.nic.completeMicros + held, queuePair.lastCompleteAt);
    queuePair.lastCompleteAt = at;
    this.#push(HAPPENING.complete, queuePair.initiator, at, mix(mix(batch.transfer, batch.layer), batch.part), null, { flight, code }, held);
  }

  #complete({ flight, code }: { flight: Flight; code: number }): void {
    const { batch, queuePair } = flight;
    retire(flight);
    this.#judge.localDone(queuePair.initiator, batch);
    this.#stepActor(queuePair.initiator, { kind: 'completion', tag: batch.tag, code });
  }

  /** Resets the target's end: whatever has not landed by now ends with an error at the initiator. */
  #fence(target: ActorId, initiator: ActorId): void {
    for (const queuePair of this.#queuePairs.get(initiator * this.#actorCount + target) ?? []) {
      queuePair.broken = true;
      for (const flight of queuePair.inFlight) if (!flight.landed) this.#completeLater(flight, StatusCode.ERR_RDMA_OP);
    }
  }

  // --- faults -----------------------------------------------------------------------------------------------------

  #isDead(actor: ActorId): boolean {
    return this.#deadEngines.has(this.#spec.setup.topology.actors[actor]!.engine);
  }

  /** A rank dies and takes its engine along, as a failed worker does in vLLM; the proxy's connections break. */
  #crash(actor: ActorId): void {
    const { engine } = this.#spec.setup.topology.actors[actor]!;
    if (this.#deadEngines.has(engine)) return;
    this.#deadEngines.add(engine);
    this.#judge.engineDied(engine);
    const { scheduler, ranks } = this.#spec.setup.topology.engines[engine]!;
    for (const dead of [scheduler, ...ranks]) {
      for (const timer of this.#timers[dead]!.values()) timer.stopped = true;
      this.#timers[dead]!.clear();
    }
    const held = this.#delay(DRAW.deliverDelay, scheduler * this.#actorCount, kindNumber({ kind: 'engineDown', engine }), engine);
    const at = this.#now + this.#spec.network.httpMicros + held;
    this.#push(HAPPENING.down, PROXY, at, engine, { kind: 'message', from: scheduler, message: { kind: 'engineDown', engine } }, null, held);
  }

  // --- the end ----------------------------------------------------------------------------------------------------

  /** Nothing is left to happen: every request must have ended and every table must be empty. */
  #judgeEnd(): void {
    const { topology } = this.#spec.setup;
    if (this.#judge.unfinished.size > 0) {
      const chain = waitChain(this.#allWaits(), PROXY);
      const requests = [...this.#judge.unfinished].join(' ');
      return this.#fail('I2', placeOfHang(chain, topology), `nothing is left to happen and request ${requests} has no end`);
    }
    for (const spec of topology.engines) {
      if (this.#deadEngines.has(spec.engine)) continue;
      const { pool, connector, requests } = this.#cluster.schedulers.get(spec.scheduler)!;
      const { name } = topology.actors[spec.scheduler]!;
      if (pool.freeCount !== pool.total) this.#fail('I3', `${spec.role} blocks`, `${name} has ${pool.freeCount} of ${pool.total} blocks free at the end; requests ${[...requests.keys()].join(' ')} are still in its table`);
      if (connector.census() !== 0) this.#fail('I3', `${spec.role} scheduler tables`, `${name}'s connector still remembers ${connector.census()} things at the end`);
      for (const rank of spec.ranks) {
        const left = this.#cluster.ranks.get(rank)!.connector.census();
        if (left !== 0) this.#fail('I3', `${spec.role} rank tables`, `${topology.actors[rank]!.name}'s connector still remembers ${left} things at the end`);
      }
    }
    for (const queuePair of [...this.#queuePairs.values()].flat()) {
      if (queuePair.posted !== 0 && !this.#isDead(queuePair.initiator)) this.#fail('I3', 'send queue', `${queuePair.posted} send-queue slots of ${topology.actors[queuePair.initiator]!.name} are still taken at the end`);
    }
  }

  #blocksLeft(): number {
    let left = 0;
    for (const { engine, scheduler } of this.#spec.setup.topology.engines) {
      if (this.#deadEngines.has(engine)) continue;
      const { pool } = this.#cluster.schedulers.get(scheduler)!;
      left += pool.total - pool.freeCount;
    }
    return left;
  }

  #allWaits(): ReturnType<Cluster['waits']> {
    return this.#spec.setup.topology.actors.filter(({ actor }) => actor === PROXY || !this.#isDead(actor)).flatMap(({ actor }) => this.#cluster.waits(actor));
  }

  #waits(): string[] {
    return showChain(waitChain(this.#allWaits(), PROXY), this.#spec.setup.topology);
  }

  // --- the record -------------------------------------------------------------------------------------------------

  #open(happening: Happening): void {
    const { topology } = this.#spec.setup;
    const { kind, actor, input, payload, cause, heldMicros } = happening;
    const subject = subjectOf(happening);
    const what = this.#what(kind, actor, input, payload);
    const fault = kind === HAPPENING.crash || kind === HAPPENING.lost || kind === HAPPENING.stray;
    this.#current = { step: this.#step - 1, atMicros: this.#now, actor, what: what ?? describeInput(topology, input!), effects: [], cause, heldMicros, fault, ...subject };
    this.#steps.push(this.#current);
  }

  #what(kind: HappeningKind, actor: ActorId, input: Input | null, payload: unknown): string | undefined {
    const { actors } = this.#spec.setup.topology;
    switch (kind) {
      case HAPPENING.arrive: {
        const { request, promptTokens, outputTokens, ordinary } = payload as Setup['requests'][number];
        return `request ${request} arrives: ${promptTokens} prompt tokens, ${outputTokens} to generate${ordinary === 'no' ? '' : ', ordinary'}`;
      }
      case HAPPENING.abort:
        return `the client of request ${(payload as Setup['requests'][number]).request} goes away`;
      case HAPPENING.crash:
        return 'FAULT this rank dies, and its engine with it';
      case HAPPENING.lost:
        return `FAULT a message to it is lost: ${describeMessage(payload as Message)}`;
      case HAPPENING.stray:
        return `FAULT a stranger sends it: ${describeMessage((input as Extract<Input, { kind: 'message' }>).message)}`;
      case HAPPENING.land: {
        const { batch, queuePair } = payload as Flight;
        return `${batch.runs.length / 3} ${batch.operation}s of layer ${batch.layer} (transfer ${batch.transfer}) from ${actors[queuePair.initiator]!.name} land here, blocks ${batch.remoteBlocks.join(' ')}`;
      }
      case HAPPENING.complete: {
        const { flight, code } = payload as { flight: Flight; code: number };
        return `sees the completion of layer ${flight.batch.layer} (transfer ${flight.batch.transfer}), status ${code}`;
      }
      default:
        return undefined;
    }
  }

  #write(effect: Effect): void {
    const text = describeEffect(this.#spec.setup.topology, effect);
    if (text !== '') this.#current!.effects.push(text);
  }
}

/** Whether an engine of either role has blocks enough for the whole request. */
function fits({ setup, limits }: RunSpec, request: Setup['requests'][number]): boolean {
  const lookAhead = Math.max(setup.prefillLookAhead, setup.decodeLookAhead);
  return request.promptTokens + request.outputTokens + lookAhead <= limits.blocks * limits.blockTokens;
}

function subjectOf(happening: Happening): { transfer: number; request: number } {
  const { payload, input, kind } = happening;
  if (kind === HAPPENING.land) return about((payload as Flight).batch);
  if (kind === HAPPENING.complete) return about((payload as { flight: Flight }).flight.batch);
  if (kind === HAPPENING.arrive || kind === HAPPENING.abort) return { transfer: -1, request: (payload as { request: number }).request };
  const message = kind === HAPPENING.lost ? (payload as Message) : input?.kind === 'message' ? input.message : null;
  if (message === null) return { transfer: -1, request: -1 };
  return { transfer: 'transfer' in message ? message.transfer : -1, request: 'request' in message ? message.request : -1 };
}

function about(batch: PostedBatch): { transfer: number; request: number } {
  return { transfer: batch.transfer, request: batch.request };
}

/** The message's real bytes with one of them changed. */
function harm(message: Message, object: number): BytesMessage {
  const bytes = encodePeerMessage(message as PeerMessage);
  bytes[object % bytes.length]! ^= 0x55;
  return { kind: 'bytes', port: 'notify', bytes };
}

function hex(word: number): string {
  return word.toString(16).padStart(8, '0');
}

export { PROFILES, STRAY_KINDS };

import { BrokenBelief } from '../base/failure.ts';
import { filled } from '../base/lists.ts';
import { below, finish, mix } from '../base/mix.ts';
import { SmallMap } from '../base/small-map.ts';
import { describeThrown } from '../base/thrown.ts';
import { type ActorId, PROXY } from '../base/topology.ts';
import { strayBytes } from '../faults/strays.ts';
import { whereOfActor } from '../oracle/breach.ts';
import { type CacheMap, mapCache } from '../oracle/cache-map.ts';
import { Judge } from '../oracle/judge.ts';
import type { Effect, Input } from '../wire/machine.ts';
import { EVENT_KINDS, judgeEnd, judgeLength, resultOf } from './closing.ts';
import { buildCluster, type Cluster } from './cluster.ts';
import { Core } from './core.ts';
import type { RequestSetup } from './draws.ts';
import { type Border, mistakeIn } from './effect-border.ts';
import { EVENT, type WorldEvent } from './event-queue.ts';
import { GuestFault, type GuestHost } from './guest.ts';
import { guardConnector } from './guest-connector.ts';
import { guardPolicy } from './guest-policy.ts';
import { resetMemory } from './memory.ts';
import { kindOf } from './network.ts';
import { findDanger } from './nic-danger.ts';
import type { Flight, NicEvent } from './nic-flights.ts';
import { NicSide } from './nic-side.ts';
import { PostOffice } from './post-office.ts';
import type { ReferencedPrompt } from './prompts.ts';
import type { RunResult, RunSpec } from './run-spec.ts';
import { DRAW } from './tape.ts';

/** Numbers of effects in the digest. */
const EFFECT_NUMBERS: { readonly [K in Effect['kind']]: number } = {
  send: 1,
  arm: 2,
  stop: 3,
  turn: 4,
  join: 5,
  connect: 6,
  post: 7,
  fence: 8,
  reset: 10,
  note: 9,
};

export function runWorld(spec: RunSpec): RunResult {
  const core = new Core(spec);
  try {
    return new World(core).run();
  } catch (error) {
    // A connector or policy that cannot even be made: told, and there was no run.
    if (error instanceof GuestFault && core.violation !== null) return resultOf(core, null);
    throw error;
  }
}

/** One run: takes the next event, gives it to its actor, performs the effects. */
class World {
  readonly #core: Core;
  readonly #cluster: Cluster;
  readonly #nic: NicSide;
  readonly #post: PostOffice;
  readonly #prompts: ReferencedPrompt[];
  /** By actor; only ranks have one. */
  #caches: (CacheMap | undefined)[] = [];
  readonly #border: Border;
  /** The effect that was looked at when a guest asked for it. */
  #checked: Effect | null = null;
  /** What each actor has armed, by timer and object. */
  readonly #timers: SmallMap<number, WorldEvent>[];
  /** Ranks of each engine that wait for the others. */
  readonly #joined: number[];
  readonly #emit = (effect: Effect): void => {
    try {
      this.#perform(effect);
    } catch (error) {
      // Ours, not the connector's: it must not be taken for a bug of the machine that asked for the effect, not even
      // when that machine catches it.
      this.#broken ??= asBelief(error);
      throw this.#broken;
    }
  };
  /** What went wrong with us while a machine asked for an effect. */
  #broken: BrokenBelief | null = null;
  #actor: ActorId = PROXY;
  /** Events so far, by actor and kind: tells what an endless run is busy with. */
  readonly #busy: number[];
  readonly #guests: GuestHost;

  constructor(core: Core) {
    const { spec } = core;
    resetMemory(spec.memory);
    const { setup, connector, policy } = spec;
    this.#prompts = spec.layPrompts();
    this.#core = core;
    this.#busy = filled(core.actorCount * EVENT_KINDS, 0);
    this.#border = { spec, cacheOf: (actor) => this.#caches[actor] };
    this.#guests = this.#createGuestHost(spec);
    const guarded = guardConnector(connector, this.#guests);
    this.#cluster = buildCluster({
      ...spec,
      connector: guarded,
      policy: guardPolicy(policy, this.#guests),
      describe: (self, peer) => this.#nic.describe(self, peer),
    });
    const { places } = this.#cluster;
    this.#caches = places.map((place) => (place === undefined ? undefined : mapCache(place.views)));
    this.#core.judge = this.#createJudge(spec);
    this.#nic = new NicSide(this.#core, this.#caches);
    this.#post = new PostOffice(this.#core);
    this.#timers = setup.topology.actors.map(() => new SmallMap<number, WorldEvent>());
    this.#joined = filled(setup.topology.engines.length, 0);
    places.forEach((place, actor) => {
      if (place !== undefined) this.#nic.register(actor, place.regionStart, place.regionEnd);
    });
  }

  #createGuestHost({ setup, limits }: RunSpec): GuestHost {
    const core = this.#core;
    const { blocks, blockTokens } = limits;
    return {
      bounds: {
        topology: setup.topology,
        requests: setup.requests.length,
        blocks,
        blockTokens,
        forms: core.spec.connector.messages ?? null,
        goals: core.spec.connector.goals ?? [],
        mistakeIn: (effect, actor) => {
          this.#checked = effect;
          return mistakeIn(effect, actor, this.#border);
        },
      },
      guests: new Map(),
      now: () => core.now,
      preemption: (rank, thread, activation, slice) => core.preemption(rank, thread, activation, slice),
      tell: ({ actor, breach, part, ids, stack }) =>
        core.fail(breach, whereOfActor(core.topology, actor, part), { actor, ...ids }, stack),
    };
  }

  #createJudge({ setup, limits, grain, policy }: RunSpec): Core['judge'] {
    const lookAhead = Math.max(setup.prefillLookAhead, setup.decodeLookAhead);
    const room = limits.blocks * limits.blockTokens - lookAhead;
    return new Judge({
      topology: setup.topology,
      blocksPerEngine: setup.topology.engines.map(() => limits.blocks),
      requests: setup.requests.map(({ request, promptTokens, outputTokens, abortMicros }, index) => ({
        request,
        reference: this.#prompts[index]!.reference,
        promptTokens,
        aborts: abortMicros > 0,
        fits: promptTokens + outputTokens <= room,
      })),
      cacheOf: (actor) => this.#caches[actor]!,
      checksTokens: grain.readAlways,
      findDanger: (engine, blocks) => findDanger(this.#nic.queues, engine, blocks),
      ranksTakeTurns: policy.claims?.includes('dp-ranks-take-turns') ?? false,
      heads: setup.heads,
      isLoaded: (actor, note) => {
        const { lineageAddress } = this.#prompts[note.request]!.prompt;
        return this.#cluster.isLoaded(actor, { ...note, lineageAddress });
      },
      fail: (breach, where, ids) => this.#core.fail(breach, where, ids),
    });
  }

  run(): RunResult {
    const core = this.#core;
    this.#schedulePlan();
    core.spec.observer?.begins?.();
    let isOver = false;
    while (core.violation === null && !isOver) isOver = !this.#advance();
    return resultOf(core, this.#cluster);
  }

  /** False when nothing is left to happen. */
  #next(): boolean {
    const core = this.#core;
    const event = core.ready.pop();
    if (event === undefined) {
      judgeEnd(core, this.#cluster, this.#nic);
      return false;
    }
    if (event.stopped) return true;
    core.now = Math.max(core.now, event.at);
    this.#busy[event.actor * EVENT_KINDS + event.kind]!++;
    this.#take(event);
    judgeLength(core, this.#busy, this.#guests.guests);
    return true;
  }

  /**
   * Whatever goes wrong behind a broken promise is its consequence, and the promise is told. Anything else that is thrown is
   * a failure of ours, even if a guest has caught it.
   */
  #advance(): boolean {
    try {
      const goesOn = this.#next();
      if (this.#broken === null || this.#core.violation !== null) return goesOn;
    } catch (error) {
      if (this.#core.violation !== null) return false;
      throw asBelief(error);
    }
    throw this.#broken;
  }

  // --- the plan: what comes from outside the cluster ---------------------------------------------------------------

  #schedulePlan(): void {
    const core = this.#core;
    for (const request of core.spec.setup.requests) {
      const { arriveMicros, abortMicros } = request;
      core.push(EVENT.arrive, PROXY, arriveMicros, request.request, 0, null, request);
      if (abortMicros > 0)
        core.push(EVENT.abort, PROXY, arriveMicros + abortMicros, request.request, 0, null, request);
    }
    this.#scheduleCrashes();
    this.#scheduleStrays();
  }

  /** Ranks die somewhere in the time that requests are under way; one in a run on average. */
  #scheduleCrashes(): void {
    const { keys } = this.#core;
    const { tape, profile, replaying } = this.#core.spec;
    if (!replaying && !profile.crash) return;
    const ranks = this.#core.topology.actors.filter(({ tpRank }) => tpRank >= 0);
    const pick = (hash: number): number =>
      below(hash, ranks.length) === 0 ? 1 + below(finish(hash), 2500) : 0;
    for (const { actor } of ranks) {
      const at = tape.choose(DRAW.crash, keys.actors[actor]!, 0, 0, 0, pick);
      if (at > 0) this.#core.push(EVENT.crash, actor, at, actor, 0, null, null);
    }
  }

  #scheduleStrays(): void {
    const { keys } = this.#core;
    const { tape, profile, replaying, strayKinds } = this.#core.spec;
    if (strayKinds === 0 || (!replaying && profile.strays === 0)) return;
    const pick = (hash: number): number =>
      below(hash, 12) < profile.strays ? 1 + below(finish(hash), 1500) : 0;
    for (const { actor, tpRank } of this.#core.topology.actors) {
      if (tpRank < 0) continue;
      for (let kind = 0; kind < strayKinds; kind++) {
        const at = tape.choose(DRAW.stray, keys.actors[actor]!, kind, 0, 0, pick);
        if (at === 0) continue;
        const input: Input = { kind: 'message', from: actor, message: strayBytes(kind) };
        this.#core.push(EVENT.stray, actor, at, kind, 0, input, null);
      }
    }
  }

  // --- the loop ----------------------------------------------------------------------------------------------------

  #take(event: WorldEvent): void {
    const core = this.#core;
    const { kind, actor, payload } = event;
    core.fold(mix(mix(mix(kind, actor), event.about), core.now));
    core.recorder?.open(event, core.step, core.now);
    core.step++;
    this.#actor = actor;
    switch (kind) {
      case EVENT.arrive:
        return this.#arrive(payload as RequestSetup);
      case EVENT.abort: {
        const { request } = payload as RequestSetup;
        return this.#stepActor(actor, {
          kind: 'message',
          from: PROXY,
          message: { kind: 'abort', request, transfer: 0 },
        });
      }
      case EVENT.crash:
        return this.#crash(actor);
      case EVENT.lost:
        return;
      case EVENT.land:
        return this.#nic.land(payload as Flight);
      case EVENT.complete:
      case EVENT.engineTimer:
        for (const { batch, status } of this.#nic.see(actor, payload as NicEvent))
          this.#stepActor(actor, { kind: 'completion', tag: batch.tag, code: status.code });
        return;
      default:
        return this.#stepActor(actor, event.input!);
    }
  }

  #arrive({ request, ordinary }: RequestSetup): void {
    this.#cluster.accept({ prompt: this.#prompts[request]!.prompt, ordinary }, this.#emit);
  }

  #stepActor(actor: ActorId, input: Input): void {
    if (!this.#core.isDead(actor)) this.#cluster.step(actor, this.#core.now, input, this.#emit);
  }

  // --- effects -----------------------------------------------------------------------------------------------------

  #perform(effect: Effect): void {
    const core = this.#core;
    const actor = this.#actor;
    const mistake = effect === this.#checked ? null : mistakeIn(effect, actor, this.#border);
    if (mistake !== null) return core.refuse(actor, effect.kind, mistake);
    core.recorder?.write(effect);
    if (effect.kind === 'note') {
      core.spec.observer?.note(core.now, effect.note);
      return core.judge.note(actor, effect.note);
    }
    core.fold(mix(EFFECT_NUMBERS[effect.kind], actor));
    switch (effect.kind) {
      case 'send':
        return this.#post.send(actor, effect.to, effect.message);
      case 'arm':
        return this.#arm(actor, effect);
      case 'stop':
        return this.#stop(actor, timerKey(effect));
      case 'turn':
        return this.#turn(actor, effect.thread, effect.delayMicros);
      case 'join':
        return this.#join(actor, effect.phase, effect.delayMicros);
      case 'connect':
        return this.#nic.connect(actor, effect);
      case 'post':
        return this.#nic.post(actor, effect.batch);
      case 'reset':
        return this.#nic.reset(actor, effect.peer);
      case 'fence':
        return this.#nic.fence(actor, effect.peer);
    }
  }

  #arm(actor: ActorId, { timer, object, earliest, latest }: Extract<Effect, { kind: 'arm' }>): void {
    const core = this.#core;
    const key = timerKey({ timer, object });
    this.#stop(actor, key);
    const late = Math.min(
      latest - earliest,
      core.delay(DRAW.timerDelay, core.keys.actors[actor]!, timer, object),
    );
    const at = Math.max(core.now, earliest) + late;
    this.#timers[actor]!.set(
      key,
      core.push(EVENT.timer, actor, at, key, late, { kind: 'timer', timer, object }, null),
    );
  }

  #stop(actor: ActorId, key: number): void {
    const armed = this.#timers[actor]!.get(key);
    if (armed === undefined) return;
    armed.stopped = true;
    this.#timers[actor]!.delete(key);
  }

  #turn(actor: ActorId, thread: number, delayMicros: number): void {
    const core = this.#core;
    const held = core.delay(DRAW.turnDelay, core.keys.actors[actor]!, thread, 0);
    core.push(EVENT.turn, actor, core.now + delayMicros + held, thread, held, { kind: 'turn', thread }, null);
  }

  /** All-reduce: when the last rank of the group arrives, all go on, each at its own pace. */
  #join(actor: ActorId, phase: number, delayMicros: number): void {
    const core = this.#core;
    const { engine } = core.topology.actors[actor]!;
    const { ranks } = core.topology.engines[engine]!;
    if (++this.#joined[engine]! < ranks.length) return;
    this.#joined[engine] = 0;
    for (const rank of ranks) {
      const held = core.delay(DRAW.turnDelay, core.keys.actors[rank]!, 0, 0);
      core.push(
        EVENT.joined,
        rank,
        core.now + delayMicros + held,
        phase,
        held,
        { kind: 'joined', phase },
        null,
      );
    }
  }

  /** A rank dies and takes its engine along, as a failed worker does in vLLM; the proxy's connections break. */
  #crash(actor: ActorId): void {
    const core = this.#core;
    const { engine } = core.topology.actors[actor]!;
    if (!core.kill(engine)) return;
    const { scheduler, ranks } = core.topology.engines[engine]!;
    for (const rank of ranks) this.#nic.died(rank);
    for (const dead of [scheduler, ...ranks])
      for (const key of this.#timers[dead]!.keys()) this.#stop(dead, key);
    const message = { kind: 'engineDown', engine } as const;
    const held = core.delay(
      DRAW.deliverDelay,
      core.keys.pairs[scheduler * core.actorCount + PROXY]!,
      kindOf(message),
      engine,
    );
    const at = core.now + core.spec.network.httpMicros + held;
    core.push(EVENT.down, PROXY, at, engine, held, { kind: 'message', from: scheduler, message }, null);
  }
}

function asBelief(error: unknown): BrokenBelief {
  return error instanceof BrokenBelief
    ? error
    : new BrokenBelief('INV-WORLD-1', describeThrown(error), error);
}

/** Timer kinds are below 16, so a kind and an object make one number. */
function timerKey({ timer, object }: { readonly timer: number; readonly object: number }): number {
  return object * 16 + timer;
}

import { believe, UsageError } from '../base/failure.ts';
import { mix } from '../base/mix.ts';
import { SmallMap } from '../base/small-map.ts';
import type { ActorId } from '../base/topology.ts';
import type { NicEffect } from '../faults/nic-faults.ts';
import { StatusCode } from '../io/codes.ts';
import { resetQueuePairs, sessionTransfer } from '../io/engine/engine.ts';
import type { Notification, PostedChain, PostOutcome, WorkCompletion } from '../io/engine/host.ts';
import { asyncEvent, atTime, complete, timerFired } from '../io/engine/inputs.ts';
import type { Connection, MemoryRegion } from '../io/fabric.ts';
import { updateStatus } from '../io/transfer-status.ts';
import {
  createVerbs,
  endProcess,
  type SimRegion,
  type VerbsPart,
  type VerbsSim,
  verbsOf,
} from '../io/verbs-sim.ts';
import type { CacheMap } from '../oracle/cache-map.ts';
import { IMPOSSIBLE } from '../oracle/invariants/i12-possible-request.ts';
import type { Description, Effect, PostedBatch } from '../wire/machine.ts';
import type { Core } from './core.ts';
import { EVENT, type WorldEvent } from './event-queue.ts';
import { idOfName } from './key-names.ts';
import { entriesOf, type OpenBatch, openBatch } from './nic-batches.ts';
import { findPending, type Queues } from './nic-danger.ts';
import {
  createRankEngine,
  describeTo,
  LISTEN_PORT,
  lendAnew,
  openOf,
  openSession,
  type RankEngine,
  slotsTaken,
  takeUntold,
} from './nic-engines.ts';
import { drawEffect, drawSlowness, keyOfPost, keyOfSend } from './nic-fates.ts';
import {
  addLane,
  createLane,
  ENTRY,
  type Flight,
  type Lane,
  type Lanes,
  type NicEvent,
  takeLane,
} from './nic-flights.ts';
import { cancelLane, land, landOwed, launch } from './nic-lanes.ts';
import { DRAW } from './tape.ts';

/** Where a rank's memory lies in that of the run. */
interface Place {
  readonly regionStart: number;
  readonly regionEnd: number;
  readonly region: MemoryRegion;
}

/** From a landing or a failure to its being seen. */
const SEEN_MICROS = 1;
const ENOMEM = 12;

/** The NICs of all ranks and the engine on each: what is posted, lands and completes, one event each. */
export class NicSide {
  readonly #core: Core;
  readonly #sim: VerbsSim;
  /** In the order in which they were made, and by actor. */
  readonly #ranks: RankEngine[] = [];
  readonly #rankOf: (RankEngine | undefined)[] = [];
  readonly #actors = new Map<string, ActorId>();
  /** By actor. */
  readonly #places: (Place | undefined)[] = [];
  readonly #connections = new SmallMap<number, Connection>();
  readonly #lanes: Lanes = { list: [], byQpn: [] };
  /** When the last entry of each queue pair's completion queue is seen. */
  readonly #seenAt: number[] = [];
  /** What tells whether something can still land. */
  readonly queues: Queues;
  #landing: Flight | null = null;

  constructor(core: Core, caches: readonly (CacheMap | undefined)[]) {
    this.#core = core;
    this.#sim = createVerbs(core.spec.nic, (source, target, runs, count) =>
      this.#move(source, target, runs, count),
    );
    const [sim, ranks, rankOf] = [this.#sim, this.#ranks, this.#rankOf];
    this.queues = { core, caches, sim, lanes: this.#lanes.list, ranks, rankOf };
    for (const _ of core.topology.actors) this.#rankOf.push(undefined);
  }

  register(actor: ActorId, regionStart: number, regionEnd: number): void {
    const core = this.#core;
    const { fabric } = core.spec;
    const name = this.#nameOf(actor);
    this.#actors.set(name, actor);
    this.#sim.slowness.set(name, drawSlowness(core, actor));
    const region = fabric.registerMemory(actor, regionStart, regionEnd);
    this.#places[actor] = { regionStart, regionEnd, region };
  }

  /** The engine of a rank, made when it is first needed. */
  #rank(actor: ActorId): RankEngine {
    let rank = this.#rankOf[actor];
    if (rank === undefined) {
      rank = this.#createRank(actor);
      this.#rankOf[actor] = rank;
      this.#ranks.push(rank);
    }
    return rank;
  }

  #createRank(actor: ActorId): RankEngine {
    const core = this.#core;
    const { setup, fidelity } = core.spec;
    const name = this.#nameOf(actor);
    const verbs = this.#verbsOf(actor, name);
    const timers = new SmallMap<number, WorldEvent>();
    const arm = (timer: number, at: number): void => {
      const event: NicEvent = { kind: 'timer', timer };
      timers.set(timer, core.push(EVENT.engineTimer, actor, at, timer, 0, null, event));
    };
    const disarm = (timer: number): void => {
      const armed = timers.get(timer);
      if (armed !== undefined) armed.stopped = true;
      timers.delete(timer);
    };
    const engineAt = (port: number): RankEngine['engine'] | null => {
      const peer = port - LISTEN_PORT;
      return this.#places[peer] === undefined || core.isDead(peer) ? null : this.#rank(peer).engine;
    };
    const { regionStart, regionEnd } = this.#places[actor]!;
    const spec = { actor, name, setup, fidelity, regionStart, regionEnd, verbs, arm, disarm, engineAt };
    return createRankEngine(spec);
  }

  // --- what a rank's machine asks for --------------------------------------------------------------------------------

  connect(actor: ActorId, { peer, ...said }: Extract<Effect, { kind: 'connect' }>): void {
    const code = openSession(this.#wake(actor), peer, said);
    if (code === '') return;
    this.#core.refuse(actor, 'connect', { breach: IMPOSSIBLE['unreadable-descriptor'], ids: { peer, code } });
  }

  /** @throws UsageError NIC-PEER when the peer is no rank. */
  describe(actor: ActorId, peer: ActorId): Description {
    const spec = this.#core.topology.actors[peer];
    if (spec === undefined || spec.tpRank < 0)
      throw new UsageError('NIC-PEER', `${String(peer)} is no rank, so nothing is lent to it`);
    return describeTo(this.#rank(actor), peer);
  }

  post(actor: ActorId, batch: PostedBatch): void {
    const core = this.#core;
    core.fold(mix(mix(batch.transfer, batch.layer), batch.runs.length));
    for (const run of batch.runs) core.fold(run);
    const rank = this.#wake(actor);
    const session = rank.sessions.get(batch.peer);
    if (session === undefined) {
      // Where it goes is judged all the same: it may be the wrong peer.
      core.judge.posted(actor, batch, false);
      const ids = { peer: batch.peer, transfer: batch.transfer, request: batch.request };
      return core.refuse(actor, 'post', { breach: IMPOSSIBLE['never-connected'], ids });
    }
    // The id chooses the queue pair: chains go round them from there on.
    const transferId = rank.nextTransfer++ * core.spec.setup.queuePairs + batch.queuePair;
    const open = openBatch(actor, batch, transferId);
    rank.open.push(open);
    const { operation } = batch;
    const { status } = open;
    if (session === null) updateStatus(status, StatusCode.ERR_BAD_STATE, 'no session');
    else {
      const entries = entriesOf(batch.runs);
      open.call = sessionTransfer(rank.engine, session, { operation, entries, transferId, status });
    }
    const canLand = findPending(this.queues, (pending) => pending.open === open) !== null;
    open.passed = core.judge.posted(actor, batch, canLand);
    this.#tellLater(rank);
  }

  /** Takes back what the target lent to the initiator: what has not landed by now is refused for its key. */
  fence(target: ActorId, initiator: ActorId): void {
    lendAnew(this.#wake(target), initiator);
  }

  /** Takes the initiator's queue pairs down: the same, for completions that never came too. */
  reset(initiator: ActorId, target: ActorId): void {
    const rank = this.#wake(initiator);
    resetQueuePairs(rank.engine, this.#nameOf(target));
    this.#tellLater(rank);
  }

  /** A rank has died: nothing reaches it, nobody there looks; what it had posted to be written still lands. */
  died(actor: ActorId): void {
    endProcess(this.#sim, this.#nameOf(actor));
    for (const lane of this.#lanes.list) if (lane.target === actor) landOwed(this.#core, lane);
  }

  // --- events ----------------------------------------------------------------------------------------------------

  land(flight: Flight): void {
    const { lane } = flight;
    const isHead = lane.flights[0] === flight;
    if (isHead && flight.effect?.renewsKey) lendAnew(this.#rank(lane.target), lane.initiator);
    this.#landing = flight;
    const hasEnded = land(this.#core, this.#sim, flight);
    this.#landing = null;
    const { completions } = this.#sim;
    for (const { processId, completion } of completions)
      this.#seeLater(this.#actors.get(processId)!, {
        kind: 'entry',
        completion,
        open: aboutOf(completion, flight),
      });
    completions.length = 0;
    if (hasEnded && flight.effect?.overflows)
      this.#seeLater(lane.initiator, { kind: 'overflow', qpn: lane.queuePair.qpn });
  }

  /** An engine is told something. @returns the batches that have ended with it */
  see(actor: ActorId, event: NicEvent): readonly OpenBatch[] {
    const core = this.#core;
    if (core.isDead(actor)) return [];
    if (event.kind === 'ended') return [event.open];
    const rank = this.#wake(actor);
    if (event.kind === 'entry') complete(rank.engine, event.completion);
    else if (event.kind === 'timer') timerFired(rank.engine, event.timer, core.now);
    else asyncEvent(rank.engine, event.qpn, 'CQ_ERR');
    return takeUntold(rank);
  }

  /** What each rank's engine still holds: send-queue slots, and batches without an end. */
  left(): { readonly actor: ActorId; readonly slots: number; readonly batches: number }[] {
    return this.#ranks.map((rank) => {
      const batches = rank.open.filter(({ told }) => !told).length;
      return { actor: rank.actor, slots: slotsTaken(rank), batches };
    });
  }

  // --- posting -------------------------------------------------------------------------------------------------------

  #verbsOf(actor: ActorId, name: string): VerbsPart {
    const verbs = verbsOf(this.#sim, name, () => name);
    const { createQueuePair, connectQueuePair, registerRegion, deregisterRegion } = verbs;
    return {
      createQueuePair,
      connectQueuePair,
      registerRegion,
      deregisterRegion,
      destroyQueuePair: (qpn) => {
        verbs.destroyQueuePair(qpn);
        const lane = takeLane(this.#lanes, qpn);
        if (lane !== null) cancelLane(lane);
      },
      postReceives: (qpn, count) => {
        verbs.postReceives(qpn, count);
        const sender = this.#sim.queuePairs.get(qpn)?.peer;
        const lane = sender === undefined || sender === null ? undefined : this.#lanes.byQpn[sender.qpn];
        if (lane !== undefined) landOwed(this.#core, lane);
      },
      postSend: (qpn, chain) => this.#postChain(actor, verbs, qpn, chain),
      postNotification: (qpn, wrId, message) => this.#postMessage(actor, verbs, qpn, wrId, message),
    };
  }

  #postChain(actor: ActorId, verbs: VerbsPart, qpn: number, chain: PostedChain): PostOutcome {
    const core = this.#core;
    const open = openOf(this.#rankOf[actor]!, chain.transferId);
    const effect = open === null ? null : drawEffect(core, actor, keyOfPost(open.batch));
    this.#refuse(effect, chain.end - chain.first);
    const outcome = verbs.postSend(qpn, chain);
    if (outcome.posted === 0) return outcome;
    const lane = this.#lane(qpn, actor);
    this.#launch({
      lane,
      chain,
      message: null,
      workRequests: outcome.posted,
      open,
      effect,
      cancelled: false,
    });
    if (effect?.tellsEarly) {
      const completion = { qpn, opcode: 'data', wrId: chain.tailId, status: 'SUCCESS' } as const;
      this.#seeLater(actor, { kind: 'entry', completion, open });
    }
    return outcome;
  }

  #postMessage(actor: ActorId, verbs: VerbsPart, qpn: number, wrId: number, message: Notification): number {
    const core = this.#core;
    const effect = drawEffect(core, actor, keyOfSend(message));
    this.#refuse(effect, 1);
    const errno = verbs.postNotification(qpn, wrId, message);
    if (errno !== 0) return errno;
    const lane = this.#lane(qpn, actor);
    const open = openOf(this.#rankOf[actor]!, message.id);
    this.#launch({ lane, chain: null, message, workRequests: 1, open, effect, cancelled: false });
    return 0;
  }

  /** What was posted last on a lane goes on its way. */
  #launch(flight: Flight): void {
    const posted = flight.lane.queuePair.queue.at(-1)!;
    posted.fate = flight.effect?.chain ?? 'none';
    launch(this.#core, flight, posted);
  }

  /** The next post is refused if that is its effect. */
  #refuse(effect: NicEffect | null, workRequests: number): void {
    if (effect?.refusedAt === undefined) return;
    this.#sim.postFailure = { posted: effect.refusedAt === 'first' ? 0 : workRequests >>> 1, errno: ENOMEM };
  }

  #lane(qpn: number, initiator: ActorId): Lane {
    let lane = this.#lanes.byQpn[qpn];
    if (lane === undefined) {
      const { peer } = this.#sim.queuePairs.get(qpn)!;
      lane = createLane(this.#sim, qpn, initiator, this.#actors.get(peer!.processId)!);
      addLane(this.#lanes, lane);
    }
    return lane;
  }

  // --- landing -------------------------------------------------------------------------------------------------------

  /** Has the fabric move the bytes of what lands, and waits for it. */
  #move(source: SimRegion, target: SimRegion, runs: Float64Array, count: number): boolean {
    const core = this.#core;
    const { fabric, observer } = core.spec;
    const { chain, open, lane } = this.#landing!;
    const isWrite = chain!.operation === 'write';
    believe(open !== null, 'INV-NIC-3', `bytes of actor ${lane.initiator} land that belong to no batch`);
    const { batch } = open;
    const [local, remote] = isWrite ? [source, target] : [target, source];
    const triples = new Array<number>(count * 3);
    let bytes = 0;
    for (let at = 0; at < count * 3; at += 3) {
      triples[at] = runs[isWrite ? at : at + 1]!;
      triples[at + 1] = runs[isWrite ? at + 1 : at]!;
      triples[at + 2] = runs[at + 2]!;
      bytes += runs[at + 2]!;
    }
    // A descriptor may have led elsewhere than to the peer that was meant.
    if (lane.target === batch.peer) core.judge.landed(lane.initiator, batch, triples, open.passed);
    else core.judge.landed(lane.initiator, { ...batch, peer: lane.target }, triples, 0);
    observer?.moved(bytes);
    fabric.post(this.#connectionOf(local, remote), chain!.operation, triples, batch.tag);
    let [completion] = fabric.poll();
    while (completion === undefined && fabric.rest !== undefined) {
      fabric.rest();
      [completion] = fabric.poll();
    }
    believe(
      completion?.id === batch.tag,
      'INV-NIC-1',
      `batch ${batch.tag} of actor ${lane.initiator} has no completion`,
    );
    return completion.code === StatusCode.SUCCESS;
  }

  #connectionOf(local: SimRegion, remote: SimRegion): Connection {
    const [initiator, target] = [this.#actors.get(local.nic)!, this.#actors.get(remote.nic)!];
    const pair = initiator * this.#core.actorCount + target;
    let connection = this.#connections.get(pair);
    if (connection === undefined) {
      connection = this.#core.spec.fabric.connect(
        this.#places[initiator]!.region,
        this.#places[target]!.region,
      );
      this.#connections.set(pair, connection);
    }
    return connection;
  }

  // --- telling -------------------------------------------------------------------------------------------------------

  /** Batches that ended while their poster was busy with something else. */
  #tellLater(rank: RankEngine): void {
    for (const open of takeUntold(rank)) this.#seeLater(rank.actor, { kind: 'ended', open });
  }

  /** In order within a completion queue. */
  #seeLater(actor: ActorId, event: Exclude<NicEvent, { kind: 'timer' }>): void {
    const core = this.#core;
    if (core.isDead(actor)) return;
    const open = event.kind === 'overflow' ? null : event.open;
    const kind = open === null ? idOfName(ENTRY) : open.batch.layer;
    const other = event.kind === 'entry' ? event.completion.qpn : 0;
    const object = open === null ? other : open.batch.transfer;
    const held = core.delay(DRAW.completeDelay, core.keys.actors[actor]!, kind, object);
    let at = core.now + SEEN_MICROS + held;
    if (event.kind === 'entry') {
      const { qpn } = event.completion;
      while (this.#seenAt.length <= qpn) this.#seenAt.push(0);
      at = Math.max(at, this.#seenAt[qpn]!);
      this.#seenAt[qpn] = at;
    }
    core.push(EVENT.complete, actor, at, mix(object, kind), held, null, event);
  }

  /** The rank's engine and NIC have the world's time. */
  #wake(actor: ActorId): RankEngine {
    const rank = this.#rank(actor);
    this.#sim.nowNanos = this.#core.now * 1000;
    atTime(rank.engine, this.#core.now);
    return rank;
  }

  #nameOf(actor: ActorId): string {
    return this.#core.topology.actors[actor]!.name;
  }
}

/** A flight's own entries are about its batch; a receive is the target's. */
function aboutOf({ opcode }: WorkCompletion, { open }: Flight): OpenBatch | null {
  return opcode === 'data' ? open : null;
}

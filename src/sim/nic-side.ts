import { believe } from '../base/failure.ts';
import { below, finish, mix } from '../base/mix.ts';
import type { ActorId } from '../base/topology.ts';
import { StatusCode } from '../io/codes.ts';
import type { Connection, MemoryRegion } from '../io/fabric.ts';
import {
  bytesOf,
  createQueuePair,
  type Flight,
  landMicros,
  postBatch,
  type QueuePair,
  retire,
} from '../io/nic.ts';
import type { Effect, PostedBatch } from '../wire/machine.ts';
import type { Core } from './core.ts';
import { HAPPENING } from './ready-set.ts';
import type { NicFaultName } from './scenario.ts';
import { DRAW } from './tape.ts';

/** What the NIC does to a batch. The numbers are tape values: add at the end, never renumber. */
const NIC_FATE: { readonly [name in NicFaultName | 'none']: number } = {
  none: 0,
  error: 1,
  ackLost: 2,
  silent: 3,
  torn: 4,
  early: 5,
};

/** Between the two halves of a torn write. */
const TORN_MICROS = 12;

/** A batch that has ended, and how. */
export interface EndedFlight {
  readonly flight: Flight;
  readonly code: StatusCode;
}

/** The NICs of all ranks: queue pairs, batches on their way, and the fabric that moves the bytes when they land. */
export class NicSide {
  readonly #core: Core;
  readonly #regions = new Map<ActorId, MemoryRegion>();
  readonly #connections = new Map<number, Connection>();
  readonly #queuePairs = new Map<number, QueuePair[]>();
  /** Per (initiator, target): connections of an earlier epoch were fenced off. */
  readonly #epochs = new Map<number, number>();

  constructor(core: Core) {
    this.#core = core;
  }

  register(actor: ActorId, start: number, end: number): void {
    this.#regions.set(actor, this.#core.spec.fabric.registerMemory(actor, start, end));
  }

  /** Makes new queue pairs in place of the old ones, whose batches end with errors; of an old epoch they are no good. */
  connect(actor: ActorId, effect: Extract<Effect, { kind: 'connect' }>): void {
    const { peer, queuePairs: count, sendQueueDepth, epoch } = effect;
    const pair = actor * this.#core.actorCount + peer;
    this.#break(pair);
    const queuePairs = Array.from({ length: count }, (_, index) =>
      createQueuePair(actor, peer, index, sendQueueDepth),
    );
    for (const queuePair of queuePairs) queuePair.broken = epoch < (this.#epochs.get(pair) ?? 0);
    this.#queuePairs.set(pair, queuePairs);
    const connection = this.#core.spec.fabric.connect(this.#regions.get(actor)!, this.#regions.get(peer)!);
    this.#connections.set(pair, connection);
  }

  post(actor: ActorId, batch: PostedBatch): void {
    const core = this.#core;
    core.fold(mix(mix(batch.transfer, batch.layer), batch.runs.length));
    for (const run of batch.runs) core.fold(run);
    const flight = this.#accept(actor, batch);
    const { queuePair } = flight;
    // What is posted to a broken queue pair cannot land, so it endangers no block.
    flight.counts = !queuePair.broken;
    if (flight.counts) core.judge.posted(actor, batch);
    flight.fate = this.#drawFate(actor, batch);
    const held = core.delay(DRAW.landDelay, actor, batch.layer, batch.transfer);
    const at = Math.max(core.now + landMicros(core.spec.nic, batch) + held, queuePair.lastLandAt);
    queuePair.lastLandAt = at;
    core.push(HAPPENING.land, batch.peer, at, aboutBatch(batch), held, null, flight);
    if (flight.fate !== NIC_FATE.early || queuePair.broken) return;
    this.#endLater(flight, StatusCode.SUCCESS);
  }

  #drawFate(actor: ActorId, batch: PostedBatch): number {
    const { tape, profile, replaying, nicFaults } = this.#core.spec;
    if (!replaying && profile.nic === 0) return NIC_FATE.none;
    const occurrence = this.#core.occurrences.next(DRAW.nicFate, actor, batch.layer, batch.transfer);
    const pick = (hash: number): number => {
      if (below(hash, 64 >> profile.nic) !== 0 || nicFaults.length === 0) return NIC_FATE.none;
      return NIC_FATE[nicFaults[below(finish(hash), nicFaults.length)]!];
    };
    const fate = tape.choose(DRAW.nicFate, actor, batch.layer, batch.transfer, occurrence, pick);
    if (fate !== NIC_FATE.none) this.#core.judge.disturbed();
    return fate;
  }

  /** Takes the batch; one without a connection or beyond the send queue's depth will only ever end with an error. */
  #accept(actor: ActorId, batch: PostedBatch): Flight {
    const queuePair = this.#queuePairs.get(actor * this.#core.actorCount + batch.peer)?.[batch.queuePair];
    const flight = queuePair === undefined ? null : postBatch(queuePair, batch);
    if (flight !== null) return flight;
    const refused = createQueuePair(actor, batch.peer, batch.queuePair, batch.runs.length / 3);
    refused.broken = true;
    return postBatch(refused, batch)!;
  }

  /** The batch reaches its target; or not at all when the queue pair is broken or the target is gone. */
  land(flight: Flight): void {
    const core = this.#core;
    const { batch, queuePair } = flight;
    if (flight.landed) return;
    if (core.isDead(batch.peer) || flight.fate === NIC_FATE.error) queuePair.broken = true;
    const orphan = core.isDead(queuePair.initiator);
    // A dead initiator's writes may still be in the network; what it wanted to read has nowhere to go.
    if (queuePair.broken || (orphan && batch.operation === 'read')) return this.#endBadly(flight);
    if (!orphan) core.judge.landed(queuePair.initiator, batch);
    if (flight.fate === NIC_FATE.torn) return this.#landHalf(flight);
    const code = this.#move(queuePair.initiator, batch);
    this.#untouchable(flight);
    if (flight.fate === NIC_FATE.silent) queuePair.silent = true;
    if (code !== StatusCode.SUCCESS || flight.fate === NIC_FATE.ackLost) queuePair.broken = true;
    if (!queuePair.silent) this.#endLater(flight, queuePair.broken ? StatusCode.ERR_RDMA_OP : code);
  }

  /** The first half lands now; the other a little later, and whoever looks in between sees a torn write. */
  #landHalf(flight: Flight): void {
    const { batch, queuePair } = flight;
    const half = Math.ceil(batch.runs.length / 6) * 3;
    flight.fate = NIC_FATE.none;
    this.#move(queuePair.initiator, { ...batch, runs: batch.runs.slice(0, half) });
    const at = Math.max(this.#core.now + TORN_MICROS, queuePair.lastLandAt);
    queuePair.lastLandAt = at;
    this.#core.push(HAPPENING.land, batch.peer, at, aboutBatch(batch), TORN_MICROS, null, flight);
  }

  #endBadly(flight: Flight): void {
    this.#untouchable(flight);
    this.#endLater(flight, StatusCode.ERR_RDMA_OP);
  }

  /** Has the fabric move the bytes, and waits for it. */
  #move(initiator: ActorId, batch: PostedBatch): StatusCode {
    const { fabric, observer } = this.#core.spec;
    observer?.moved(bytesOf(batch));
    const connection = this.#connections.get(initiator * this.#core.actorCount + batch.peer)!;
    fabric.post(connection, batch.operation, batch.runs, batch.tag);
    let [completion] = fabric.poll();
    while (completion === undefined && fabric.rest !== undefined) {
      fabric.rest();
      [completion] = fabric.poll();
    }
    believe(
      completion?.id === batch.tag,
      'INV-NIC-1',
      `batch ${batch.tag} of actor ${initiator} has no completion`,
    );
    return completion.code;
  }

  /** The operation can touch nothing at the target from here on. */
  #untouchable(flight: Flight): void {
    if (flight.landed) return;
    flight.landed = true;
    if (flight.counts) this.#core.judge.remoteDone(flight.batch);
  }

  /** Its poster will hear of the end, after those of the same queue pair that ended before. */
  #endLater(flight: Flight, code: StatusCode): void {
    const core = this.#core;
    const { batch, queuePair } = flight;
    if (flight.ended) return;
    flight.ended = true;
    if (core.isDead(queuePair.initiator)) return this.retire({ flight, code });
    const held = core.delay(DRAW.completeDelay, queuePair.initiator, batch.layer, batch.transfer);
    const at = Math.max(core.now + core.spec.nic.completeMicros + held, queuePair.lastCompleteAt);
    queuePair.lastCompleteAt = at;
    const ended: EndedFlight = { flight, code };
    core.push(HAPPENING.complete, queuePair.initiator, at, aboutBatch(batch), held, null, ended);
  }

  /** The completion is seen; the slots are free again. */
  retire({ flight }: EndedFlight): void {
    retire(flight);
    if (flight.counts) this.#core.judge.localDone(flight.queuePair.initiator, flight.batch);
  }

  /** Resets the target's end: whatever has not landed by now ends with an error at the initiator. */
  fence(target: ActorId, initiator: ActorId, epoch: number): void {
    const pair = initiator * this.#core.actorCount + target;
    this.#epochs.set(pair, epoch);
    this.#break(pair);
  }

  /** Resets the initiator's end: the same, for completions that never came too. */
  reset(initiator: ActorId, target: ActorId): void {
    this.#break(initiator * this.#core.actorCount + target);
  }

  #break(pair: number): void {
    for (const queuePair of this.#queuePairs.get(pair) ?? []) {
      queuePair.broken = true;
      queuePair.silent = false;
      for (const flight of queuePair.inFlight) if (!flight.ended) this.#endBadly(flight);
    }
  }

  queuePairs(): QueuePair[] {
    return [...this.#queuePairs.values()].flat();
  }
}

function aboutBatch(batch: PostedBatch): number {
  return mix(mix(batch.transfer, batch.layer), batch.part);
}

import { believe } from '../base/failure.ts';
import { mix } from '../base/mix.ts';
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
import { DRAW } from './tape.ts';

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
    const held = core.delay(DRAW.landDelay, actor, batch.layer, batch.transfer);
    const at = Math.max(core.now + landMicros(core.spec.nic, batch) + held, queuePair.lastLandAt);
    queuePair.lastLandAt = at;
    core.push(HAPPENING.land, batch.peer, at, aboutBatch(batch), held, null, flight);
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

  /** The batch reaches its target, whole; or not at all when the queue pair is broken or the target is gone. */
  land(flight: Flight): void {
    const core = this.#core;
    const { batch, queuePair } = flight;
    if (flight.landed) return;
    if (core.isDead(batch.peer)) queuePair.broken = true;
    if (queuePair.broken) return this.#endLater(flight, StatusCode.ERR_RDMA_OP);
    const orphan = core.isDead(queuePair.initiator);
    // A dead initiator's writes may still be in the network; what it wanted to read has nowhere to go.
    if (orphan && batch.operation === 'read') return this.#endLater(flight, StatusCode.ERR_RDMA_OP);
    if (!orphan) core.judge.landed(queuePair.initiator, batch);
    const code = this.#move(queuePair.initiator, batch);
    if (code !== StatusCode.SUCCESS) queuePair.broken = true;
    this.#endLater(flight, code);
  }

  /** Has the fabric move the bytes, and waits for it. */
  #move(initiator: ActorId, batch: PostedBatch): StatusCode {
    const { fabric, observer } = this.#core.spec;
    observer?.moved(bytesOf(batch));
    const connection = this.#connections.get(initiator * this.#core.actorCount + batch.peer)!;
    fabric.post(connection, batch.operation, batch.runs, batch.tag);
    const [completion] = fabric.poll();
    believe(
      completion?.id === batch.tag,
      'INV-NIC-1',
      `batch ${batch.tag} of actor ${initiator} has no completion`,
    );
    return completion.code;
  }

  /** The operation can touch nothing at the target from here on; its poster will hear of it. */
  #endLater(flight: Flight, code: StatusCode): void {
    const core = this.#core;
    const { batch, queuePair } = flight;
    flight.landed = true;
    if (flight.counts) core.judge.remoteDone(batch);
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

  #break(pair: number): void {
    for (const queuePair of this.#queuePairs.get(pair) ?? []) {
      queuePair.broken = true;
      for (const flight of queuePair.inFlight)
        if (!flight.landed) this.#endLater(flight, StatusCode.ERR_RDMA_OP);
    }
  }

  queuePairs(): QueuePair[] {
    return [...this.#queuePairs.values()].flat();
  }
}

function aboutBatch(batch: PostedBatch): number {
  return mix(mix(batch.transfer, batch.layer), batch.part);
}

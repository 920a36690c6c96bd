import { StatusCode } from '../../io/codes.ts';
import type { Completion, Connection, Fabric, MemoryRegion } from '../../io/fabric.ts';
import { DIRECTIONS, QUEUE_PAIRS } from './classes.ts';
import { GUARD_BYTES, REGION_BYTES } from './drawing.ts';
import { FIRST_COMPARED, type Image } from './image.ts';
import type { Chain } from './posting.ts';
import { type DifferenceKind, type Window, type Wrong, wrongOf } from './verdicts.ts';

/** A chain as a batch of the fabric, with what its targets have around them. */
export interface Batch {
  readonly chain: Chain;
  /** Bytes before and behind each run that nobody may touch: pairs. */
  readonly guards: readonly number[];
}

/** `in turn`: each batch is posted when the one before it has ended. `at once`: all of a round are, and then polled. */
export const PACES = ['in turn', 'at once'] as const;
export type Pace = (typeof PACES)[number];

/** One work request, or one batch, of which a fabric made something else than it should. */
export interface Difference extends Wrong {
  readonly pace: Pace;
  /** Of the seed's batches, from 0 on; -1 where no batch is to blame. */
  readonly batch: number;
  /** Of the batch's runs, from 0 on; -1 where the whole batch is meant. */
  readonly workRequest: number;
  readonly workRequests: number;
  readonly operation: Chain['operation'];
  readonly queuePair: number;
  readonly local: number;
  readonly remote: number;
  readonly bytes: number;
  /** Null where bytes differ. */
  readonly code: StatusCode | null;
}

/** The two regions of a side's memory, and the fabric that moves bytes between them. */
export interface Arena {
  readonly fabric: Fabric;
  readonly near: Uint8Array;
  readonly far: Uint8Array;
  readonly connections: readonly Connection[];
  nextId: number;
}

export function openArena(
  fabric: Fabric,
  bytes: Uint8Array,
  [nearAt, farAt]: readonly [number, number],
): Arena {
  const [near, far] = [nearAt, farAt].map((start, owner) =>
    fabric.registerMemory(owner, start, start + REGION_BYTES),
  ) as [MemoryRegion, MemoryRegion];
  return {
    fabric,
    near: bytes.subarray(nearAt, nearAt + REGION_BYTES),
    far: bytes.subarray(farAt, farAt + REGION_BYTES),
    connections: Array.from({ length: QUEUE_PAIRS }, (_, queuePair) => fabric.connect(near, far, queuePair)),
    nextId: 1,
  };
}

/** Polls without a `rest`, after which a completion is not thought to come. */
const POLLS_MAX = 1000;
/** Of a round: a fabric that is wrong everywhere needs no list of everything. */
const DIFFERENCES_MAX = 8;

interface Open {
  readonly index: number;
  readonly batch: Batch;
}

/** One round over one fabric: every target is looked at when its completion is there, and all bytes at the end. */
export class RoundRun {
  readonly #arena: Arena;
  readonly #image: Image;
  readonly #pace: Pace;
  readonly #open = new Map<number, Open>();
  readonly differences: Difference[] = [];
  count = 0;
  ended = 0;

  constructor(arena: Arena, image: Image, pace: Pace) {
    this.#arena = arena;
    this.#image = image;
    this.#pace = pace;
  }

  /** `firstIndex` is the number of the first batch in its seed. */
  run(batches: readonly Batch[], firstIndex: number): void {
    const { near, far } = this.#arena;
    const { before, remoteAt, bytes } = this.#image;
    near.set(before.subarray(0, remoteAt));
    far.set(before.subarray(remoteAt, bytes));
    for (const [nth, batch] of batches.entries()) {
      this.#post({ index: firstIndex + nth, batch });
      if (this.#pace === 'in turn') this.#awaitAll();
    }
    this.#awaitAll();
    if (this.count > 0) this.#lookAgain();
    else this.#compareAll();
  }

  #post(open: Open): void {
    const { fabric, connections } = this.#arena;
    const { chain } = open.batch;
    const id = this.#arena.nextId++;
    this.#open.set(id, open);
    fabric.post(connections[chain.queuePair]!, chain.operation, chain.runs, id);
  }

  #awaitAll(): void {
    const { fabric } = this.#arena;
    for (let fruitless = 0; this.#open.size > 0; ) {
      const ended = fabric.poll();
      for (const completion of ended) this.#take(completion);
      if (ended.length > 0) fruitless = 0;
      else if (fabric.rest !== undefined) fabric.rest();
      else if (++fruitless > POLLS_MAX) this.#giveUp();
    }
  }

  #take({ id, code }: Completion): void {
    const open = this.#open.get(id);
    if (open === undefined) return this.#blame('unknown completion', null, code);
    this.#open.delete(id);
    this.ended++;
    if (code !== StatusCode.SUCCESS) return this.#blame('status', open, code);
    const { chain, guards } = open.batch;
    for (let run = 0; run < chain.runs.length / 3; run++) {
      const window = this.#windowOf(chain, guards, run);
      if (Buffer.compare(window.actual, window.expected) !== 0) this.#note(open, run, wrongOf(window));
    }
  }

  #giveUp(): void {
    for (const open of this.#open.values()) this.#blame('no completion', open, null);
    this.#open.clear();
  }

  #windowOf({ operation, runs }: Chain, guards: readonly number[], run: number): Window {
    const { near, far } = this.#arena;
    const { after, remoteAt } = this.#image;
    const isWrite = operation === 'write';
    const [local, remote, bytes] = [runs[run * 3]!, runs[run * 3 + 1]!, runs[run * 3 + 2]!];
    const target = isWrite ? remote : local;
    const from = target - guards[run * 2]!;
    const to = target + bytes + guards[run * 2 + 1]!;
    const base = isWrite ? remoteAt : 0;
    return {
      actual: (isWrite ? far : near).subarray(from, to),
      expected: after.subarray(base + from, base + to),
      start: target - from,
      bytes,
      source: isWrite ? near : far,
    };
  }

  #note(open: Open, run: number, wrong: Wrong, code: StatusCode | null = null): void {
    this.count++;
    if (this.differences.length >= DIFFERENCES_MAX) return;
    const { operation, queuePair, runs } = open.batch.chain;
    this.differences.push({
      ...wrong,
      pace: this.#pace,
      batch: open.index,
      workRequest: run,
      workRequests: runs.length / 3,
      operation,
      queuePair,
      local: runs[run * 3] ?? 0,
      remote: runs[run * 3 + 1] ?? 0,
      bytes: runs[run * 3 + 2] ?? 0,
      code,
    });
  }

  #blame(kind: DifferenceKind, open: Open | null, code: StatusCode | null): void {
    const nobody: Chain = { transfer: null!, operation: 'write', queuePair: -1, runs: [], lists: [] };
    const wrong = { kind, at: 0, count: 0, expected: 0, actual: 0, from: null };
    this.#note(open ?? { index: -1, batch: { chain: nobody, guards: [] } }, -1, wrong, code);
  }

  /**
   * Bytes that were missing may have come since: a fabric that holds them back lets go of them at the latest when there is
   * something else to do.
   */
  #lookAgain(): void {
    this.#probe();
    for (const [at, difference] of this.differences.entries()) {
      const { code, workRequest, batch, operation, local, remote, bytes } = difference;
      if (code !== null || workRequest < 0 || batch < 0) continue;
      const chain = { operation, runs: [local, remote, bytes] } as unknown as Chain;
      const { actual, expected } = this.#windowOf(chain, [0, 0], 0);
      if (difference.kind !== 'overrun' && Buffer.compare(actual, expected) === 0)
        this.differences[at] = { ...difference, kind: 'early completion', from: null };
    }
  }

  /** One byte each way over each queue pair, at a place that is not compared. */
  #probe(): void {
    const { fabric, connections } = this.#arena;
    for (const connection of connections)
      for (const operation of DIRECTIONS) {
        const id = this.#arena.nextId++;
        fabric.post(
          connection,
          operation,
          [operation === 'write' ? 0 : 8, operation === 'write' ? 0 : 8, 1],
          id,
        );
        let ended: Completion[] = fabric.poll();
        for (let polls = 0; ended.every((one) => one.id !== id) && polls < POLLS_MAX; polls++) {
          if (ended.length === 0) fabric.rest?.();
          ended = fabric.poll();
        }
      }
  }

  /** Also what belongs to no target: sources, and the room between. */
  #compareAll(): void {
    const { near, far } = this.#arena;
    const { after, remoteAt, bytes } = this.#image;
    const sides = [
      [near, after.subarray(0, remoteAt)],
      [far, after.subarray(remoteAt, bytes)],
    ] as const;
    for (const [index, [region, expected]] of sides.entries()) {
      const actual = region.subarray(FIRST_COMPARED, expected.length);
      const wanted = expected.subarray(FIRST_COMPARED);
      if (Buffer.compare(actual, wanted) === 0) continue;
      const at = wanted.findIndex((byte, place) => byte !== actual[place]);
      this.#blame('stray bytes', null, null);
      const last = this.differences.at(-1)!;
      this.differences[this.differences.length - 1] = {
        ...last,
        operation: index === 0 ? 'read' : 'write',
        at: at + FIRST_COMPARED,
        count: wanted.reduce((sum, byte, place) => sum + (byte === actual[place] ? 0 : 1), 0),
        expected: wanted[at]!,
        actual: actual[at]!,
      };
    }
  }
}

/** The guards of each run: only where the transfer's own requests neither begin nor end beside it. */
export function batchOf(chain: Chain): Batch {
  const isWrite = chain.operation === 'write';
  const [starts, ends] = [new Set<number>(), new Set<number>()];
  for (const { local, remote, bytes } of chain.transfer.pieces) {
    const target = isWrite ? remote : local;
    starts.add(target);
    ends.add(target + bytes);
  }
  const guards: number[] = [];
  for (let at = 0; at < chain.runs.length; at += 3) {
    const target = chain.runs[isWrite ? at + 1 : at]!;
    const end = target + chain.runs[at + 2]!;
    guards.push(
      starts.has(target) && !ends.has(target) ? GUARD_BYTES : 0,
      ends.has(end) && !starts.has(end) ? GUARD_BYTES : 0,
    );
  }
  return { chain, guards };
}

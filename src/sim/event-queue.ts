import type { Input } from '../wire/machine.ts';

/** What an event is. The numbers go into the digest: add at the end, never renumber. */
export const EVENT = {
  deliver: 0,
  timer: 1,
  turn: 2,
  joined: 3,
  land: 4,
  complete: 5,
  arrive: 6,
  abort: 7,
  crash: 8,
  lost: 9,
  stray: 10,
  down: 11,
  engineTimer: 12,
} as const;
export type WorldEventKind = (typeof EVENT)[keyof typeof EVENT];

/** Something that can be the next step of a run. */
export interface WorldEvent {
  readonly kind: WorldEventKind;
  /** The actor it happens to. */
  readonly actor: number;
  /** Virtual microseconds at which it happens. */
  readonly at: number;
  /** Insertion order; breaks ties, so that the plain run is first in, first out. */
  readonly order: number;
  /** Key of the event, for the digest: what it is about. */
  readonly about: number;
  /** The input its actor gets, or null when the world itself acts. */
  readonly input: Input | null;
  /** Batch, message or index that the world acts on. */
  readonly payload: unknown;
  /** The step that made it; -1 for the start of the run. */
  readonly cause: number;
  /** Microseconds by which a draw moved it; 0 in the plain run. */
  readonly heldMicros: number;
  /** Stopped timers stay in the heap and are passed over. */
  stopped: boolean;
}

/** A binary heap by (at, order): the next event is picked without a scan. */
export interface EventQueue {
  readonly size: number;
  push(event: WorldEvent): void;
  pop(): WorldEvent | undefined;
}

export function createEventQueue(): EventQueue {
  const heap: WorldEvent[] = [];
  return {
    get size() {
      return heap.length;
    },
    push(event) {
      let index = heap.length;
      heap.push(event);
      while (index > 0) {
        const parent = (index - 1) >> 1;
        if (!before(event, heap[parent]!)) break;
        heap[index] = heap[parent]!;
        index = parent;
      }
      heap[index] = event;
    },
    pop() {
      const first = heap[0];
      const last = heap.pop();
      if (first === undefined || last === undefined || heap.length === 0) return first;
      sink(heap, last);
      return first;
    },
  };
}

function sink(heap: WorldEvent[], event: WorldEvent): void {
  const { length } = heap;
  let index = 0;
  for (;;) {
    let child = 2 * index + 1;
    if (child >= length) break;
    if (child + 1 < length && before(heap[child + 1]!, heap[child]!)) child++;
    if (!before(heap[child]!, event)) break;
    heap[index] = heap[child]!;
    index = child;
  }
  heap[index] = event;
}

function before(left: WorldEvent, right: WorldEvent): boolean {
  return left.at < right.at || (left.at === right.at && left.order < right.order);
}

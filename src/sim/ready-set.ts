import type { Input } from '../wire/machine.ts';

/** What a happening is. The numbers go into the digest: add at the end, never renumber. */
export const HAPPENING = {
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
export type HappeningKind = (typeof HAPPENING)[keyof typeof HAPPENING];

/** Something that can be the next step of a run. */
export interface Happening {
  readonly kind: HappeningKind;
  /** The actor it happens to. */
  readonly actor: number;
  /** Virtual microseconds at which it happens. */
  readonly at: number;
  /** Insertion order; breaks ties, so that the plain run is first in, first out. */
  readonly order: number;
  /** Key of the happening, for the digest: what it is about. */
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

/** A binary heap by (at, order): the next happening is picked without a scan. */
export interface ReadySet {
  readonly size: number;
  push(happening: Happening): void;
  pop(): Happening | undefined;
}

export function createReadySet(): ReadySet {
  const heap: Happening[] = [];
  return {
    get size() {
      return heap.length;
    },
    push(happening) {
      let index = heap.length;
      heap.push(happening);
      while (index > 0) {
        const parent = (index - 1) >> 1;
        if (!before(happening, heap[parent]!)) break;
        heap[index] = heap[parent]!;
        index = parent;
      }
      heap[index] = happening;
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

function sink(heap: Happening[], happening: Happening): void {
  const { length } = heap;
  let index = 0;
  for (;;) {
    let child = 2 * index + 1;
    if (child >= length) break;
    if (child + 1 < length && before(heap[child + 1]!, heap[child]!)) child++;
    if (!before(heap[child]!, happening)) break;
    heap[index] = heap[child]!;
    index = child;
  }
  heap[index] = happening;
}

function before(left: Happening, right: Happening): boolean {
  return left.at < right.at || (left.at === right.at && left.order < right.order);
}

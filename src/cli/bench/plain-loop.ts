import { below, finish, mix } from '../../base/mix.ts';

/**
 * The yardstick of the world's speed: a plain loop with the duties that no step of a simulated world can do without, and nothing
 * else. Measured on the default mix (2,000 schedules), a step of the world pushes 1.08 events on a heap of 18, folds three
 * integers into the digest and makes one keyed draw; so does a step here. It shares no code with the world but the integer mixing:
 * who makes the world's heap faster must not move the yardstick.
 */

interface Event {
  readonly kind: number;
  readonly actor: number;
  readonly at: number;
  readonly order: number;
  readonly about: number;
  readonly cause: number;
  readonly held: number;
  readonly stopped: boolean;
}

const HEAP_EVENTS = 18;
/** One step in so many pushes a second event, which is popped and passed over, as a stopped timer is. */
const STOPPED_EVERY = 12;
const ACTORS = 8;
const KINDS = 12;

/** Runs `steps` steps and returns their digest, so that nothing of them can be left out. */
export function runPlainLoop(steps: number, seed: number): number {
  const heap: Event[] = [];
  let [order, low, high, now, taken] = [0, 0x243f6a88, 0x85a308d3, 0, 0];
  const fold = (value: number): void => {
    low = mix(low, value);
    high = mix(high, low ^ 0x13198a2e);
  };
  const follow = (step: number, stopped: boolean): void => {
    const [kind, actor, about] = [step % KINDS, (step * 5) % ACTORS, step >> 3];
    const hash = finish(mix(mix(mix(mix(mix(seed, kind), actor), about), step & 7), order));
    const held = (hash & 3) === 0 ? 1 + below(finish(hash), 64) : 0;
    push(heap, { kind, actor, at: now + 10 + held, order, about, cause: step - 1, held, stopped });
    order += 1;
  };
  while (heap.length < HEAP_EVENTS) follow(order, false);
  while (taken < steps) {
    const { kind, actor, at, about, stopped } = pop(heap);
    now = Math.max(now, at);
    if (stopped) continue;
    fold(mix(mix(mix(kind, actor), about), now));
    fold(about);
    fold(mix(kind, actor));
    taken += 1;
    follow(taken, false);
    if (taken % STOPPED_EVERY === 0) follow(taken, true);
  }
  return mix(low, high);
}

function push(heap: Event[], event: Event): void {
  let index = heap.length;
  heap.push(event);
  while (index > 0) {
    const parent = (index - 1) >> 1;
    if (!before(event, heap[parent]!)) break;
    heap[index] = heap[parent]!;
    index = parent;
  }
  heap[index] = event;
}

function pop(heap: Event[]): Event {
  const first = heap[0]!;
  const last = heap.pop()!;
  const { length } = heap;
  if (length === 0) return first;
  let index = 0;
  for (let child = 1; child < length; child = 2 * index + 1) {
    if (child + 1 < length && before(heap[child + 1]!, heap[child]!)) child += 1;
    if (!before(heap[child]!, last)) break;
    heap[index] = heap[child]!;
    index = child;
  }
  heap[index] = last;
  return first;
}

function before(left: Event, right: Event): boolean {
  return left.at < right.at || (left.at === right.at && left.order < right.order);
}

/**
 * Orders as libstdc++'s std::sort leaves them: quicksort around a median of three, which stops at runs of 16 and gives way
 * to a heap when it goes too deep, then one pass of insertions. What compares equal keeps its place up to 16 elements and
 * in general not above; the library posts in this order (mori-io.md A7).
 */

/** Whether the first element comes before the second. */
export type Before = (left: number, right: number) => boolean;

/** Runs of this length are left to the insertions at the end. */
const RUN = 16;

/** Indices 0 to count-1, sorted. */
export function introsort(count: number, before: Before): number[] {
  const items = Array.from({ length: count }, (_, index) => index);
  if (count < 2) return items;
  const depth = 2 * (31 - Math.clz32(count));
  partitionAll(items, depth, before);
  insertAll(items, before);
  return items;
}

/** Right parts are put off, left ones go on: each part is by itself, so their order does not matter. */
function partitionAll(items: number[], depth: number, before: Before): void {
  const parts: (readonly [first: number, end: number, depth: number])[] = [[0, items.length, depth]];
  for (let part = parts.pop(); part !== undefined; part = parts.pop()) {
    const [first, end, left] = part;
    if (end - first <= RUN) continue;
    if (left === 0) {
      heapSort(items, first, end, before);
      continue;
    }
    const cut = partition(items, first, end, before);
    parts.push([first, cut, left - 1], [cut, end, left - 1]);
  }
}

/** Puts the median of three in front and splits the rest around it; neither scan needs a bound, for the other two stop it. */
function partition(items: number[], first: number, end: number, before: Before): number {
  const middle = first + ((end - first) >> 1);
  swap(items, first, medianOf(items, first + 1, middle, end - 1, before));
  const pivot = items[first]!;
  let low = first + 1;
  let high = end;
  for (;;) {
    while (before(items[low]!, pivot)) low += 1;
    high -= 1;
    while (before(pivot, items[high]!)) high -= 1;
    if (low >= high) return low;
    swap(items, low, high);
    low += 1;
  }
}

function medianOf(items: readonly number[], a: number, b: number, c: number, before: Before): number {
  const less = (left: number, right: number): boolean => before(items[left]!, items[right]!);
  if (less(a, b)) return less(b, c) ? b : less(a, c) ? c : a;
  if (less(a, c)) return a;
  return less(b, c) ? c : b;
}

function swap(items: number[], left: number, right: number): void {
  const held = items[left]!;
  items[left] = items[right]!;
  items[right] = held;
}

function heapSort(items: number[], first: number, end: number, before: Before): void {
  const length = end - first;
  for (let parent = (length - 2) >> 1; parent >= 0; parent -= 1)
    settle(items, first, length, parent, items[first + parent]!, before);
  for (let last = length - 1; last > 0; last -= 1) {
    const value = items[first + last]!;
    items[first + last] = items[first]!;
    settle(items, first, last, 0, value, before);
  }
}

/** Moves a hole down to a leaf, always to the larger child, then lets the value rise from there. */
function settle(
  items: number[],
  first: number,
  length: number,
  from: number,
  value: number,
  before: Before,
): void {
  let hole = from;
  let child = 2 * hole + 2;
  for (; child < length; child = 2 * hole + 2) {
    if (before(items[first + child]!, items[first + child - 1]!)) child -= 1;
    items[first + hole] = items[first + child]!;
    hole = child;
  }
  if (child === length) {
    items[first + hole] = items[first + child - 1]!;
    hole = child - 1;
  }
  for (
    let parent = (hole - 1) >> 1;
    hole > from && before(items[first + parent]!, value);
    parent = (hole - 1) >> 1
  ) {
    items[first + hole] = items[first + parent]!;
    hole = parent;
  }
  items[first + hole] = value;
}

/** The smallest is among the first 16 by now, so only those may reach the front. */
function insertAll(items: number[], before: Before): void {
  for (let at = 1; at < items.length; at += 1) {
    const value = items[at]!;
    let hole = at;
    if (at < RUN && before(value, items[0]!)) {
      items.copyWithin(1, 0, at);
      hole = 0;
    } else for (; before(value, items[hole - 1]!); hole -= 1) items[hole] = items[hole - 1]!;
    items[hole] = value;
  }
}

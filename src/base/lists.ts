/**
 * What `push(...list)` and `Math.max(...list)` do, for lists of any length: an argument takes room on the engine's stack, which
 * ends at some hundred thousand of them.
 */

export function pushAll<T>(list: T[], more: Iterable<T>): void {
  for (const each of more) list.push(each);
}

/** `count` times `value`. `Array.fill` is a call into the runtime, which costs more than short lists themselves. */
export function filled(count: number, value: number): number[] {
  const list = new Array<number>(count);
  for (let at = 0; at < count; at++) list[at] = value;
  return list;
}

/** The greatest of some numbers and `floor`. */
export function greatest(values: ArrayLike<number>, floor = Number.NEGATIVE_INFINITY): number {
  let most = floor;
  for (let at = 0; at < values.length; at++) most = Math.max(most, values[at]!);
  return most;
}

/** The least of some numbers and `ceiling`. */
export function least(values: ArrayLike<number>, ceiling = Number.POSITIVE_INFINITY): number {
  let fewest = ceiling;
  for (let at = 0; at < values.length; at++) fewest = Math.min(fewest, values[at]!);
  return fewest;
}

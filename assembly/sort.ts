// Stable radix sort of pairs: a 64-bit word whose upper half is the key and whose lower half goes with it.

/** Bits of one digit at most: 4,096 counters of four bytes are half a first-level cache. */
const DIGIT_BITS_MAX: u32 = 12;
const DIGIT_BITS_MIN: u32 = 6;
/** Bytes of counters that `sortPairs` needs. */
export const COUNTER_BYTES: u32 = 4 << DIGIT_BITS_MAX;

/**
 * Sorts `count` pairs at `pairs` by those bits of the key that `varying` names; the others are the same in all
 * of them. `spare` has the size of `pairs`. Returns where the sorted pairs lie: `pairs` or `spare`.
 */
export function sortPairs(pairs: usize, spare: usize, counters: usize, count: u32, varying: u32): usize {
  if (varying == 0) return pairs;
  let shift: u64 = 32 + ctz<u32>(varying);
  const bits: u32 = 64 - <u32>shift - clz<u32>(varying);
  const digitBitsMax = min<u32>(max<u32>(32 - clz<u32>(count), DIGIT_BITS_MIN), DIGIT_BITS_MAX);
  const passes = (bits + digitBitsMax - 1) / digitBitsMax;
  const digitBits = (bits + passes - 1) / passes;
  let from = pairs;
  let to = spare;
  for (let pass: u32 = 0; pass < passes; pass++, shift += digitBits) {
    scatter(from, to, counters, count, shift, digitBits);
    const swap = from;
    from = to;
    to = swap;
  }
  return from;
}

/** One pass: pairs in the order of one digit, equal digits in the order they had. */
function scatter(from: usize, to: usize, counters: usize, count: u32, shift: u64, digitBits: u32): void {
  const mask: u32 = (1 << digitBits) - 1;
  const end = from + (<usize>count << 3);
  memory.fill(counters, 0, <usize>4 << digitBits);
  for (let at = from; at < end; at += 8) {
    const counter = counters + ((<u32>(load<u64>(at) >>> shift) & mask) << 2);
    store<u32>(counter, load<u32>(counter) + 1);
  }
  let next: u32 = <u32>to;
  for (let digit: u32 = 0; digit <= mask; digit++) {
    const counter = counters + (<usize>digit << 2);
    const here = load<u32>(counter);
    store<u32>(counter, next);
    next += here << 3;
  }
  for (let at = from; at < end; at += 8) {
    const pair = load<u64>(at);
    const counter = counters + ((<u32>(pair >>> shift) & mask) << 2);
    const slot = load<u32>(counter);
    store<u32>(counter, slot + 8);
    store<u64>(slot, pair);
  }
}

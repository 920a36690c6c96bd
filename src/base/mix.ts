/**
 * Counter-based integer mixing. No state and no floats: a value depends on the seed and the key alone, so a draw
 * added in one place moves no draw in another. All results are unsigned 32-bit integers.
 */

/** Folds one more integer into a hash. */
export function mix(hash: number, value: number): number {
  let h = Math.imul(hash ^ value, 0x9e3779b1);
  h = Math.imul(h ^ (h >>> 15), 0x85ebca6b);
  return (h ^ (h >>> 13)) >>> 0;
}

/** The closing scramble, so that neighbouring keys give unrelated values. */
export function finish(hash: number): number {
  let h = Math.imul(hash ^ (hash >>> 16), 0x21f0aaad);
  h = Math.imul(h ^ (h >>> 15), 0x735a2d97);
  return (h ^ (h >>> 15)) >>> 0;
}

/** A value below `bound` (1 to 2^32), from a finished 32-bit hash; the product stays exact below 2^53 for bounds up to 2^21. */
export function below(hash: number, bound: number): number {
  return bound <= 0x200000
    ? Math.floor((hash * bound) / 0x1_0000_0000)
    : Number((BigInt(hash) * BigInt(bound)) >> 32n);
}

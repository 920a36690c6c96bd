/** Words of a cell after its first one, which `stampOf` gives. */

/** Added to the stamp from each word of a cell to the next, so that shifted or swapped words do not match. */
export const STAMP_WORD_STEP = 0x9e3779b9;

/** Word `index` of a cell with this stamp, unsigned. */
export function stampWord(stamp: number, index: number): number {
  return (stamp + Math.imul(index, STAMP_WORD_STEP)) >>> 0;
}

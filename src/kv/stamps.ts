import { finish, mix } from '../base/mix.ts';

/** Added to the stamp from each word of a cell to the next, so that shifted or swapped words do not match. */
export const STAMP_WORD_STEP = 0x9e3779b9;

/**
 * The stamp of one cell: its first word, unsigned. `lineage` is the word that names the request's content up
 * to this position, `kv` 0 for K and 1 for V, `head` the model's number of the head, whichever rank holds it.
 */
export function stampOf(lineage: number, layer: number, kv: number, head: number): number {
  return finish(mix(mix(lineage, layer * 2 + kv), head));
}

/** Word `index` of a cell with this stamp, unsigned. */
export function stampWord(stamp: number, index: number): number {
  return (stamp + Math.imul(index, STAMP_WORD_STEP)) >>> 0;
}

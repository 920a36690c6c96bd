import { finish, mix } from '../base/mix.ts';

/**
 * The stamp of one cell: its first word, unsigned. `lineage` is the word that names the request's content up
 * to this position, `kv` 0 for K and 1 for V, `head` the model's number of the head, whichever rank holds it.
 */
export function stampOf(lineage: number, layer: number, kv: number, head: number): number {
  return finish(mix(mix(lineage, layer * 2 + kv), head));
}

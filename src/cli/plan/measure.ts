import { type LayerView, listedTokensOf } from '../../base/cache-view.ts';
import type { Range } from '../../report/plan-report.ts';
import { countWorkRequests } from './price.ts';
import { createRowPlanner, type LayerPair, type PartPair, type RowPlanner } from './row-planner.ts';
import { type BatchBounds, boundsOf, piecesOf, rememberingCuts, roomFor, tooLarge, unitsOf } from './size.ts';

/** What two ranks move, counted. */
export interface Load {
  readonly runsBefore: number;
  readonly runs: number;
  readonly bytes: number;
  readonly workRequests: number;
}

/** What is known of a plan before its block lists are made. */
export interface Shape {
  /** Whether all layers go in one batch; else each is a batch. */
  readonly allLayersAtOnce: boolean;
  /** No two blocks of a list lie behind one another. */
  readonly scattered: boolean;
}

export interface Terms extends Shape {
  readonly mode: 'read' | 'write';
  readonly chunking: boolean;
  /** Block ids in order of the request's tokens. */
  readonly prefillBlocks: readonly number[];
  readonly decodeBlocks: readonly number[];
}

/** The planner of all measures with the same block lists, with room for the rows of the largest batch. */
export function createRoom(
  { prefillBlocks, decodeBlocks }: Terms,
  batches: readonly BatchBounds[],
): RowPlanner {
  return createRowPlanner(prefillBlocks, decodeBlocks, roomFor(batches));
}

/** How large each batch of these layers will be. */
export function boundsOfBatches(
  layers: readonly LayerPair[],
  terms: Shape,
  cutsOf = rememberingCuts(),
): BatchBounds[] {
  return batchesOf(layers, terms.allLayersAtOnce).map(({ batch }) =>
    boundsOf(batch, terms.scattered, cutsOf),
  );
}

/**
 * Sums up all layers. Layers that lie alike and move as many tokens are planned once.
 * Returns why the engine refuses a batch, if it does.
 * @throws UsageError PLAN-SIZE
 */
export function measure(layers: readonly LayerPair[], terms: Terms, planner: RowPlanner): Load | string {
  const sum = { runsBefore: 0, runs: 0, bytes: 0, workRequests: 0 };
  for (const { batch, times } of batchesOf(layers, terms.allLayersAtOnce)) {
    const load = measureBatch(batch, terms, planner);
    if (typeof load === 'string') return load;
    sum.runsBefore += times * load.runsBefore;
    sum.runs += times * load.runs;
    sum.bytes += times * load.bytes;
    sum.workRequests += times * load.workRequests;
  }
  return sum;
}

interface Batches {
  readonly batch: readonly LayerPair[];
  times: number;
}

function batchesOf(layers: readonly LayerPair[], allAtOnce: boolean): Batches[] {
  if (allAtOnce) return [{ batch: layers, times: 1 }];
  const alike = new Map<number, Batches>();
  for (const layer of layers) {
    const known = alike.get(layer.tokens[0]);
    if (known === undefined) alike.set(layer.tokens[0], { batch: [layer], times: 1 });
    else known.times++;
  }
  return [...alike.values()];
}

function measureBatch(batch: readonly LayerPair[], terms: Terms, planner: RowPlanner): Load | string {
  const load = { runsBefore: 0, runs: 0, bytes: 0, workRequests: 0 };
  for (const layers of regionsOf(batch)) {
    const count = planAll(planner, layers);
    const merged = planner.merge(count);
    const runs = triplesOf(planner, merged);
    const posted = countWorkRequests(runs, terms.mode, terms.chunking);
    if (typeof posted === 'string') return posted;
    load.runs += merged;
    load.workRequests += posted;
    for (let at = 2; at < runs.length; at += 3) load.bytes += runs[at]!;
    load.runsBefore += countWithinBlocks(planner, layers);
  }
  return load;
}

/** The parts of a layer that lie in the same two regions. */
interface LayerParts {
  readonly layer: LayerPair;
  readonly pairs: PartPair[];
}

/** A batch by pairs of regions: rows of different regions are different lists. */
function regionsOf(batch: readonly LayerPair[]): LayerParts[][] {
  const lists = new Map<string, LayerParts[]>();
  for (const layer of batch) {
    const { prefill, decode } = layer;
    for (const part of prefill.parts) {
      const peer = decode.parts.find(({ name }) => name === part.name)!;
      const list = lists.get(`${part.region}/${peer.region}`) ?? [];
      lists.set(`${part.region}/${peer.region}`, list);
      const last = list.at(-1);
      if (last?.layer === layer) last.pairs.push({ prefill, decode, part, peer });
      else list.push({ layer, pairs: [{ prefill, decode, part, peer }] });
    }
  }
  return [...lists.values()];
}

/** All rows of the layers, one behind the other. @throws UsageError PLAN-SIZE */
function planAll(planner: RowPlanner, layers: readonly LayerParts[]): number {
  let count = 0;
  for (const { layer, pairs } of layers) {
    const appended = planner.append(pairs, ...unitsOf(layer.prefill, layer.tokens), count);
    if (appended === null)
      throw tooLarge(`one batch has more than the ${planner.capacity} runs that are planned`);
    count = appended;
  }
  return count;
}

/**
 * Runs when rows are joined only within one block of one layer. How the rows of a piece lie to one another depends on where
 * it lies in its two blocks and not on which blocks these are, so that one piece is counted for all that lie alike.
 */
function countWithinBlocks(planner: RowPlanner, layers: readonly LayerParts[]): number {
  let runs = 0;
  for (const { layer, pairs } of layers) {
    const { prefill, decode, tokens } = layer;
    for (const { from, to, times } of piecesOf(listedTokensOf(prefill), listedTokensOf(decode), tokens)) {
      const count = planner.append(pairs, ...unitsOf(prefill, [from, to]), 0);
      if (count === null)
        throw tooLarge(`a block has more than the ${planner.capacity} runs that are planned`);
      runs += times * (count > 1 ? planner.merge(count) : count);
    }
  }
  return runs;
}

/** Rows as the engine's rules read them: P offset, D offset, bytes. */
function triplesOf({ columns }: RowPlanner, count: number): Float64Array {
  const runs = new Float64Array(3 * count);
  columns.forEach((column, place) => {
    for (let row = 0; row < count; row++) runs[3 * row + place] = column[row]!;
  });
  return runs;
}

import { type LayerView, listedTokensOf } from '../../base/cache-view.ts';
import { UsageError } from '../../base/failure.ts';
import { least } from '../../base/lists.ts';
import type { Range } from '../../report/plan-report.ts';
import { countWorkRequests } from './price.ts';
import { createRowPlanner, type PartPair, type RowPlanner } from './row-planner.ts';

/** What two ranks move, counted. */
export interface Load {
  readonly runsBefore: number;
  readonly runs: number;
  readonly bytes: number;
  readonly workRequests: number;
}

/** A layer on both sides, and the tokens of it that move. */
export interface LayerPair {
  readonly prefill: LayerView;
  readonly decode: LayerView;
  readonly tokens: Range;
}

export interface Terms {
  readonly mode: 'read' | 'write';
  readonly chunking: boolean;
  /** Block ids in order of the request's tokens. */
  readonly prefillBlocks: readonly number[];
  readonly decodeBlocks: readonly number[];
  /** Whether all layers go in one batch; else each is a batch. */
  readonly allLayersAtOnce: boolean;
}

/** The planner of all measures with the same block lists: it has room for the longest list of rows so far. */
export interface Room {
  planner: RowPlanner;
}

/** Rows that fit at first; a longer list starts over with room for four times as many. */
const ROWS_FIRST = 65_536;

export function createRoom({ prefillBlocks, decodeBlocks }: Terms): Room {
  return { planner: createRowPlanner(prefillBlocks, decodeBlocks, ROWS_FIRST) };
}

/** More runs than this in one batch are not planned: they would not fit in memory. */
const RUNS_MAX = 16_000_000;

/**
 * Sums up all layers. Layers that lie alike and move as many tokens are planned once.
 * Returns why the engine refuses a batch, if it does.
 * @throws UsageError PLAN-SIZE
 */
export function measure(layers: readonly LayerPair[], terms: Terms, room: Room): Load | string {
  const sum = { runsBefore: 0, runs: 0, bytes: 0, workRequests: 0 };
  for (const { batch, times } of batchesOf(layers, terms.allLayersAtOnce)) {
    const load = measureBatch(batch, terms, room);
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

function measureBatch(batch: readonly LayerPair[], terms: Terms, room: Room): Load | string {
  const load = { runsBefore: 0, runs: 0, bytes: 0, workRequests: 0 };
  for (const layers of regionsOf(batch)) {
    const { planner, count } = planWithRoom(layers, terms, room);
    const merged = planner.merge(count);
    const runs = triplesOf(planner, merged);
    const posted = countWorkRequests(runs, terms.mode, terms.chunking);
    if (typeof posted === 'string') return posted;
    load.runs += merged;
    load.workRequests += posted;
    for (let at = 2; at < runs.length; at += 3) load.bytes += runs[at]!;
    load.runsBefore += countWithinBlocks(planner, batch, layers);
    if (load.runsBefore > RUNS_MAX) throw new UsageError('PLAN-SIZE', TOO_MANY);
  }
  return load;
}

const TOO_MANY = `one batch has more than the ${RUNS_MAX} runs that are planned: give fewer --tokens`;

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

/** All rows of the layers, in as much room as they take. @throws UsageError PLAN-SIZE */
function planWithRoom(
  layers: readonly LayerParts[],
  { prefillBlocks, decodeBlocks }: Terms,
  room: Room,
): { readonly planner: RowPlanner; readonly count: number } {
  for (;;) {
    const { planner } = room;
    const count = planAll(planner, layers);
    if (count !== null) return { planner, count };
    if (planner.capacity > RUNS_MAX) throw new UsageError('PLAN-SIZE', TOO_MANY);
    room.planner = createRowPlanner(prefillBlocks, decodeBlocks, planner.capacity * 4);
  }
}

/** All rows of the layers, one behind the other; null when there is no room. */
function planAll(planner: RowPlanner, layers: readonly LayerParts[]): number | null {
  let count: number | null = 0;
  for (const { layer, pairs } of layers) {
    if (count !== null) count = planner.append(pairs, ...unitsOf(layer, layer.tokens), count);
  }
  return count;
}

/** Runs when rows are joined only within one block of one layer. */
function countWithinBlocks(
  planner: RowPlanner,
  batch: readonly LayerPair[],
  layers: readonly LayerParts[],
): number {
  let runs = 0;
  for (const [from, to] of piecesOf(batch)) {
    for (const { layer, pairs } of layers) {
      const first = Math.max(from, layer.tokens[0]);
      if (first >= to) continue;
      const count = planner.append(pairs, ...unitsOf(layer, [first, to]), 0);
      runs += count === null ? RUNS_MAX + 1 : planner.merge(count);
    }
    if (runs > RUNS_MAX) return runs;
  }
  return runs;
}

function unitsOf({ prefill }: LayerPair, [from, to]: Range): Range {
  return [Math.floor(from / prefill.unitTokens), Math.ceil(to / prefill.unitTokens)];
}

/** Rows as the engine's rules read them: P offset, D offset, bytes. */
function triplesOf({ columns }: RowPlanner, count: number): number[] {
  const [local, remote, bytes] = columns;
  const runs: number[] = [];
  for (let row = 0; row < count; row++) runs.push(local[row]!, remote[row]!, bytes[row]!);
  return runs;
}

/** The tokens that move, cut at each border of a block on either side. */
function* piecesOf(batch: readonly LayerPair[]): Generator<Range> {
  const [{ prefill, decode }] = batch as [LayerPair];
  const sizes = [prefill, decode].map(listedTokensOf);
  const to = batch[0]!.tokens[1];
  for (let token = least(batch.map(({ tokens }) => tokens[0])); token < to; ) {
    const next = least(
      sizes.map((size) => (Math.floor(token / size) + 1) * size),
      to,
    );
    yield [token, next];
    token = next;
  }
}

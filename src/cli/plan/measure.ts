import { type LayerView, listedTokensOf } from '../../base/cache-view.ts';
import { UsageError } from '../../base/failure.ts';
import { mergeRows } from '../../kv/merge.ts';
import { planPart } from '../../kv/plan.ts';
import type { Range } from '../../report/plan-report.ts';
import { countWorkRequests } from './price.ts';

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

/** More runs than this in one batch are not planned: they would not fit in memory. */
const RUNS_MAX = 16_000_000;

/**
 * Sums up all layers. Layers that lie alike and move as many tokens are planned once.
 * Returns why the engine refuses a batch, if it does.
 * @throws UsageError PLAN-SIZE
 */
export function measure(layers: readonly LayerPair[], terms: Terms): Load | string {
  const sum = { runsBefore: 0, runs: 0, bytes: 0, workRequests: 0 };
  for (const { batch, times } of batchesOf(layers, terms.allLayersAtOnce)) {
    const load = measureBatch(batch, terms);
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

function measureBatch(batch: readonly LayerPair[], terms: Terms): Load | string {
  const { runsBefore, lists } = planBatch(batch, terms);
  const load = { runsBefore, runs: 0, bytes: 0, workRequests: 0 };
  for (const rows of lists.values()) {
    const runs = mergeRows(rows);
    const posted = countWorkRequests(runs, terms.mode, terms.chunking);
    if (typeof posted === 'string') return posted;
    load.runs += runs.length / 3;
    load.workRequests += posted;
    for (let at = 2; at < runs.length; at += 3) load.bytes += runs[at]!;
  }
  return load;
}

/** Rows (P offset, D offset, bytes) of each two regions. */
type Lists = Map<string, number[]>;

/** The rows of a batch, joined within each block of each layer, and how many they are. */
function planBatch(batch: readonly LayerPair[], terms: Terms): { runsBefore: number; lists: Lists } {
  const lists: Lists = new Map();
  let runsBefore = 0;
  // Blocks outside layers: where all layers lie in one tensor the rows then come in its order.
  for (const [from, to] of piecesOf(batch)) {
    for (const layer of batch) {
      const piece: Lists = new Map();
      addRows(layer, terms, [Math.max(from, layer.tokens[0]), to], piece);
      for (const [regions, rows] of piece) {
        const joined = mergeRows(rows);
        runsBefore += joined.length / 3;
        if (runsBefore > RUNS_MAX)
          throw new UsageError(
            'PLAN-SIZE',
            `one batch has more than the ${RUNS_MAX} runs that are planned: give fewer --tokens`,
          );
        const list = lists.get(regions) ?? [];
        lists.set(regions, list);
        for (const word of joined) list.push(word);
      }
    }
  }
  return { runsBefore, lists };
}

/** The tokens that move, cut at each border of a block on either side. */
function* piecesOf(batch: readonly LayerPair[]): Generator<Range> {
  const [{ prefill, decode }] = batch as [LayerPair];
  const sizes = [prefill, decode].map(listedTokensOf);
  const to = batch[0]!.tokens[1];
  for (let token = Math.min(...batch.map(({ tokens }) => tokens[0])); token < to; ) {
    const next = Math.min(to, ...sizes.map((size) => (Math.floor(token / size) + 1) * size));
    yield [token, next];
    token = next;
  }
}

/** Adds the rows of some tokens of a layer. */
function addRows(layer: LayerPair, terms: Terms, [from, to]: Range, lists: Lists): void {
  const { prefill, decode } = layer;
  const { unitTokens } = prefill;
  const [unitFrom, unitTo] = [Math.floor(from / unitTokens), Math.ceil(to / unitTokens)];
  for (const part of prefill.parts) {
    const peer = decode.parts.find(({ name }) => name === part.name)!;
    const regions = `${part.region}/${peer.region}`;
    const rows = lists.get(regions) ?? [];
    lists.set(regions, rows);
    const here = { part, layer: prefill, blocks: terms.prefillBlocks, firstUnit: 0 };
    const there = { part: peer, layer: decode, blocks: terms.decodeBlocks, firstUnit: 0 };
    planPart(here, there, unitFrom, unitTo, rows);
  }
}

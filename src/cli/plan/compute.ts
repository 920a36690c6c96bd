import { greatest } from '../../base/lists.ts';
import { batchMicros, NICS } from '../../io/profiles.ts';
import { refusalOf } from '../../kv/refusal.ts';
import type { PlanPair, PlanReport, Range } from '../../report/plan-report.ts';
import { boundsOfBatches, createRoom, type Load, measure } from './measure.ts';
import { bytesPerToken, type CacheDtype, type ModelSpec } from './model-spec.ts';
import {
  cachesOf,
  laySide,
  type Meeting,
  meetingsOf,
  type Placement,
  type Side,
  stageOf,
  tpRefusal,
} from './ranks.ts';
import type { LayerPair } from './row-planner.ts';
import type { SideSpec } from './side-spec.ts';
import { refuseLargePlan, refuseManyPairs, rememberingCuts } from './size.ts';

export interface PlanRequest {
  readonly model: ModelSpec;
  readonly dtype: CacheDtype;
  readonly prefill: SideSpec;
  readonly decode: SideSpec;
  readonly tokens: number;
  readonly prefix: number;
  readonly mode: 'read' | 'write';
  readonly nic: keyof typeof NICS;
  readonly chunking: boolean;
  readonly placement: Placement;
  /** What moves of layers with a window: all tokens, or only those that D can still see. */
  readonly sliding: 'whole' | 'window';
}

/** @throws UsageError when the sides do not go with the model; a transfer that cannot be is a report that says so. */
export function planOf(request: PlanRequest): PlanReport {
  const { model, dtype, tokens, placement } = request;
  const prefill = laySide('--prefill', request.prefill, model, dtype, tokens, placement);
  const decode = laySide('--decode', request.decode, model, dtype, tokens, placement);
  const outcome = tpRefusal('P', prefill) ?? tpRefusal('D', decode) ?? priced(request, prefill, decode);
  const pairs = typeof outcome === 'string' ? [] : outcome;
  return {
    model: model.name,
    mode: request.mode,
    tokens,
    prefix: request.prefix,
    nic: request.nic,
    chunking: request.chunking,
    placement,
    prefill: prefill.plan,
    decode: decode.plan,
    bytesPerToken: bytesPerToken(model, prefill.dtype),
    pairs,
    totalBytes: pairs.reduce((sum, pair) => sum + pair.bytes, 0),
    slowestMicros: greatest(
      pairs.map((pair) => pair.micros),
      0,
    ),
    refused: typeof outcome === 'string' ? outcome : null,
    notes: notesOf(request, prefill, decode),
  };
}

/** Two ranks that talk, what they move, and which other pairs move as much. */
interface Talk {
  readonly meeting: Meeting;
  readonly layers: readonly LayerPair[];
  readonly share: string;
}

/**
 * Pairs of the same two stages and context ranks differ only in where their heads begin, which shifts every offset by as
 * much: the first one's load is that of all. Whether two views can be joined is asked for each pair.
 * @throws UsageError PLAN-SIZE before anything is planned
 */
function priced(request: PlanRequest, prefill: Side, decode: Side): PlanPair[] | string {
  const talks = talksOf(request, prefill, decode);
  if (typeof talks === 'string') return talks;
  const terms = {
    mode: request.mode,
    chunking: request.chunking,
    prefillBlocks: prefill.blocks,
    decodeBlocks: decode.blocks,
    allLayersAtOnce: prefill.crossLayer && decode.crossLayer,
    scattered: request.placement === 'scattered',
  };
  const firstOf = new Map(talks.toReversed().map((talk) => [talk.share, talk]));
  const cutsOf = rememberingCuts();
  const batches = [...firstOf.values()].flatMap(({ layers }) => boundsOfBatches(layers, terms, cutsOf));
  refuseLargePlan(batches);
  const planner = createRoom(terms, batches);
  const loads = new Map<string, Load>();
  const loaded: (Meeting & Load)[] = [];
  for (const { meeting, layers, share } of talks) {
    const load = loads.get(share) ?? measure(layers, terms, planner);
    if (typeof load === 'string') return load;
    loads.set(share, load);
    // Of context groups two ranks can meet further on than the prompt goes.
    if (load.runs > 0) loaded.push({ ...meeting, ...load });
  }
  return withTimes(request, loaded);
}

/** All pairs of ranks that talk, or why two of them cannot. */
function talksOf(request: PlanRequest, prefill: Side, decode: Side): Talk[] | string {
  const cachesOfP = remembering((rank) => cachesOf(prefill, rank));
  const cachesOfD = remembering((rank) => cachesOf(decode, rank));
  const meetings = meetingsOf(prefill, decode);
  refuseManyPairs(meetings.length, request.model.layers);
  const talks: Talk[] = [];
  for (const meeting of meetings) {
    const { prefillRank, decodeRank, layers, heads } = meeting;
    const here = within(cachesOfP(prefillRank), layers);
    const there = within(cachesOfD(decodeRank), layers);
    const cause = here.map((view, index) => refusalOf(view, there[index]!)).find((text) => text !== '');
    if (cause !== undefined) return `P${prefillRank} (here) and D${decodeRank} (the peer): ${cause}`;
    const stages = `${stageOf(prefill, prefillRank)}/${stageOf(decode, decodeRank)}`;
    const contexts = `${prefillRank % prefill.plan.dcp}/${decodeRank % decode.plan.dcp}`;
    const pairsOfLayers = here.map((view, index) => ({
      prefill: view,
      decode: there[index]!,
      tokens: tokensOf(request, view.layer),
    }));
    talks.push({ meeting, layers: pairsOfLayers, share: `${stages}/${contexts}/${heads[1] - heads[0]}` });
  }
  return talks;
}

function remembering<Value>(make: (rank: number) => Value): (rank: number) => Value {
  const made = new Map<number, Value>();
  return (rank) => {
    const value = made.get(rank) ?? make(rank);
    made.set(rank, value);
    return value;
  };
}

function within<Item extends { readonly layer: number }>(views: readonly Item[], [from, to]: Range): Item[] {
  return views.filter(({ layer }) => layer >= from && layer < to);
}

/** A layer with a window sees the last `window` tokens, the next one's own included. */
function tokensOf({ model, tokens, prefix, sliding }: PlanRequest, layer: number): Range {
  const window = model.windows[layer]!;
  return [sliding === 'window' && window > 0 ? Math.max(prefix, tokens - window) : prefix, tokens];
}

/** All pairs start together; the NIC at either end is shared by all pairs of its rank. */
function withTimes({ mode, nic }: PlanRequest, loaded: readonly (Meeting & Load)[]): PlanPair[] {
  const atP = totals(loaded, (pair) => pair.prefillRank);
  const atD = totals(loaded, (pair) => pair.decodeRank);
  return loaded.map((pair) => {
    const [here, there] = [atP.get(pair.prefillRank)!, atD.get(pair.decodeRank)!];
    const { workRequests } = mode === 'write' ? here : there;
    const bytes = Math.max(here.bytes, there.bytes);
    return { ...pair, micros: batchMicros(NICS[nic], mode, workRequests, bytes) };
  });
}

type Total = Pick<Load, 'bytes' | 'workRequests'>;

function totals(
  loaded: readonly (Meeting & Load)[],
  rankOf: (pair: Meeting) => number,
): ReadonlyMap<number, Total> {
  const sums = new Map<number, Total>();
  for (const pair of loaded) {
    const sum = sums.get(rankOf(pair)) ?? { bytes: 0, workRequests: 0 };
    const bytes = sum.bytes + pair.bytes;
    sums.set(rankOf(pair), { bytes, workRequests: sum.workRequests + pair.workRequests });
  }
  return sums;
}

function notesOf({ model, sliding }: PlanRequest, prefill: Side, decode: Side): string[] {
  const windowed = model.windows.filter((window) => window > 0).length;
  const layers = `${windowed} of ${model.layers} layers`;
  const notes: string[] = [];
  if (windowed > 0 && sliding === 'whole')
    notes.push(`${layers} see only a window and are moved whole; --sliding window moves the window alone`);
  if (windowed > 0 && sliding === 'window')
    notes.push(`${layers} see only a window; nothing else of them is moved`);
  if (prefill.crossLayer && decode.crossLayer)
    notes.push('all layers are one batch, posted after the last layer: both caches keep them in one tensor');
  return notes;
}

import { type LayerView, listedTokensOf, type PartView } from '../base/cache-view.ts';
import { UsageError } from '../base/failure.ts';
import { mergeRows } from './merge.ts';
import { inUnits, isCount, type LayerSide, planPart, planUnits, requireTokens } from './plan.ts';
import { refusalOf, reshardRefusal, TIED } from './refusal.ts';
import { contextsMeet } from './shares.ts';

/** One rank's caches. Which layers and heads it holds is read off its views: a PP range is not computed. */
export interface RankSide {
  readonly tpRank: number;
  readonly layers: readonly LayerView[];
}

export interface EngineSide {
  /** KV heads of the model. */
  readonly heads: number;
  /** Ranks of a stage, those of its context groups included. */
  readonly tpSize: number;
  readonly ranks: readonly RankSide[];
}

/** Two ranks that exchange something: indices of ranks, and the layers with the views of both. */
export interface RankPair {
  readonly source: number;
  readonly target: number;
  readonly layers: readonly { readonly source: LayerView; readonly target: LayerView }[];
}

/** A request's blocks in one cache group. */
export interface GroupBlocks {
  readonly blocks: readonly number[];
  /** The token, a block border, that `blocks[0]` begins with. After a prefix hit the target's list begins later. */
  readonly firstToken: number;
}

export interface Transfer {
  /** `write`: the local engine is the source; `read`: it is the target. */
  readonly operation: 'read' | 'write';
  readonly local: EngineSide;
  readonly remote: EngineSide;
  /** By cache group. */
  readonly localBlocks: readonly GroupBlocks[];
  readonly remoteBlocks: readonly GroupBlocks[];
  readonly tokenFrom: number;
  /** Tokens whose KV exists; the rest of the last block does not move. */
  readonly tokenTo: number;
}

/** What one rank moves to or from another one, between one region of each. */
export interface RankTransfer {
  readonly localRank: number;
  readonly remoteRank: number;
  readonly localRegion: number;
  readonly remoteRegion: number;
  /** Triples (local offset, remote offset, bytes), joined as far as possible, by local offset. */
  readonly runs: readonly number[];
}

/**
 * Which ranks exchange which layers, so that every target rank gets each of its heads and units of each of its layers
 * once. Of the ranks that hold copies of the same heads and units one serves a target, spread by the target's own rank. Source: layouts.md 7.6, 7.8.
 */
export function planRanks(source: EngineSide, target: EngineSide): RankPair[] {
  const pairing = pairingOf(source, target);
  return target.ranks.flatMap((rank, targetIndex) => {
    const layersFrom = new Map<number, { source: LayerView; target: LayerView }[]>();
    for (const view of rank.layers) {
      for (const found of sourcesOf(source, view, rank.tpRank, pairing)) {
        const layers = layersFrom.get(found.rank) ?? [];
        layers.push({ source: found.view, target: view });
        layersFrom.set(found.rank, layers);
      }
    }
    return [...layersFrom.entries()]
      .sort(([a], [b]) => a - b)
      .map(([sourceIndex, layers]) => ({ source: sourceIndex, target: targetIndex, layers }));
  });
}

/** The caches that have one layer number on either side: their forms, and the groups of each form. */
type Pairing = ReadonlyMap<string, ReadonlySet<string>>;

function pairingOf(source: EngineSide, target: EngineSide): Pairing {
  const seen = new Map<string, Set<string>>();
  const note = (key: string, value: string): void => {
    const values = seen.get(key);
    if (values === undefined) seen.set(key, new Set([value]));
    else values.add(value);
  };
  for (const [side, { ranks }] of [source, target].entries()) {
    for (const { layer, group, form } of ranks.flatMap(({ layers }) => layers)) {
      const content = contentOf(form);
      note(`${layer} ${content}`, `${side} ${group}`);
      note(`${layer}`, `${side} ${group} ${content}`);
    }
  }
  return seen;
}

/**
 * Whether the target's cache is filled from this one: the form tells caches of one layer apart, then the group. Where a
 * layer has one cache on either side these two are one another's, and whether they fit is for refusalOf.
 */
function isPeer(held: LayerView, wanted: LayerView, pairing: Pairing): boolean {
  if (held.layer !== wanted.layer) return false;
  if (pairing.get(`${wanted.layer}`)!.size <= 2 && isOnBoth(pairing.get(`${wanted.layer}`)!)) return true;
  const content = contentOf(wanted.form);
  if (contentOf(held.form) !== content) return false;
  const groups = pairing.get(`${wanted.layer} ${content}`)!;
  return held.group === wanted.group || (groups.size === 2 && isOnBoth(groups));
}

/** A form without the heads that it ties. */
function contentOf(form: string): string {
  return form.replace(TIED, '');
}

function isOnBoth(sides: ReadonlySet<string>): boolean {
  return new Set([...sides].map((side) => side[0])).size === 2;
}

interface Holder {
  readonly rank: number;
  readonly view: LayerView;
}

/** One holder of each share of the view's heads and units. */
function sourcesOf(source: EngineSide, wanted: LayerView, targetTpRank: number, pairing: Pairing): Holder[] {
  const holders = headHoldersOf(source, wanted, pairing).filter(({ view }) =>
    contextsMeet(view.context, wanted.context),
  );
  const shares = grouped(holders, ({ view: { headFirst, context } }) => {
    return `${headFirst} ${context.rank} ${context.ranks} ${context.interleaveUnits}`;
  });
  return shares.map((copies) => copies[targetTpRank % copies.length]!);
}

/** All ranks that hold some of the view's heads. */
function headHoldersOf(source: EngineSide, wanted: LayerView, pairing: Pairing): Holder[] {
  return source.ranks.flatMap(({ layers }, rank) => {
    const view = layers.find((held) => isPeer(held, wanted, pairing));
    return view !== undefined && headsMeet(view, wanted) ? [{ rank, view }] : [];
  });
}

function grouped<Item>(items: readonly Item[], keyOf: (item: Item) => string): Item[][] {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group === undefined) groups.set(keyOf(item), [item]);
    else group.push(item);
  }
  return [...groups.values()];
}

function headsMeet(a: LayerView, b: LayerView): boolean {
  return a.headFirst < b.headFirst + b.headCount && b.headFirst < a.headFirst + a.headCount;
}

/**
 * Why nothing can move from one engine to the other, or '' when every layer, head and unit of the target has a source that
 * it can be joined with. Source: layouts.md 7.9, 7.10.
 */
export function refusalOfEngines(source: EngineSide, target: EngineSide): string {
  const cause = splitRefusal(source) || splitRefusal(target);
  if (cause !== '') return cause;
  if (source.heads !== target.heads)
    return `${source.heads} KV heads at the source, ${target.heads} at the target`;
  const pairing = pairingOf(source, target);
  const ambiguous = ambiguity(source) || ambiguity(target);
  if (ambiguous !== '') return ambiguous;
  for (const { tpRank, layers } of target.ranks) {
    for (const view of layers) {
      const cause =
        reshardRefusal(view, source.tpSize, target.tpSize) || layerRefusal(source, view, tpRank, pairing);
      if (cause !== '') return cause;
    }
  }
  return '';
}

/** Two caches of a rank that nothing tells apart. */
function ambiguity({ ranks }: EngineSide): string {
  for (const { layers } of ranks) {
    const seen = new Set<string>();
    for (const { layer, group, form } of layers) {
      const key = `${layer} ${group} ${contentOf(form)}`;
      if (seen.has(key))
        return `layer ${layer}: two caches of group ${group} have the form '${form}' on one rank`;
      seen.add(key);
    }
  }
  return '';
}

/** Heads go over what context groups leave of the TP ranks. */
function splitRefusal({ heads, tpSize, ranks }: EngineSide): string {
  const groups = new Set(ranks.flatMap(({ layers }) => layers.map(({ context }) => context.ranks)));
  for (const size of groups.size === 0 ? [1] : groups) {
    if (tpSize % size !== 0) return `${tpSize} TP ranks are no whole number of context groups of ${size}`;
    const split = tpSize / size;
    if (heads % split !== 0 && split % heads !== 0)
      return `${heads} KV heads cannot be split over or replicated on ${split} TP ranks`;
  }
  return '';
}

function layerRefusal(source: EngineSide, view: LayerView, tpRank: number, pairing: Pairing): string {
  if (headHoldersOf(source, view, pairing).length === 0) {
    const held = source.ranks.flatMap(({ layers }) => layers).find((other) => isPeer(other, view, pairing));
    if (held === undefined) return `layer ${view.layer} is held by no rank of the source`;
    // Whoever holds other heads only may still differ in what matters more.
    return refusalOf(held, view) || headsMissing(view, 0);
  }
  for (const holder of sourcesOf(source, view, tpRank, pairing)) {
    const cause = refusalOf(holder.view, view);
    if (cause !== '') return cause;
  }
  const end = view.headFirst + view.headCount;
  let got = 0;
  for (const holders of grouped(
    headHoldersOf(source, view, pairing),
    (holder) => `${holder.view.headFirst}`,
  )) {
    const cause = contextRefusal(holders, view);
    if (cause !== '') return cause;
    const { headFirst, headCount } = holders[0]!.view;
    got += Math.min(end, headFirst + headCount) - Math.max(view.headFirst, headFirst);
  }
  return got === view.headCount ? '' : headsMissing(view, got);
}

/** Why some units of the view have no source, or several, among those who hold the same heads; or ''. */
function contextRefusal(holders: readonly Holder[], { layer, context }: LayerView): string {
  const { ranks, interleaveUnits } = holders[0]!.view.context;
  const held = new Set<number>();
  for (const { view } of holders) {
    if (view.context.ranks !== ranks || view.context.interleaveUnits !== interleaveUnits)
      return `layer ${layer}: the ranks of the source split the tokens of a head in unequal ways`;
    held.add(view.context.rank);
  }
  for (let rank = 0; rank < ranks; rank++) {
    if (!held.has(rank) && contextsMeet({ ranks, rank, interleaveUnits }, context))
      return `layer ${layer}: context rank ${rank} of ${ranks} is no rank of the source`;
  }
  return '';
}

function headsMissing({ layer, headCount }: LayerView, got: number): string {
  return `layer ${layer}: the source has ${got} of the ${headCount} heads that a target rank holds`;
}

/**
 * All that moves for one request: for every pair of ranks and of their regions the runs, ready to be posted. The range
 * of a group begins no earlier than its target's list: what lies before is there already.
 * @throws UsageError PLAN-RANGE when lists do not cover the range or begin within a block, name blocks that are not there, or a block of the
 *   target twice; PLAN-REFUSED with the cause when the engines do not fit together.
 */
export function planTransfer(transfer: Transfer): RankTransfer[] {
  const isWrite = transfer.operation === 'write';
  const { local, remote } = transfer;
  const [source, target] = isWrite ? [local, remote] : [remote, local];
  const cause = refusalOfEngines(source, target);
  if (cause !== '') throw new UsageError('PLAN-REFUSED', cause);
  const targetBlocks = isWrite ? transfer.remoteBlocks : transfer.localBlocks;
  for (const group of targetBlocks) refuseTwice(group.blocks);
  requireTokens(transfer.tokenFrom, transfer.tokenTo);
  for (const group of [...transfer.localBlocks, ...transfer.remoteBlocks]) requireIds(group);
  const planned = planRanks(source, target).flatMap((pair) => {
    const [localRank, remoteRank] = isWrite ? [pair.source, pair.target] : [pair.target, pair.source];
    const buckets: Buckets = new Map();
    for (const layer of pair.layers) {
      const [here, there] = isWrite ? [layer.source, layer.target] : [layer.target, layer.source];
      const range = { from: targetBlocks[layer.target.group]?.firstToken ?? 0, transfer };
      planPair(sideOf(here, transfer.localBlocks), sideOf(there, transfer.remoteBlocks), range, buckets);
    }
    return [...buckets.values()]
      .filter(({ runs }) => runs.length > 0)
      .map(({ localRegion, remoteRegion, runs }) => {
        return { localRank, remoteRank, localRegion, remoteRegion, runs: mergeRows(runs) };
      });
  });
  refuseOverlap(planned, isWrite);
  return planned;
}

function requireIds({ blocks, firstToken }: GroupBlocks): void {
  requireTokens(firstToken);
  for (const block of blocks)
    if (!isCount(block)) throw new UsageError('PLAN-RANGE', `block ${block} is no whole number from 0 on`);
}

/** Blocks of two groups over one region: bytes of the target that two runs would write. */
function refuseOverlap(planned: readonly RankTransfer[], isWrite: boolean): void {
  const byRegion = grouped(planned, ({ localRank, remoteRank, localRegion, remoteRegion }) =>
    isWrite ? `${remoteRank} ${remoteRegion}` : `${localRank} ${localRegion}`,
  );
  for (const transfers of byRegion) {
    const ranges: { from: number; to: number }[] = [];
    for (const { runs } of transfers)
      for (let i = 0; i < runs.length; i += 3) {
        const from = runs[isWrite ? i + 1 : i]!;
        ranges.push({ from, to: from + runs[i + 2]! });
      }
    ranges.sort((a, b) => a.from - b.from);
    for (let i = 1; i < ranges.length; i++)
      if (ranges[i]!.from < ranges[i - 1]!.to)
        throw new UsageError(
          'PLAN-RANGE',
          `byte ${ranges[i]!.from} of a region of the target is listed twice`,
        );
  }
}

/** Two sources for one target: what lies there in the end would be a matter of order. */
function refuseTwice(blocks: readonly number[]): void {
  const seen = new Set<number>();
  for (const block of blocks) {
    if (seen.has(block)) throw new UsageError('PLAN-RANGE', `block ${block} of the target is listed twice`);
    seen.add(block);
  }
}

function sideOf(layer: LayerView, groups: readonly GroupBlocks[]): LayerSide {
  const group = groups[layer.group];
  if (group === undefined)
    throw new UsageError(
      'PLAN-RANGE',
      `layer ${layer.layer} is of group ${layer.group}, which has no blocks`,
    );
  if (group.firstToken % listedTokensOf(layer) !== 0)
    throw new UsageError(
      'PLAN-RANGE',
      `token ${group.firstToken} begins no block of ${listedTokensOf(layer)} tokens`,
    );
  return { layer, ...group };
}

type Buckets = Map<string, { localRegion: number; remoteRegion: number; runs: number[] }>;

function planPair(
  localSide: LayerSide,
  remoteSide: LayerSide,
  { from, transfer }: { readonly from: number; readonly transfer: Transfer },
  buckets: Buckets,
): void {
  const { unitTokens } = localSide.layer;
  const local = inUnits(localSide, unitTokens);
  const remote = inUnits(remoteSide, unitTokens);
  const tokenFrom = Math.max(transfer.tokenFrom, from);
  if (tokenFrom >= transfer.tokenTo) return;
  const unitFrom = Math.floor(tokenFrom / unitTokens);
  const unitTo = Math.ceil(transfer.tokenTo / unitTokens);
  const pairs = partPairs(local.layer, remote.layer);
  const [first] = pairs;
  const together = pairs.every(
    ({ here, there }) => here.region === first!.here.region && there.region === first!.there.region,
  );
  if (together) return planUnits(local, remote, unitFrom, unitTo, bucketOf(buckets, first!));
  for (const pair of pairs) {
    const runs = bucketOf(buckets, pair);
    planPart({ ...local, part: pair.here }, { ...remote, part: pair.there }, unitFrom, unitTo, runs);
  }
}

interface PartPair {
  readonly here: PartView;
  readonly there: PartView;
}

function partPairs(local: LayerView, remote: LayerView): PartPair[] {
  return local.parts.map((here) => ({ here, there: remote.parts.find(({ name }) => name === here.name)! }));
}

function bucketOf(buckets: Buckets, { here, there }: PartPair): number[] {
  const key = `${here.region} ${there.region}`;
  const bucket = buckets.get(key) ?? { localRegion: here.region, remoteRegion: there.region, runs: [] };
  buckets.set(key, bucket);
  return bucket.runs;
}

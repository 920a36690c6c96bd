import type { LayerView, PartView } from '../base/cache-view.ts';
import { isCount } from '../base/checks.ts';
import { UsageError } from '../base/failure.ts';
import { mergeRows } from './merge.ts';
import {
  ambiguity,
  type CachesByLayer,
  cachesByLayer,
  type EngineSide,
  grouped,
  type Holder,
  headHolders,
  noPeers,
  type Peers,
  peersBetween,
  servers,
} from './pairing.ts';
import {
  cellsOfUnit,
  inUnits,
  type LayerSide,
  planPart,
  planUnits,
  requireRoom,
  requireTokens,
  requireWork,
} from './plan.ts';
import { contentOf, isOfOneRank, refusalOf, reshardRefusal } from './refusal.ts';
import { contextsMeet } from './shares.ts';
import { faultOf } from './soundness.ts';
import { RANKS_MAX } from './view.ts';

export type { EngineSide, RankSide } from './pairing.ts';

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
  const peers = peersBetween(cachesByLayer(source), cachesByLayer(target));
  return target.ranks.flatMap(({ tpRank, layers }, targetIndex) => {
    const layersFrom = new Map<number, { source: LayerView; target: LayerView }[]>();
    for (const view of layers) {
      for (const found of servers(headHolders(peers(view), view, tpRank), view, tpRank)) {
        const pairs = layersFrom.get(found.rank) ?? [];
        pairs.push({ source: found.view, target: view });
        layersFrom.set(found.rank, pairs);
      }
    }
    return [...layersFrom.entries()]
      .sort(([a], [b]) => a - b)
      .map(([sourceIndex, pairs]) => ({ source: sourceIndex, target: targetIndex, layers: pairs }));
  });
}

/**
 * Why nothing can move from one engine to the other, or '' when every layer, head and unit of the target has a source that
 * it can be joined with. Source: layouts.md 7.9, 7.10.
 */
export function refusalOfEngines(source: EngineSide, target: EngineSide): string {
  const cause =
    engineFault(source, 'of the source') ||
    engineFault(target, 'of the target') ||
    splitRefusal(source) ||
    splitRefusal(target);
  if (cause !== '') return cause;
  if (source.heads !== target.heads)
    return `${source.heads} KV heads at the source, ${target.heads} at the target`;
  const held = cachesByLayer(source);
  const peers = peersBetween(held, cachesByLayer(target));
  for (const { tpRank, layers } of target.ranks) {
    const cause = rankAmbiguity(layers);
    if (cause !== '') return cause;
    for (const view of layers) {
      const cause =
        reshardRefusal(view, source.tpSize, target.tpSize) || layerRefusal(held, peers, view, tpRank);
      if (cause !== '') return cause;
    }
  }
  return '';
}

/** What makes no sense whatever the peer is. */
function engineFault({ heads, tpSize, ranks }: EngineSide, whose: string): string {
  if (!isCount(heads) || heads < 1) return `${heads} KV heads ${whose} are no number of heads`;
  if (!isCount(tpSize) || tpSize < 1 || tpSize > RANKS_MAX) return `TP size ${tpSize} ${whose} is none`;
  for (const { tpRank, layers } of ranks) {
    if (!isCount(tpRank) || tpRank >= tpSize) return `TP rank ${tpRank} of ${tpSize} ${whose} is none`;
    for (const view of layers) {
      const fault = faultOf(view, whose);
      if (fault !== '') return `layer ${view.layer}: ${fault}`;
    }
  }
  return '';
}

/** Heads go over what context groups leave of the TP ranks. */
function splitRefusal({ heads, tpSize, ranks }: EngineSide): string {
  const split = ranks.flatMap(({ layers }) => layers.filter((view) => !isOfOneRank(view)));
  const groups = new Set(split.map(({ context }) => context.ranks));
  for (const size of groups.size === 0 ? [1] : groups) {
    if (tpSize % size !== 0) return `${tpSize} TP ranks are no whole number of context groups of ${size}`;
    const split = tpSize / size;
    if (heads % split !== 0 && split % heads !== 0)
      return `${heads} KV heads cannot be split over or replicated on ${split} TP ranks`;
  }
  return '';
}

function rankAmbiguity(layers: readonly LayerView[]): string {
  const caches = grouped(layers, ({ layer, group, form }) => `${layer} ${group} ${contentOf(form)}`);
  for (const views of caches) {
    const cause = ambiguity(views);
    if (cause !== '') return cause;
  }
  return '';
}

function layerRefusal(held: CachesByLayer, peers: Peers, view: LayerView, tpRank: number): string {
  const caches = peers(view);
  if (caches.length === 0) return noPeers(view, held.get(view.layer) ?? []);
  const holders = headHolders(caches, view, tpRank);
  // Whoever holds other heads only may still differ in what matters more.
  if (holders.length === 0) return refusalOf(caches[0]!.view, view) || headsMissing(view, 0);
  for (const { view: served } of servers(holders, view, tpRank)) {
    const cause = refusalOf(served, view);
    if (cause !== '') return cause;
  }
  for (const ofRank of grouped(holders, ({ rank }) => rank)) {
    const cause = ambiguity(ofRank.map((holder) => holder.view));
    if (cause !== '') return cause;
  }
  return coverRefusal(holders, view);
}

/** Why the heads that are held are not all of the view's, each once, or ''. */
function coverRefusal(holders: readonly Holder[], view: LayerView): string {
  const slices = grouped(holders, (holder) => holder.view.headFirst);
  slices.sort((a, b) => a[0]!.view.headFirst - b[0]!.view.headFirst);
  const end = view.headFirst + view.headCount;
  let [next, got] = [view.headFirst, 0];
  for (const slice of slices) {
    const { headFirst, headCount } = slice[0]!.view;
    const isUneven = slice.some((holder) => holder.view.headCount !== headCount);
    if (isUneven || (headFirst < next && slice !== slices[0]))
      return `layer ${view.layer}: the ranks of the source share its heads in unequal ways`;
    const cause = contextRefusal(slice, view);
    if (cause !== '') return cause;
    got += Math.min(end, headFirst + headCount) - Math.max(view.headFirst, headFirst);
    next = headFirst + headCount;
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
 * @throws UsageError PLAN-RANGE when lists do not cover the range or begin within a block, name blocks that are not there,
 *   or bytes of the target twice; PLAN-REFUSED with the cause when the engines do not fit together; PLAN-SIZE.
 */
export function planTransfer(transfer: Transfer): RankTransfer[] {
  const isWrite = transfer.operation === 'write';
  const { local, remote } = transfer;
  const [source, target] = isWrite ? [local, remote] : [remote, local];
  const cause = refusalOfEngines(source, target);
  if (cause !== '') throw new UsageError('PLAN-REFUSED', cause);
  requireTokens(transfer.tokenFrom, transfer.tokenTo);
  requireLists(local, transfer.localBlocks);
  requireLists(remote, transfer.remoteBlocks);
  const targetBlocks = isWrite ? transfer.remoteBlocks : transfer.localBlocks;
  for (const group of targetBlocks) refuseTwice(group.blocks);
  const pairs = planRanks(source, target);
  refuseMuchWork(pairs, transfer);
  let rows = 0;
  const planned = pairs.flatMap((pair) => {
    const [localRank, remoteRank] = isWrite ? [pair.source, pair.target] : [pair.target, pair.source];
    const buckets: Buckets = new Map();
    for (const layer of pair.layers) {
      const [here, there] = isWrite ? [layer.source, layer.target] : [layer.target, layer.source];
      const range = { from: targetBlocks[layer.target.group]?.firstToken ?? 0, transfer };
      planPair(sideOf(here, transfer.localBlocks), sideOf(there, transfer.remoteBlocks), range, buckets);
    }
    const moved: RankTransfer[] = [];
    for (const { localRegion, remoteRegion, runs } of buckets.values()) {
      if (runs.length === 0) continue;
      moved.push({ localRank, remoteRank, localRegion, remoteRegion, runs: mergeRows(runs) });
      rows += moved.at(-1)!.runs.length / 3;
      requireRoom(rows);
    }
    return moved;
  });
  refuseOverlap(planned, isWrite);
  return planned;
}

/** @throws UsageError PLAN-RANGE when a list begins nowhere or names what is no block of its group's caches. */
function requireLists({ ranks }: EngineSide, groups: readonly GroupBlocks[]): void {
  const counts = new Map<number, number>();
  for (const { layers } of ranks)
    for (const { group, blockCount } of layers)
      counts.set(group, Math.min(blockCount, counts.get(group) ?? blockCount));
  groups.forEach(({ blocks, firstToken }, group) => {
    requireTokens(firstToken);
    const count = counts.get(group) ?? Number.POSITIVE_INFINITY;
    for (const block of blocks)
      if (!isCount(block) || block >= count)
        throw new UsageError('PLAN-RANGE', `block ${block} of group ${group} is none of ${count}`);
  });
}

/** @throws UsageError PLAN-SIZE, known before a row is made. */
function refuseMuchWork(pairs: readonly RankPair[], { tokenFrom, tokenTo }: Transfer): void {
  let cells = 0;
  for (const { layers } of pairs)
    for (const { source, target } of layers) {
      const { unitTokens } = source;
      const units = Math.max(0, Math.ceil(tokenTo / unitTokens) - Math.floor(tokenFrom / unitTokens));
      cells += cellsOfUnit(source, target) * units;
    }
  requireWork(cells);
}

/** Blocks of two groups over one region, or caches that overlap: bytes of the target that two runs would write. */
function refuseOverlap(planned: readonly RankTransfer[], isWrite: boolean): void {
  const byRegion = grouped(planned, ({ localRank, remoteRank, localRegion, remoteRegion }) =>
    isWrite ? `${remoteRank} ${remoteRegion}` : `${localRank} ${localRegion}`,
  );
  for (const transfers of byRegion) {
    const count = transfers.reduce((sum, { runs }) => sum + runs.length / 3, 0);
    const [starts, ends] = [new Float64Array(count), new Float64Array(count)];
    let row = 0;
    for (const { runs } of transfers)
      for (let i = 0; i < runs.length; i += 3, row++) {
        starts[row] = runs[isWrite ? i + 1 : i]!;
        ends[row] = starts[row]! + runs[i + 2]!;
      }
    starts.sort();
    ends.sort();
    // Of rows apart, as many have ended where the next one starts as have started before it.
    for (let i = 1; i < count; i++)
      if (starts[i]! < ends[i - 1]!)
        throw new UsageError('PLAN-RANGE', `byte ${starts[i]} of a region of the target is listed twice`);
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
  if (together) return planUnits(local, remote, { from: unitFrom, to: unitTo }, bucketOf(buckets, first!));
  for (const pair of pairs) {
    const runs = bucketOf(buckets, pair);
    planPart(
      { ...local, part: pair.here },
      { ...remote, part: pair.there },
      { from: unitFrom, to: unitTo },
      runs,
    );
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

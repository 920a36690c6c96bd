import type { LayerView } from '../base/cache-view.ts';
import { contentOf, isOfOneRank } from './refusal.ts';
import { contextsMeet } from './shares.ts';

/**
 * Which cache of a source a cache of a target is filled from, and which of its ranks serve. A layer of a model may have
 * several caches: a latent row and a sparse index, attention to a prompt and to an image. The form tells them apart, then
 * the group. Groups are each side's own numbers: they count only where one form is there several times.
 */

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

/** A rank, by its index in the engine, and what it holds of a cache. */
export interface Holder {
  readonly rank: number;
  readonly tpRank: number;
  readonly view: LayerView;
}

/** All that an engine holds of each layer. */
export type CachesByLayer = ReadonlyMap<number, readonly Holder[]>;

export function cachesByLayer({ ranks }: EngineSide): CachesByLayer {
  const found = new Map<number, Holder[]>();
  ranks.forEach(({ tpRank, layers }, rank) => {
    for (const view of layers) {
      const holders = found.get(view.layer);
      if (holders === undefined) found.set(view.layer, [{ rank, tpRank, view }]);
      else holders.push({ rank, tpRank, view });
    }
  });
  return found;
}

/** Finds what the source holds of the cache that a view of the target is of. Views of one cache are looked up once. */
export type Peers = (wanted: LayerView) => readonly Holder[];

export function peersBetween(source: CachesByLayer, target: CachesByLayer): Peers {
  const known = new Map<string, readonly Holder[]>();
  return (wanted) => {
    const key = `${wanted.layer} ${wanted.group} ${wanted.form}`;
    const peers =
      known.get(key) ?? peersOf(wanted, source.get(wanted.layer) ?? [], target.get(wanted.layer)!);
    known.set(key, peers);
    return peers;
  };
}

function peersOf(wanted: LayerView, held: readonly Holder[], asked: readonly Holder[]): readonly Holder[] {
  // One cache on either side: these two are each other's, and whether they fit is for refusalOf.
  if (isOneCache(held) && isOneCache(asked)) return held;
  const content = contentOf(wanted.form);
  const isAlike = ({ view }: Holder): boolean => contentOf(view.form) === content;
  const alike = held.filter(isAlike);
  if (isOneCache(alike) && isOneCache(asked.filter(isAlike))) return alike;
  return alike.filter(({ view }) => view.group === wanted.group);
}

function isOneCache(holders: readonly Holder[]): boolean {
  return new Set(holders.map(({ view: { group, form } }) => `${group} ${contentOf(form)}`)).size <= 1;
}

/** Why the source holds nothing of a cache. */
export function noPeers(wanted: LayerView, held: readonly Holder[]): string {
  const { layer, group, form } = wanted;
  if (held.length === 0) return `layer ${layer} is held by no rank of the source`;
  const forms = [...new Set(held.map(({ view }) => `'${view.form}' of group ${view.group}`))];
  const shown = forms.slice(0, 4).join(', ');
  return `layer ${layer}: the source has ${shown}, and nothing for '${form}' of group ${group} at the target`;
}

/** Of these, whoever holds some of the view's heads. A state of one rank is held by the equal rank alone. */
export function headHolders(peers: readonly Holder[], wanted: LayerView, tpRank: number): Holder[] {
  const isTied = isOfOneRank(wanted);
  return peers.filter((holder) => headsMeet(holder.view, wanted) && (!isTied || holder.tpRank === tpRank));
}

/** One holder of each share of the view's heads and units: copies serve by turns. */
export function servers(holders: readonly Holder[], wanted: LayerView, tpRank: number): Holder[] {
  const meeting = holders.filter(({ view }) => contextsMeet(view.context, wanted.context));
  const shares = grouped(meeting, ({ view: { headFirst, context } }) => {
    return `${headFirst} ${context.rank} ${context.ranks} ${context.interleaveUnits}`;
  });
  return shares.map((copies) => copies[tpRank % copies.length]!);
}

export function headsMeet(a: LayerView, b: LayerView): boolean {
  return a.headFirst < b.headFirst + b.headCount && b.headFirst < a.headFirst + a.headCount;
}

/** Two views of one cache on one rank, of which nothing says which one a head or unit is in. */
export function ambiguity(views: readonly LayerView[]): string {
  for (const [index, view] of views.entries()) {
    for (let before = 0; before < index; before++) {
      const other = views[before]!;
      if (headsMeet(view, other) && contextsMeet(view.context, other.context))
        return `layer ${view.layer}: two caches of group ${view.group} have the form '${view.form}' on one rank`;
    }
  }
  return '';
}

export function grouped<Item>(items: readonly Item[], keyOf: (item: Item) => string | number): Item[][] {
  const groups = new Map<string | number, Item[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group === undefined) groups.set(keyOf(item), [item]);
    else group.push(item);
  }
  return [...groups.values()];
}

import { type Figure, figure, median, type Sense } from './figures.ts';

/** Rounds of two programs in turn, and which of them may be believed. */

/** Sizes; `window` batches are under way. A round moves all batches, then posts `posts` with nothing else under way. */
export interface Shape {
  readonly bytes: number;
  readonly operations: number;
  readonly window: number;
  readonly batches: number;
  readonly posts: number;
}

export interface Timed {
  /** Of all batches. */
  readonly seconds: number;
  /** Of all threads, meanwhile. */
  readonly cpuSeconds: number;
  /** In which a thread of it could have run and no core was free, in the whole round. */
  readonly waitedSeconds: number;
  /** Median of posting one batch. */
  readonly postMicros: number;
}

export interface Pair {
  readonly bridge: Timed;
  readonly baseline: Timed;
}

/** A program that is ready to be timed, and sleeps until it is. */
export type Side = (shape: Shape) => Timed | Promise<Timed>;

export interface Measured {
  readonly kept: readonly Pair[];
  readonly tried: number;
}

/** A thread that waits for a core for more of a round than this makes the round say more about the machine. */
const WAITED_MAX = 0.02;
/** Rounds of each before any counts: pages, caches, code that is compiled. */
const WARM_ROUNDS = 5;
/** For each round that is wanted, this many are tried at the most; where the first of each had no clean one, no more. */
const TRIES = 10;

const isClean = ({ seconds, waitedSeconds }: Timed): boolean => waitedSeconds <= WAITED_MAX * seconds;

/** Has both run in turn, each first in every second round, until `wanted` rounds were clean for both. */
export async function measure(bridge: Side, baseline: Side, shape: Shape, wanted: number): Promise<Measured> {
  for (let round = 0; round < WARM_ROUNDS; round++) {
    await bridge(shape);
    await baseline(shape);
  }
  const kept: Pair[] = [];
  let tried = 0;
  while (kept.length < wanted && tried < (kept.length === 0 ? 1 : TRIES) * wanted) {
    const isFirst = tried++ % 2 === 0;
    const early = isFirst ? await bridge(shape) : null;
    const theirs = await baseline(shape);
    const pair = { bridge: early ?? (await bridge(shape)), baseline: theirs };
    if (isClean(pair.bridge) && isClean(pair.baseline)) kept.push(pair);
  }
  return { kept, tried };
}

/** Of the rounds that were kept; without enough of them it is not measured, which holds nothing. */
export interface Judged {
  readonly name: string;
  readonly unit: string;
  readonly against: (baseline: number) => string;
  readonly value: (side: Timed) => number;
  readonly ratio: (pair: Pair) => number;
  readonly sense: Sense;
  readonly floor: number;
}

export function judge(judged: Judged, shape: Shape, { kept, tried }: Measured, needed: number): Figure {
  const { name, unit, against, value, ratio, sense, floor } = judged;
  if (kept.length < needed) {
    const note = `in ${tried - kept.length} of ${tried} rounds a thread waited for a core, and ${needed} without are needed`;
    return { ...figure(name, Number.NaN, unit, 'C', Number.NaN, sense, floor), note };
  }
  const gigabytes = gigabytesOf(shape);
  const cpu = (side: keyof Pair): string =>
    (median(kept.map((pair) => pair[side].cpuSeconds)) / gigabytes).toFixed(3);
  const ours = median(kept.map((pair) => value(pair.bridge)));
  const theirs = median(kept.map((pair) => value(pair.baseline)));
  const note = `${kept.length} of ${tried} rounds kept; CPU ${cpu('bridge')} s/GB, in C ${cpu('baseline')}`;
  return { ...figure(name, ours, unit, against(theirs), median(kept.map(ratio)), sense, floor), note };
}

export function gigabytesOf({ bytes, operations, batches }: Shape): number {
  return (bytes * operations * batches) / 1e9;
}

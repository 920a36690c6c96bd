import type { Kernels } from '../../src/kv/kernels.ts';
import { NO_ROOM, PART_WORDS, type PartFields, writePart } from '../../src/kv/row-kernels.ts';
import { type Pair, small } from './pair.ts';

export const LOCAL_PARTS = 3;
export const REMOTE_PARTS = 1000;
export const LOCAL_BLOCKS = 2001;
export const REMOTE_BLOCKS = 3000;
export const OUT = 4004;
export const CAPACITY = 2000;

export function putPart(pair: Pair, address: number, part: PartFields): void {
  const words = new Float64Array(PART_WORDS);
  writePart(words, 0, part);
  pair.putDoubles(address, [...words]);
}

/** A cache whose axes lie in any order, with a gap behind some of them. */
export interface Shape {
  readonly order: readonly number[];
  readonly gap: number;
  readonly bytes: number;
  readonly base: number;
  readonly pageUnits: number;
  readonly pages: number;
  readonly headFirst: number;
  readonly headCount: number;
  readonly blockCount: number;
  readonly context?: Context;
}

/** A rank of a context group; the interleave is of so many units where they divide a block, else of one or of all. */
export interface Context {
  readonly ranks: number;
  readonly rank: number;
  readonly interleave: 1 | 2 | 'block';
}

export function partOf(shape: Shape, bytes: number): PartFields {
  const { base, pageUnits, pages, headFirst, headCount, blockCount } = shape;
  const sizes = [blockCount * pages, pageUnits, headCount];
  const strides = [0, 0, 0];
  let stride = bytes;
  for (const axis of shape.order) {
    strides[axis] = stride;
    stride = stride * sizes[axis]! + (axis === shape.gap ? 16 : 0);
  }
  const { ranks, rank, interleave } = shape.context ?? { ranks: 1, rank: 0, interleave: 1 };
  const blockUnits = pageUnits * pages;
  return {
    base,
    blockStride: strides[0]!,
    unitStride: strides[1]!,
    headStride: strides[2]!,
    bytes,
    blockUnits,
    pageUnits,
    headFirst,
    headCount,
    blockCount,
    contextRanks: ranks,
    contextRank: rank % ranks,
    interleaveUnits: interleave === 'block' ? blockUnits : blockUnits % interleave === 0 ? interleave : 1,
  };
}

export interface Plan {
  readonly parts: number;
  readonly local: number;
  readonly remote: number;
  readonly firsts: readonly [number, number];
  readonly from: number;
  readonly to: number;
  readonly count: number;
  readonly capacity: number;
}

/** The result of both, with parts, lists and rows at their usual places. */
export function agreeOnPlan(plan: Plan): number {
  const { parts, local, remote, firsts, from, to, count, capacity } = plan;
  return small.agree((k) => {
    const result = k.planParts(
      LOCAL_PARTS,
      REMOTE_PARTS,
      parts,
      LOCAL_BLOCKS,
      local,
      firsts[0],
      REMOTE_BLOCKS,
      remote,
      firsts[1],
      from,
      to,
      OUT,
      count,
      capacity,
    );
    if (result === NO_ROOM) clearUnused(k, count, capacity);
    return result;
  });
}

/** After NO_ROOM the rows from `count` on are undefined. */
export function clearUnused(kernels: Kernels, count: number, capacity: number, out = OUT): void {
  const bytes = kernels === small.module ? small.moduleBytes : small.twinBytes;
  for (let column = 0; column < 3; column++)
    bytes.fill(0, out + (column * capacity + count) * 8, out + (column + 1) * capacity * 8);
}

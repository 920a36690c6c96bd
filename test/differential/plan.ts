import type { Kernels } from '../../src/kv/kernels.ts';
import {
  NO_ROOM,
  PART_WORDS,
  PARTS_JOB_BYTES,
  type PartFields,
  type PartsJob,
  writePart,
  writePartsJob,
} from '../../src/kv/row-kernels.ts';
import { PAGE_BYTES, type Pair, small } from './pair.ts';

export const LOCAL_PARTS = 3;
export const REMOTE_PARTS = 1000;
export const LOCAL_BLOCKS = 2001;
export const REMOTE_BLOCKS = 3000;
export const OUT = 4004;
export const CAPACITY = 2000;
/** Where jobs lie: at no multiple of 4, since kernels read at any address. */
export const JOB = PAGE_BYTES - 61;

/** Lays a job down in both memories, for lists at their usual places unless it says otherwise. */
export function putPartsJob(job: Partial<PartsJob>): void {
  const words = new Uint32Array(PARTS_JOB_BYTES / 4);
  writePartsJob(words, 0, {
    localParts: LOCAL_PARTS,
    remoteParts: REMOTE_PARTS,
    partCount: 1,
    localBlocks: LOCAL_BLOCKS,
    localCount: 0,
    localFirstUnit: 0,
    remoteBlocks: REMOTE_BLOCKS,
    remoteCount: 0,
    remoteFirstUnit: 0,
    from: 0,
    to: 0,
    out: OUT,
    count: 0,
    capacity: CAPACITY,
    ...job,
  });
  small.put(JOB, [...words]);
}

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
  const [localFirstUnit, remoteFirstUnit] = firsts;
  const lists = { localCount: local, localFirstUnit, remoteCount: remote, remoteFirstUnit };
  putPartsJob({ ...lists, partCount: parts, from, to, count, capacity });
  return small.agree((k) => {
    const result = k.planParts(JOB);
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

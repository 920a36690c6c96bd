import type { LayerView, PartView } from '../../src/base/cache-view.ts';
import { UsageError } from '../../src/base/failure.ts';
import { pushAll } from '../../src/base/lists.ts';
import { REFUSED } from '../../src/kv/kernels.ts';
import { type PartSide, planPart } from '../../src/kv/plan.ts';
import {
  BLOCKS_JOB,
  BLOCKS_JOB_BYTES,
  type BlocksJob,
  NO_ROOM,
  NOT_COVERED,
  PART,
  PART_BYTES,
  PARTS_JOB,
  PARTS_JOB_BYTES,
  type PartFields,
  type PartsJob,
  ROW_BYTES,
  type RowKernels,
  scratchBytes,
} from '../../src/kv/row-kernels.ts';

/** The specification of the row kernels, over the memory that `words` covers. */
export function createRowsTwin(words: DataView): RowKernels {
  return {
    joinRows: (out, count, capacity) => joinRows(words, { out, count, capacity }),
    mergeRows: (out, count, capacity, scratch) => mergeRows(words, { out, count, capacity }, scratch),
    planParts: (at) => {
      if (!exists(words, { at, bytes: PARTS_JOB_BYTES })) return REFUSED;
      const job = (field: keyof PartsJob): number => words.getUint32(at + PARTS_JOB[field] * 4, true);
      const side = (whose: 'local' | 'remote'): Side => ({
        parts: job(`${whose}Parts`),
        blocks: job(`${whose}Blocks`),
        count: job(`${whose}Count`),
        firstUnit: job(`${whose}FirstUnit`),
      });
      const list = { out: job('out'), count: job('count'), capacity: job('capacity') };
      return planParts(words, side('local'), side('remote'), job('partCount'), job('from'), job('to'), list);
    },
    planWholeBlocks: (at) => {
      if (!exists(words, { at, bytes: BLOCKS_JOB_BYTES })) return REFUSED;
      const job = (field: keyof BlocksJob): number => words.getUint32(at + BLOCKS_JOB[field] * 4, true);
      const bytes = (field: 'localStride' | 'remoteStride' | 'blockBytes'): number =>
        words.getFloat64(at + BLOCKS_JOB[field] * 8, true);
      const side = (whose: 'local' | 'remote'): BlockSide => ({
        ids: job(`${whose}Ids`),
        bases: job(`${whose}Bases`),
        stride: bytes(`${whose}Stride`),
      });
      const list = { out: job('out'), capacity: job('capacity') };
      const scratch = job('scratch');
      return planWholeBlocks(
        words,
        side('local'),
        side('remote'),
        job('count'),
        job('layers'),
        bytes('blockBytes'),
        list,
        scratch,
      );
    },
  };
}

/** The first integer that has a neighbour no double can hold. */
const EXACT_END = 2 ** 53;
const U32_END = 2 ** 32;

interface Range {
  readonly at: number;
  readonly bytes: number;
}

function exists(words: DataView, { at, bytes }: Range): boolean {
  return at + bytes <= words.byteLength;
}

function apart(a: Range, b: Range): boolean {
  return Math.max(a.at, b.at) >= Math.min(a.at + a.bytes, b.at + b.bytes);
}

function isWhole(value: number): boolean {
  return value >= 0 && value < EXACT_END && Number.isInteger(value);
}

function doubleAt(words: DataView, at: number): number {
  return words.getFloat64(at, true);
}

// Lists of rows.

interface Row {
  readonly local: number;
  readonly remote: number;
  readonly bytes: number;
}

interface RowList {
  readonly out: number;
  readonly count: number;
  readonly capacity: number;
}

function spanOf({ out, capacity }: { readonly out: number; readonly capacity: number }): Range {
  return { at: out, bytes: capacity * ROW_BYTES };
}

function rowAt(words: DataView, { out, capacity }: RowList, index: number): Row {
  const at = out + index * 8;
  return {
    local: doubleAt(words, at),
    remote: doubleAt(words, at + capacity * 8),
    bytes: doubleAt(words, at + capacity * 16),
  };
}

function storeRow(
  words: DataView,
  { out, capacity }: { out: number; capacity: number },
  index: number,
  row: Row,
): void {
  const at = out + index * 8;
  words.setFloat64(at, row.local, true);
  words.setFloat64(at + capacity * 8, row.remote, true);
  words.setFloat64(at + capacity * 16, row.bytes, true);
}

function rowsOf(words: DataView, list: RowList): Row[] {
  return Array.from({ length: list.count }, (_, index) => rowAt(words, list, index));
}

function joined(rows: readonly Row[]): Row[] {
  const kept: Row[] = [];
  for (const row of rows) {
    const last = kept.at(-1);
    const continues =
      last !== undefined && last.local + last.bytes === row.local && last.remote + last.bytes === row.remote;
    if (continues) kept[kept.length - 1] = { ...last, bytes: last.bytes + row.bytes };
    else kept.push(row);
  }
  return kept;
}

function joinRows(words: DataView, list: RowList): number {
  if (list.count > list.capacity || !exists(words, spanOf(list))) return REFUSED;
  const kept = joined(rowsOf(words, list));
  kept.forEach((row, index) => {
    storeRow(words, list, index, row);
  });
  return kept.length;
}

function mergeRows(words: DataView, list: RowList, scratch: number): number {
  const room = { at: scratch, bytes: scratchBytes(list.count) };
  if (list.count > list.capacity || !exists(words, spanOf(list)) || !exists(words, room)) return REFUSED;
  if (!apart(spanOf(list), room)) return REFUSED;
  const rows = rowsOf(words, list);
  if (!rows.every(({ local }) => isWhole(Math.abs(local)))) return REFUSED;
  const kept = joined(rows.sort((a, b) => a.local - b.local));
  kept.forEach((row, index) => {
    storeRow(words, list, index, row);
  });
  return kept.length;
}

// Parts.

interface Side {
  readonly parts: number;
  readonly blocks: number;
  readonly count: number;
  readonly firstUnit: number;
}

function planParts(
  words: DataView,
  local: Side,
  remote: Side,
  partCount: number,
  from: number,
  to: number,
  list: RowList,
): number {
  if (list.count > list.capacity || !exists(words, spanOf(list))) return REFUSED;
  for (const side of [local, remote]) {
    for (const input of [
      { at: side.parts, bytes: partCount * PART_BYTES },
      { at: side.blocks, bytes: side.count * 4 },
    ]) {
      if (!exists(words, input) || !apart(input, spanOf(list))) return REFUSED;
    }
  }
  const last = list.count > 0 ? rowAt(words, list, list.count - 1) : undefined;
  const runs = last === undefined ? [] : [last.local, last.remote, last.bytes];
  const first = last === undefined ? 0 : list.count - 1;
  for (let index = 0; index < partCount; index++) {
    const here = partAt(words, local.parts, index);
    const there = partAt(words, remote.parts, index);
    if (!makesSense(here) || !makesSense(there) || here.bytes !== there.bytes) return REFUSED;
    try {
      planPart(sideOf(words, local, here), sideOf(words, remote, there), { from, to }, runs);
    } catch (error) {
      if (error instanceof UsageError) return NOT_COVERED;
      throw error;
    }
  }
  const count = first + runs.length / 3;
  if (count > list.capacity) return NO_ROOM;
  for (let i = 0; i < runs.length; i += 3) {
    storeRow(words, list, first + i / 3, { local: runs[i]!, remote: runs[i + 1]!, bytes: runs[i + 2]! });
  }
  return count;
}

const FIELDS = Object.keys(PART) as (keyof PartFields)[];

function partAt(words: DataView, parts: number, index: number): PartFields {
  const at = parts + index * PART_BYTES;
  const fields = FIELDS.map((field) => [field, doubleAt(words, at + PART[field] * 8)]);
  return Object.fromEntries(fields) as PartFields;
}

/** Whether every field is in its range and no byte of the cache lies at 2^53 or beyond. */
function makesSense(part: PartFields): boolean {
  if (!FIELDS.every((field) => isWhole(part[field]))) return false;
  const { bytes, blockUnits, pageUnits, headFirst, headCount, blockCount } = part;
  const { contextRanks, contextRank, interleaveUnits } = part;
  if (bytes < 1 || blockUnits < 1 || pageUnits < 1 || blockUnits % pageUnits !== 0) return false;
  if (contextRank >= contextRanks || interleaveUnits < 1 || blockUnits % interleaveUnits !== 0) return false;
  if (
    blockUnits * contextRanks >= U32_END ||
    headFirst >= U32_END ||
    headCount >= U32_END ||
    blockCount > U32_END
  )
    return false;
  const pages = blockCount * (blockUnits / pageUnits);
  const end = part.base + pages * part.blockStride + pageUnits * part.unitStride;
  return end + headCount * part.headStride + bytes < EXACT_END;
}

function sideOf(words: DataView, side: Side, fields: PartFields): PartSide {
  const { base, blockStride, unitStride, headStride, bytes, pageUnits } = fields;
  const { blockCount, blockUnits, headFirst, headCount } = fields;
  const { contextRanks: ranks, contextRank: rank, interleaveUnits } = fields;
  const part: PartView = {
    name: 'k',
    region: 0,
    base,
    blockStride,
    unitStride,
    headStride,
    bytes,
    pageUnits,
  };
  const layer: LayerView = {
    layer: 0,
    group: 0,
    parts: [part],
    blockCount,
    blockUnits,
    context: { ranks, rank, interleaveUnits },
    unitTokens: 1,
    headFirst,
    headCount,
    form: '',
    bytes: 0,
  };
  const blocks = Array.from({ length: side.count }, (_, i) => words.getUint32(side.blocks + i * 4, true));
  return { part, layer, blocks, firstUnit: side.firstUnit };
}

// Whole blocks.

interface BlockSide {
  readonly ids: number;
  readonly bases: number;
  readonly stride: number;
}

function planWholeBlocks(
  words: DataView,
  local: BlockSide,
  remote: BlockSide,
  count: number,
  layers: number,
  blockBytes: number,
  list: { readonly out: number; readonly capacity: number },
  scratch: number,
): number {
  const room = { at: scratch, bytes: scratchBytes(count) };
  if (!exists(words, spanOf(list)) || !exists(words, room) || !apart(spanOf(list), room)) return REFUSED;
  for (const { ids, bases, stride } of [local, remote]) {
    for (const input of [
      { at: ids, bytes: count * 4 },
      { at: bases, bytes: layers * 8 },
    ]) {
      if (!exists(words, input) || !apart(input, spanOf(list)) || !apart(input, room)) return REFUSED;
    }
    if (!isWhole(stride)) return REFUSED;
  }
  if (!isWhole(blockBytes) || blockBytes < 1) return REFUSED;
  if (count === 0 || layers === 0) return 0;
  const idAt = (ids: number, i: number): number => words.getUint32(ids + i * 4, true);
  const pairs = Array.from({ length: count }, (_, i) => [idAt(local.ids, i), idAt(remote.ids, i)] as const);
  if (pairs.some((ids) => ids.includes(U32_END - 1))) return NOT_COVERED;
  for (const [side, { bases, stride }] of [local, remote].entries()) {
    const reach = pairs.reduce((most, ids) => Math.max(most, ids[side]!), 0) * stride + blockBytes;
    for (let layer = 0; layer < layers; layer++) {
      const base = doubleAt(words, bases + layer * 8);
      if (!isWhole(base) || !(base + reach < EXACT_END)) return REFUSED;
    }
  }
  const joins = blockBytes === local.stride && blockBytes === remote.stride;
  const sorted = pairs.toSorted((a, b) => a[0] - b[0]);
  const rows: Row[] = [];
  for (let layer = 0; layer < layers; layer++) {
    const localBase = doubleAt(words, local.bases + layer * 8);
    const remoteBase = doubleAt(words, remote.bases + layer * 8);
    const blocks = sorted.map(([here, there]) => ({
      local: localBase + here * local.stride,
      remote: remoteBase + there * remote.stride,
      bytes: blockBytes,
    }));
    pushAll(rows, joins ? joined(blocks) : blocks);
  }
  if (rows.length > list.capacity) return NO_ROOM;
  rows.forEach((row, index) => {
    storeRow(words, list, index, row);
  });
  return rows.length;
}

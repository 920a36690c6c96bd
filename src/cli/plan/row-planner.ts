import type { LayerView, PartView } from '../../base/cache-view.ts';
import { believe } from '../../base/failure.ts';
import type { Kernels } from '../../kv/kernels.ts';
import {
  NO_ROOM,
  PART_BYTES,
  PARTS_JOB_BYTES,
  type PartFields,
  ROW_BYTES,
  scratchBytes,
  writePart,
  writePartsJob,
} from '../../kv/row-kernels.ts';
import { readKernelBytes } from '../../node/kernel-bytes.ts';
import type { Range } from '../../report/plan-report.ts';
import { instantiateKernels } from '../../sim/load-kernels.ts';
import { aligned } from '../../sim/memory.ts';

/** A layer on both sides, and the tokens of it that move. */
export interface LayerPair {
  readonly prefill: LayerView;
  readonly decode: LayerView;
  readonly tokens: Range;
}

/** A part of one layer as both sides hold it. */
export interface PartPair {
  readonly prefill: LayerView;
  readonly decode: LayerView;
  readonly part: PartView;
  readonly peer: PartView;
}

/**
 * The plan kernels over a memory of their own. JavaScript lays down parts and block lists once, passes numbers, and reads
 * columns; a plan allocates nothing for each of its rows.
 *
 *   | parts of P | parts of D | blocks of P | blocks of D | job | rows: three columns | scratch |
 */
export interface RowPlanner {
  readonly capacity: number;
  /** Columns of P offset, D offset and bytes; rows beyond the last count are undefined. */
  readonly columns: readonly [Float64Array, Float64Array, Float64Array];
  /** Appends the rows of some units to the first `count`; the new count, or null when there is no room. */
  append(pairs: readonly PartPair[], unitFrom: number, unitTo: number, count: number): number | null;
  /** Sorts and joins the first `count` rows; the new count. */
  merge(count: number): number;
}

/** Parts of one layer that go over in one call. */
const PARTS_MAX = 16;
const PAGE_BYTES = 65_536;

export function createRowPlanner(
  prefillBlocks: readonly number[],
  decodeBlocks: readonly number[],
  capacity: number,
): RowPlanner {
  const decodeParts = PARTS_MAX * PART_BYTES;
  const prefillIds = 2 * decodeParts;
  const decodeIds = prefillIds + prefillBlocks.length * 4;
  const jobAt = decodeIds + decodeBlocks.length * 4;
  const rows = aligned(jobAt + PARTS_JOB_BYTES);
  const scratch = rows + capacity * ROW_BYTES;
  const pages = Math.ceil((scratch + scratchBytes(capacity)) / PAGE_BYTES);
  const { kernels, memory } = instantiateKernels(readKernelBytes(), pages);
  const words = new Uint32Array(memory.buffer);
  words.set(prefillBlocks, prefillIds / 4);
  words.set(decodeBlocks, decodeIds / 4);
  const partWords = [new Float64Array(memory.buffer), new Float64Array(memory.buffer, decodeParts)] as const;
  const column = (index: number): Float64Array =>
    new Float64Array(memory.buffer, rows + index * capacity * 8, capacity);
  const lists = {
    localParts: 0,
    localBlocks: prefillIds,
    localCount: prefillBlocks.length,
    localFirstUnit: 0,
    remoteParts: decodeParts,
    remoteBlocks: decodeIds,
    remoteCount: decodeBlocks.length,
    remoteFirstUnit: 0,
  };
  return {
    capacity,
    columns: [column(0), column(1), column(2)],
    append(pairs, unitFrom, unitTo, count) {
      believe(pairs.length <= PARTS_MAX, 'INV-PLAN-1', `${pairs.length} parts of a layer`);
      pairs.forEach(({ prefill, decode, part, peer }, index) => {
        writePart(partWords[0], index, fieldsOf(prefill, part));
        writePart(partWords[1], index, fieldsOf(decode, peer));
      });
      const range = { from: unitFrom, to: unitTo };
      writePartsJob(words, jobAt, {
        ...lists,
        ...range,
        partCount: pairs.length,
        out: rows,
        count,
        capacity,
      });
      const planned = kernels.planParts(jobAt);
      return planned === NO_ROOM ? null : counted(planned);
    },
    merge: (count) => counted(kernels.mergeRows(rows, count, capacity, scratch)),
  };
}

/** The sides were checked and the lists cover the range, so the kernels have nothing to refuse. */
function counted(result: number): number {
  believe(result >= 0, 'INV-PLAN-1', `the plan kernel refuses with ${result}`);
  return result;
}

function fieldsOf(layer: LayerView, part: PartView): PartFields {
  const { base, blockStride, unitStride, headStride, bytes, pageUnits } = part;
  const { blockUnits, headFirst, headCount, blockCount, context } = layer;
  const { ranks: contextRanks, rank: contextRank, interleaveUnits } = context;
  const place = { base, blockStride, unitStride, headStride, bytes, blockUnits, pageUnits };
  return { ...place, headFirst, headCount, blockCount, contextRanks, contextRank, interleaveUnits };
}

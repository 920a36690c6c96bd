import type { LayerView, PartView } from '../base/cache-view.ts';
import { believe } from '../base/failure.ts';
import {
  ALL_FINE,
  ATTEND,
  ATTEND_WORDS,
  CELL_VIEW_BYTES,
  type CellView,
  type Kernels,
  writeCellView,
} from '../kv/kernels.ts';
import type { Emit } from '../wire/machine.ts';
import type { StepItem } from '../wire/messages.ts';

/**
 * The model's forward pass on one rank, as far as the KV cache can tell: it stamps the cells of new tokens and its
 * attention reads, checks and sums the cells of all tokens so far. The sums of all ranks and layers make the next token,
 * so a wrong byte is a wrong answer.
 */

export interface RankModel {
  /** Runs layers [from, to) for every item; adds what attention read to `sums`; notes each cell that is not right. */
  runLayers(from: number, to: number, items: readonly StepItem[], sums: number[], emit: Emit): void;
}

/** Where one rank's model finds its memory: all addresses are bytes in the one linear memory. */
export interface ModelMemory {
  readonly kernels: Kernels;
  readonly words: Uint32Array;
  /** Room for `layers` cell views. */
  readonly viewAddress: number;
  /** Room for the block tables of one step, shared by all ranks: a step's tables are used within one call. */
  readonly tableAddress: number;
  readonly tableWordsMax: number;
  readonly resultAddress: number;
  readonly regionStart: number;
  readonly regionEnd: number;
}

export interface ModelConfig {
  readonly views: readonly LayerView[];
  /** Tokens of one slot: 1, or a block's tokens at block grain. */
  readonly slotTokens: number;
  /** Copies of replicated heads count once in a sum over ranks. */
  readonly countsInSum: boolean;
  /** Read everything at every step; otherwise only in a request's first step here, when all of it came from elsewhere. */
  readonly readAlways: boolean;
}

export function createRankModel(config: ModelConfig, memory: ModelMemory): RankModel {
  config.views.forEach((view, layer) => {
    const cells = cellViewOf(view, layer, memory.regionStart, memory.regionEnd);
    writeCellView(memory.words, memory.viewAddress + layer * CELL_VIEW_BYTES, cells);
  });
  return {
    runLayers(from, to, items, sums, emit) {
      for (let index = 0; index < items.length; index++)
        sums[index] = (sums[index]! + runItem(config, memory, from, to, items[index]!, emit)) >>> 0;
    },
  };
}

/** The kernel's form of a view of one or two parts that lie alike, in a region at these addresses. */
export function cellViewOf(view: LayerView, layer: number, regionStart: number, regionEnd: number): CellView {
  const [first, second] = view.parts as [PartView, PartView?];
  const lieAlike =
    second === undefined ||
    (first.blockStride === second.blockStride &&
      first.unitStride === second.unitStride &&
      first.headStride === second.headStride &&
      first.bytes === second.bytes &&
      first.pageUnits === second.pageUnits);
  const isWhole = first.pageUnits === view.blockUnits && view.parts.length <= 2;
  believe(lieAlike && isWhole, 'INV-VIEW-2', 'K and V of a layer lie alike, in pages that are blocks');
  return {
    base: regionStart + first.base,
    blockStride: first.blockStride,
    kvStride: second === undefined ? 0 : second.base - first.base,
    tokenStride: first.unitStride,
    headStride: first.headStride,
    cellBytes: first.bytes,
    cellsPerBlock: view.blockUnits,
    kvCount: view.parts.length,
    headCount: view.headCount,
    headFirst: view.headFirst,
    layer,
    regionStart,
    regionEnd,
  };
}

/** One item through some layers; returns the sum of what its attention read. */
function runItem(
  config: ModelConfig,
  memory: ModelMemory,
  from: number,
  to: number,
  item: StepItem,
  emit: Emit,
): number {
  const { kernels, words, tableAddress, resultAddress } = memory;
  const slotFrom = Math.floor(item.tokenFrom / config.slotTokens);
  const slotTo = Math.ceil(item.tokenTo / config.slotTokens);
  const reads = config.readAlways || item.fresh;
  // What is not read needs no table entry: a decode step of a long request touches one block.
  placeTable(memory, item.blocks, reads ? 0 : Math.floor(slotFrom / config.views[0]!.blockUnits));
  let sum = 0;
  for (let layer = from; layer < to; layer++) {
    const view = memory.viewAddress + layer * CELL_VIEW_BYTES;
    kernels.fillStamps(view, tableAddress, item.lineageAddress, slotFrom, slotTo);
    if (!reads) continue;
    const outcome = kernels.attend(view, tableAddress, item.lineageAddress, slotTo, resultAddress);
    if (config.countsInSum) sum = (sum + words[(resultAddress >>> 2) + ATTEND.sum]!) >>> 0;
    if (outcome !== ALL_FINE) noteMisread(config, memory, item, layer, emit);
  }
  return sum;
}

/** Writes a block table, from entry `first` on, to the shared scratch. */
export function placeTable(
  memory: { words: Uint32Array; tableAddress: number },
  blocks: readonly number[],
  first: number,
): void {
  const base = memory.tableAddress >>> 2;
  for (let i = first; i < blocks.length; i++) memory.words[base + i] = blocks[i]!;
}

function noteMisread(
  config: ModelConfig,
  memory: ModelMemory,
  item: StepItem,
  layer: number,
  emit: Emit,
): void {
  const result = memory.words.subarray(
    memory.resultAddress >>> 2,
    (memory.resultAddress >>> 2) + ATTEND_WORDS,
  );
  const view = config.views[layer]!;
  const slot = result[ATTEND.position]!;
  emit({
    kind: 'note',
    note: {
      kind: 'misread',
      request: item.request,
      layer,
      token: slot * config.slotTokens,
      head: view.headFirst + result[ATTEND.head]!,
      part: result[ATTEND.kv]!,
      expected: result[ATTEND.expected]!,
      actual: result[ATTEND.actual]!,
      block: item.blocks[Math.floor(slot / view.blockUnits)] ?? -1,
    },
  });
}

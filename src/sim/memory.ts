import { BrokenBelief, believe } from '../base/failure.ts';
import { ATTEND_BYTES, CELL_VIEW_BYTES, type Kernels, RUN_BYTES } from '../kv/kernels.ts';

/**
 * The one linear memory of all devices of a run, and a bump allocator over it. A run takes what it needs from the start;
 * the next run begins with all of it zero again.
 *
 *   | result | tables | runs | lineage, cell views, regions ... |
 */
export interface WorldMemory {
  readonly kernels: Kernels;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly words: Uint32Array;
  readonly resultAddress: number;
  readonly tableAddress: number;
  readonly tableWordsMax: number;
  readonly runsAddress: number;
  readonly runsMax: number;
  /** First free byte. */
  top: number;
}

export interface MemorySizes {
  readonly tableWordsMax: number;
  readonly runsMax: number;
}

export const CHECK_SIZES: MemorySizes = { tableWordsMax: 1024, runsMax: 4096 };
/** 4 MiB holds every cluster that a check draws. */
export const CHECK_PAGES = 64;

const RESULT_ADDRESS = 64;

export function createWorldMemory(
  loaded: { kernels: Kernels; memory: { readonly buffer: ArrayBuffer } },
  sizes: MemorySizes,
): WorldMemory {
  const tableAddress = RESULT_ADDRESS + ATTEND_BYTES;
  const runsAddress = tableAddress + sizes.tableWordsMax * 4;
  return {
    kernels: loaded.kernels,
    bytes: new Uint8Array(loaded.memory.buffer),
    words: new Uint32Array(loaded.memory.buffer),
    resultAddress: RESULT_ADDRESS,
    tableAddress,
    tableWordsMax: sizes.tableWordsMax,
    runsAddress,
    runsMax: sizes.runsMax,
    top: firstFree(runsAddress, sizes.runsMax),
  };
}

/** The first cache line of 64 bytes at or behind an address; by arithmetic, not by bits: addresses go beyond 2^31. */
export function aligned(address: number): number {
  return Math.ceil(address / 64) * 64;
}

function firstFree(runsAddress: number, runsMax: number): number {
  return aligned(runsAddress + runsMax * RUN_BYTES);
}

export function resetMemory(memory: WorldMemory): void {
  const first = firstFree(memory.runsAddress, memory.runsMax);
  memory.bytes.fill(0, first, memory.top);
  memory.top = first;
}

/**
 * 64 bits over everything that runs put into the memory, and over all that they left untouched, as 16 hex digits. The
 * tables before it are scratch space, which differs by who moves the bytes.
 */
export function digestMemory(memory: WorldMemory): string {
  const first = firstFree(memory.runsAddress, memory.runsMax);
  const { kernels, resultAddress, bytes, words } = memory;
  const answer = kernels.digest(first, bytes.length - first, resultAddress);
  believe(
    answer === 0,
    'INV-MEM-1',
    `the memory of ${bytes.length} bytes could not be read from ${first} on`,
  );
  const at = resultAddress >>> 2;
  return [words[at + 1]!, words[at]!].map((word) => word.toString(16).padStart(8, '0')).join('');
}

/** Takes `bytes`, 64-byte aligned. */
export function take(memory: WorldMemory, bytes: number): number {
  const address = memory.top;
  memory.top = aligned(address + bytes);
  if (memory.top > memory.bytes.length) {
    throw new BrokenBelief(
      'INV-MEM-1',
      `the run needs ${memory.top} bytes of memory and has ${memory.bytes.length}`,
    );
  }
  return address;
}

export function takeViews(memory: WorldMemory, layers: number): number {
  return take(memory, layers * CELL_VIEW_BYTES);
}

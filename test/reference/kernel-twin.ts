import {
  ALL_FINE,
  ATTEND,
  ATTEND_BYTES,
  ATTEND_WORDS,
  CELL_VIEW,
  CELL_VIEW_BYTES,
  type CellView,
  HEADS_MAX,
  type Kernels,
  OUTSIDE_REGION,
  REFUSED,
  RUN_BYTES,
} from '../../src/kv/kernels.ts';
import { stampOf } from '../../src/kv/stamps.ts';
import { digestOf } from './digest-twin.ts';
import { createRowsTwin } from './rows-twin.ts';
import { stampWord } from './stamp-words.ts';

/**
 * The specification of the kernels: the same interface over the same memory, written to be read. Sums of
 * addresses are exact here, since no product of two words is used before it is cut to FAR.
 *
 * `memory.buffer` must not be replaced afterwards; a memory with equal initial and maximum size never does
 * that.
 */
export function createKernelTwin(memory: { readonly buffer: ArrayBufferLike }): Kernels {
  const bytes = new Uint8Array(memory.buffer);
  const words = new DataView(memory.buffer);
  return {
    ...createRowsTwin(words),
    copyRuns: (runs, count, sourceBase, sourceEnd, targetBase, targetEnd) =>
      copyRuns(bytes, words, runs, count, { sourceBase, sourceEnd, targetBase, targetEnd }),
    mergeRuns: (runs, count) => mergeRuns(words, runs, count),
    fillStamps: (view, table, lineage, from, to) => fillStamps(words, { view, table, lineage, from, to }),
    attend: (view, table, lineage, to, result) =>
      attend(words, { view, table, lineage, from: 0, to }, result),
    digest: (address, length, result) => digest(bytes, words, address, length, result),
  };
}

/** Past every address. */
const FAR = 2 ** 40;

function inMemory(words: DataView, address: number, length: number): boolean {
  return address + length <= words.byteLength;
}

function regionInMemory(words: DataView, start: number, end: number): boolean {
  return start <= end && end <= words.byteLength;
}

function load(words: DataView, address: number): number {
  return words.getUint32(address, true);
}

function store(words: DataView, address: number, value: number): void {
  words.setUint32(address, value, true);
}

// Runs.

interface Run {
  readonly source: number;
  readonly target: number;
  readonly bytes: number;
}

interface Regions {
  readonly sourceBase: number;
  readonly sourceEnd: number;
  readonly targetBase: number;
  readonly targetEnd: number;
}

function runAt(words: DataView, runs: number, index: number): Run {
  const at = runs + index * RUN_BYTES;
  return { source: load(words, at), target: load(words, at + 4), bytes: load(words, at + 8) };
}

function storeRun(words: DataView, runs: number, index: number, run: Run): void {
  const at = runs + index * RUN_BYTES;
  store(words, at, run.source);
  store(words, at + 4, run.target);
  store(words, at + 8, run.bytes);
}

function copyRuns(bytes: Uint8Array, words: DataView, runs: number, count: number, regions: Regions): number {
  const { sourceBase, sourceEnd, targetBase, targetEnd } = regions;
  const listEnd = runs + count * RUN_BYTES;
  if (listEnd > words.byteLength) return REFUSED;
  if (!regionInMemory(words, sourceBase, sourceEnd) || !regionInMemory(words, targetBase, targetEnd))
    return REFUSED;
  if (Math.max(runs, targetBase) < Math.min(listEnd, targetEnd)) return REFUSED;
  for (let i = 0; i < count; i++) {
    const run = runAt(words, runs, i);
    if (sourceBase + run.source + run.bytes > sourceEnd) return i;
    if (targetBase + run.target + run.bytes > targetEnd) return i;
  }
  for (let i = 0; i < count; i++) {
    const run = runAt(words, runs, i);
    const source = sourceBase + run.source;
    bytes.copyWithin(targetBase + run.target, source, source + run.bytes);
  }
  return ALL_FINE;
}

function mergeRuns(words: DataView, runs: number, count: number): number {
  if (!inMemory(words, runs, count * RUN_BYTES)) return REFUSED;
  let kept = 0;
  for (let i = 0; i < count; i++) {
    const run = runAt(words, runs, i);
    if (run.bytes === 0) continue;
    const previous = kept > 0 ? runAt(words, runs, kept - 1) : undefined;
    if (previous && continues(run, previous)) {
      storeRun(words, runs, kept - 1, { ...previous, bytes: previous.bytes + run.bytes });
    } else {
      storeRun(words, runs, kept++, run);
    }
  }
  return kept;
}

function continues(run: Run, previous: Run): boolean {
  if (previous.source + previous.bytes !== run.source) return false;
  return previous.target + previous.bytes === run.target && previous.bytes + run.bytes < 2 ** 32;
}

// Stamps.

interface Range {
  readonly view: number;
  readonly table: number;
  readonly lineage: number;
  readonly from: number;
  readonly to: number;
}

interface Cell {
  readonly position: number;
  readonly kv: number;
  readonly head: number;
  /** Exact when below FAR, and past every address otherwise. */
  readonly address: number;
  readonly stamp: number;
}

/**
 * The view at this address, or undefined when it makes no sense or the lists or the region leave the memory.
 */
function acceptedView(words: DataView, range: Range): CellView | undefined {
  if (!inMemory(words, range.view, CELL_VIEW_BYTES) || !inMemory(words, range.lineage, range.to * 4))
    return undefined;
  const view = viewAt(words, range.view);
  if (view.cellBytes === 0 || view.cellBytes % 4 !== 0 || view.cellsPerBlock === 0) return undefined;
  if (view.kvCount < 1 || view.kvCount > 2 || view.headCount < 1 || view.headCount > HEADS_MAX)
    return undefined;
  const blocks = Math.ceil(range.to / view.cellsPerBlock);
  const listsFit =
    inMemory(words, range.table, blocks * 4) && regionInMemory(words, view.regionStart, view.regionEnd);
  return listsFit ? view : undefined;
}

function viewAt(words: DataView, address: number): CellView {
  const fields = Object.entries(CELL_VIEW).map(([field, word]) => [field, load(words, address + word * 4)]);
  return Object.fromEntries(fields) as CellView;
}

/** All cells of a range in the order position, kv, head. Reads each list entry when its first cell is due. */
function* cellsOf(words: DataView, range: Range, view: CellView): Generator<Cell> {
  let block = 0;
  for (let position = range.from; position < range.to; position++) {
    const token = position % view.cellsPerBlock;
    if (token === 0 || position === range.from) {
      block = load(words, range.table + ((position - token) / view.cellsPerBlock) * 4);
    }
    const lineage = load(words, range.lineage + position * 4);
    const row = view.base + product(block, view.blockStride) + product(token, view.tokenStride);
    for (let kv = 0; kv < view.kvCount; kv++) {
      for (let head = 0; head < view.headCount; head++) {
        const address = row + kv * view.kvStride + product(head, view.headStride);
        yield { position, kv, head, address, stamp: stampOf(lineage, view.layer, kv, view.headFirst + head) };
      }
    }
  }
}

/** A product of two words, exact when below FAR. */
function product(a: number, b: number): number {
  return Math.min(a * b, FAR);
}

function inRegion(view: CellView, cell: Cell): boolean {
  return cell.address >= view.regionStart && cell.address + view.cellBytes <= view.regionEnd;
}

function fillStamps(words: DataView, range: Range): number {
  const view = acceptedView(words, range);
  if (!view) return REFUSED;
  for (const cell of cellsOf(words, range, view)) {
    if (!inRegion(view, cell)) return cell.position;
    for (let i = 0; i < view.cellBytes / 4; i++) store(words, cell.address + i * 4, stampWord(cell.stamp, i));
  }
  return ALL_FINE;
}

function attend(words: DataView, range: Range, result: number): number {
  const view = acceptedView(words, range);
  if (!view || !inMemory(words, result, ATTEND_BYTES)) return REFUSED;
  let sum = 0;
  let mismatch: Cell | undefined;
  for (const cell of cellsOf(words, range, view)) {
    if (!inRegion(view, cell)) {
      report(words, result, sum, cell);
      return OUTSIDE_REGION;
    }
    sum = (sum + load(words, cell.address)) >>> 0;
    if (!mismatch && firstDifference(words, cell, view.cellBytes) >= 0) mismatch = cell;
  }
  report(words, result, sum, mismatch, view.cellBytes);
  return mismatch ? mismatch.position : ALL_FINE;
}

/** The index of the first word that is not as stamped, or -1. */
function firstDifference(words: DataView, cell: Cell, cellBytes: number): number {
  for (let i = 0; i < cellBytes / 4; i++) {
    if (load(words, cell.address + i * 4) !== stampWord(cell.stamp, i)) return i;
  }
  return -1;
}

/** Writes a result that names `cell`, if there is one; and what differs in it, given its size. */
function report(words: DataView, result: number, sum: number, cell: Cell | undefined, cellBytes = 0): void {
  const out = new Array<number>(ATTEND_WORDS).fill(0);
  out[ATTEND.sum] = sum;
  if (cell) {
    out[ATTEND.position] = cell.position;
    out[ATTEND.kv] = cell.kv;
    out[ATTEND.head] = cell.head;
  }
  if (cell && cellBytes > 0) {
    const word = firstDifference(words, cell, cellBytes);
    out[ATTEND.expected] = cell.stamp;
    out[ATTEND.actual] = load(words, cell.address + word * 4);
    out[ATTEND.word] = word;
  }
  for (let i = 0; i < ATTEND_WORDS; i++) store(words, result + i * 4, out[i]!);
}

// Digest.

function digest(bytes: Uint8Array, words: DataView, address: number, length: number, result: number): number {
  if (!inMemory(words, address, length) || !inMemory(words, result, 8)) return REFUSED;
  words.setBigUint64(result, digestOf(bytes.subarray(address, address + length)), true);
  return 0;
}

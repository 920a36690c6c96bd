import { RUN_BYTES, RUN_WORDS } from '../../kv/kernels.ts';
import { type Figure, figure, timeInTurn } from './figures.ts';
import { type KvMemory, shuffled } from './kv-memory.ts';
import { C, type NativeKernels } from './kv-native.ts';

/** Block sizes, and how much of the rate of a memcpy loop is the least for each. */
const SIZES: readonly { readonly kibibytes: number; readonly floor: number }[] = [
  { kibibytes: 4, floor: 0.9 },
  { kibibytes: 16, floor: 0.95 },
  { kibibytes: 64, floor: 0.95 },
  { kibibytes: 256, floor: 0.95 },
  { kibibytes: 1024, floor: 0.95 },
];
/**
 * The list is copied slice by slice: about a millisecond each, so that a busy neighbour spoils few of them. The two sides
 * are half a list apart: neither finds in a cache what the other has just moved.
 */
const SLICES = 8;
const ROUNDS_FACTOR = 2 * SLICES;

/** All blocks of `first` to random places of `second`, by one list: the rate against a loop of memcpy over that list. */
export function copyFigures(memory: KvMemory, native: NativeKernels | undefined, rounds: number): Figure[] {
  const { kernels, first, second, size } = memory;
  return SIZES.map(({ kibibytes, floor }) => {
    const block = kibibytes * 1024;
    const count = size / block / SLICES;
    layRuns(memory, block);
    const base = inSlices(count, 0, (runs) => {
      if (native) native.copyRuns(runs, count, first, second);
      else copyByViews(memory, runs, count);
    });
    const ours = inSlices(count, SLICES / 2, (runs) => {
      kernels.copyRuns(runs, count, first, first + size, second, second + size);
    });
    const { seconds, ratios } = timeInTurn([base, ours], rounds * ROUNDS_FACTOR, 1);
    const against = native ? `a memcpy loop in ${C}` : 'TypedArray.set';
    const rate = (count * block) / seconds[1]! / 1e9;
    return figure(`copy of ${kibibytes} KiB blocks`, rate, 'GB/s', against, 1 / ratios[1]!, 'atLeast', floor);
  });
}

/** Each call copies the next slice, beginning with slice number `start`. */
function inSlices(count: number, start: number, copy: (runs: number) => void): () => void {
  let slice = start;
  return () => {
    copy(slice * count * RUN_BYTES);
    slice = (slice + 1) % SLICES;
  };
}

function layRuns({ words, size }: KvMemory, block: number): void {
  const sources = shuffled(size / block, 1);
  const targets = shuffled(size / block, 2);
  sources.forEach((source, i) => {
    words[i * RUN_WORDS] = source * block;
    words[i * RUN_WORDS + 1] = targets[i]! * block;
    words[i * RUN_WORDS + 2] = block;
  });
}

function copyByViews({ bytes, words, first, second }: KvMemory, runs: number, count: number): void {
  for (let at = runs / 4; at < runs / 4 + count * RUN_WORDS; at += RUN_WORDS) {
    const source = first + words[at]!;
    bytes.set(bytes.subarray(source, source + words[at + 2]!), second + words[at + 1]!);
  }
}

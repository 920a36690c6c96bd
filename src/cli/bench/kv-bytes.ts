import { believe } from '../../base/failure.ts';
import { ALL_FINE, ATTEND_BYTES, CELL_VIEW_BYTES, writeCellView } from '../../kv/kernels.ts';
import { type Figure, figure, timeInTurn } from './figures.ts';
import { type KvMemory, MIB, shuffled } from './kv-memory.ts';
import { C, type NativeKernels } from './kv-native.ts';

/** How much of the rate of a memcpy of the same bytes is the least. */
const DIGEST_FLOOR = 0.9;
const STAMP_FLOOR = 0.3;
/** A call takes ten milliseconds, and a busy neighbour spoils many of them. */
const ROUNDS_FACTOR = 4;

/** K and V of eight heads of 128 bf16, 16 tokens a block. */
const CELL_BYTES = 256;
const HEADS = 8;
const TOKENS = 16;
const TOKEN_BYTES = CELL_BYTES * HEADS * 2;

/** Digest, stamp and check `size` bytes, each beside one memcpy of them. */
export function byteFigures(
  memory: KvMemory,
  native: NativeKernels | undefined,
  rounds: number,
  size = 64 * MIB,
): Figure[] {
  const { kernels, words, bytes, first, second } = memory;
  const positions = Math.floor(size / TOKEN_BYTES / TOKENS) * TOKENS;
  // The digest puts its result at 0.
  const copyAt = 16;
  const viewAt = 64;
  const resultAt = viewAt + CELL_VIEW_BYTES;
  const tableAt = resultAt + ATTEND_BYTES;
  const lineageAt = tableAt + (positions / TOKENS) * 4;
  words.set(shuffled(positions / TOKENS, 8), tableAt / 4);
  words.set(shuffled(positions, 9), lineageAt / 4);
  writeCellView(words, viewAt, {
    base: first,
    blockStride: TOKEN_BYTES * TOKENS,
    kvStride: CELL_BYTES * HEADS,
    tokenStride: TOKEN_BYTES,
    headStride: CELL_BYTES,
    cellBytes: CELL_BYTES,
    cellsPerBlock: TOKENS,
    kvCount: 2,
    headCount: HEADS,
    headFirst: 0,
    layer: 3,
    regionStart: first,
    regionEnd: first + positions * TOKEN_BYTES,
  });
  const fill = () => kernels.fillStamps(viewAt, tableAt, lineageAt, 0, positions);
  const verify = () => kernels.attend(viewAt, tableAt, lineageAt, positions, resultAt);
  believe(fill() === ALL_FINE && verify() === ALL_FINE, 'INV-BENCH-1', 'stamps do not hold');
  words.set([0, 0, size], copyAt / 4);
  const copy = (): void => {
    if (native) native.copyRuns(copyAt, 1, first, second);
    else bytes.copyWithin(second, first, first + size);
  };
  const digest = (): void => {
    kernels.digest(first, size, 0);
  };
  const { seconds, ratios } = timeInTurn([copy, digest, fill, verify], rounds * ROUNDS_FACTOR, 1);
  const against = native ? `memcpy in ${C}` : 'TypedArray.copyWithin';
  return [
    { name: 'digest', moved: size, floor: DIGEST_FLOOR },
    { name: 'stamps, written', moved: positions * TOKEN_BYTES, floor: STAMP_FLOOR },
    { name: 'stamps, verified', moved: positions * TOKEN_BYTES, floor: STAMP_FLOOR },
  ].map(({ name, moved, floor }, index) => {
    const rate = moved / seconds[index + 1]! / 1e9;
    const ratio = moved / size / ratios[index + 1]!;
    return figure(name, rate, 'GB/s', against, ratio, 'atLeast', floor);
  });
}

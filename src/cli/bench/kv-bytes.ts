import { believe } from '../../base/failure.ts';
import { ALL_FINE, ATTEND_BYTES, CELL_VIEW_BYTES, writeCellView } from '../../kv/kernels.ts';
import { type Figure, figure, timeInTurn } from './figures.ts';
import { type KvMemory, MIB, shuffled } from './kv-memory.ts';

/** Floors in GB/s; absolute, so the ratio is the measured rate against the floor. */
const DIGEST_FLOOR = 10;
const STAMP_FLOOR = 2;

/** K and V of eight heads of 128 bf16, 16 tokens a block. */
const CELL_BYTES = 256;
const HEADS = 8;
const TOKENS = 16;
const TOKEN_BYTES = CELL_BYTES * HEADS * 2;

/** Digest, stamp and check `size` bytes. */
export function byteFigures(memory: KvMemory, rounds: number, size = 64 * MIB): Figure[] {
  const { kernels, words, first } = memory;
  const positions = Math.floor(size / TOKEN_BYTES / TOKENS) * TOKENS;
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
  const { seconds } = timeInTurn([() => kernels.digest(first, size, 0), fill, verify], rounds, 1);
  const rate = (name: string, bytes: number, time: number, floor: number): Figure =>
    figure(name, bytes / time / 1e9, 'GB/s', `${floor} GB/s`, bytes / time / 1e9 / floor, 'atLeast', 1);
  return [
    rate('digest', size, seconds[0]!, DIGEST_FLOOR),
    rate('stamps, written', positions * TOKEN_BYTES, seconds[1]!, STAMP_FLOOR),
    rate('stamps, verified', positions * TOKEN_BYTES, seconds[2]!, STAMP_FLOOR),
  ];
}

import { below, finish, mix } from '../../base/mix.ts';
import type { Kernels } from '../../kv/kernels.ts';
import { readKernelBytes } from '../../node/kernel-bytes.ts';
import { instantiateKernels } from '../../sim/load-kernels.ts';

export const MIB = 1024 * 1024;

/**
 * The one memory that every candidate of the suite works in.
 *
 *   | lists | first | second |
 *   0       4 MiB   +size    +size
 */
export interface KvMemory {
  readonly kernels: Kernels;
  readonly buffer: ArrayBuffer;
  readonly bytes: Uint8Array;
  readonly words: Uint32Array;
  readonly doubles: Float64Array;
  readonly first: number;
  readonly second: number;
  /** Bytes of `first` and of `second`. */
  readonly size: number;
}

/** Where `first` begins: room for the lists of every figure. */
const LIST_BYTES = 4 * MIB;

/** Every byte is written once: pages that never were read as one page of zeros, which is no memory to measure. */
export function createKvMemory(size = 128 * MIB): KvMemory {
  const { kernels, memory } = instantiateKernels(
    readKernelBytes(),
    Math.ceil((LIST_BYTES + 2 * size) / 65_536),
  );
  const bytes = new Uint8Array(memory.buffer).fill(0x5a);
  const words = new Uint32Array(memory.buffer);
  const doubles = new Float64Array(memory.buffer);
  return {
    kernels,
    buffer: memory.buffer,
    bytes,
    words,
    doubles,
    first: LIST_BYTES,
    second: LIST_BYTES + size,
    size,
  };
}

/** The numbers below `count` in an order that only `seed` decides. */
export function shuffled(count: number, seed: number): number[] {
  const numbers = Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const j = below(finish(mix(seed, i)), i + 1);
    [numbers[i], numbers[j]] = [numbers[j]!, numbers[i]!];
  }
  return numbers;
}

/** `count` block ids out of `pool`, in stretches of `length` neighbours that lie anywhere. */
export function blockIds(count: number, pool: number, length: number, seed: number): number[] {
  const stretches = shuffled(Math.floor(pool / length), seed);
  return Array.from({ length: count }, (_, i) => stretches[Math.floor(i / length)]! * length + (i % length));
}

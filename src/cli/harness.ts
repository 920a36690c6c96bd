import { readKernelBytes } from '../node/kernel-bytes.ts';
import { instantiateKernels } from '../sim/load-kernels.ts';
import { CHECK_PAGES, CHECK_SIZES, createWorldMemory, type WorldMemory } from '../sim/memory.ts';

/** Kernels and memory for checks; made once and reset for each run. */
export function checkMemory(pages = CHECK_PAGES): WorldMemory {
  return createWorldMemory(instantiateKernels(readKernelBytes(), pages), CHECK_SIZES);
}

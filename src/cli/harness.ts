import { readFileSync, statSync } from 'node:fs';
import { UsageError } from '../base/failure.ts';
import { readKernelBytes } from '../node/kernel-bytes.ts';
import { instantiateKernels } from '../sim/load-kernels.ts';
import { CHECK_PAGES, CHECK_SIZES, createWorldMemory, type WorldMemory } from '../sim/memory.ts';

/** Kernels and memory for checks; made once and reset for each run. */
export function checkMemory(): WorldMemory {
  return createWorldMemory(instantiateKernels(readKernelBytes(), CHECK_PAGES), CHECK_SIZES);
}

/** Longest file that is read: a trace of 200,000 requests is far below. */
const FILE_BYTES_MAX = 512 * 1024 * 1024;

/** @throws UsageError FILE when it is missing, is a folder, or is too long. */
export function readText(path: string): string {
  try {
    const { size } = statSync(path);
    if (size > FILE_BYTES_MAX)
      throw new UsageError('FILE', `${path}: ${size} bytes, at most ${FILE_BYTES_MAX} are read`);
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError('FILE', `${path}: cannot be read: ${(error as Error).message}`);
  }
}

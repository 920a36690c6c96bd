import { UsageError } from '../base/failure.ts';
import { findNativeAddon } from './native-addon.ts';
import { halfOf, type NativeProvider } from './native-core.ts';

/**
 * Memory for a fabric or an engine that the bridge allocates: zeros that begin on a page, or on a huge page from 2 MiB on, and
 * that a forked child does not get. It lives as long as JavaScript or an engine has it. Other memory will do as well; this kind is
 * what a NIC pins without complaint and what the shm provider moves fastest.
 * @param bytes from 1 to 2^36
 * @throws UsageError NATIVE where the half of this provider is missing, FABRIC-MEMORY for a size that cannot be had
 */
export function allocateNativeMemory(provider: NativeProvider, bytes: number): Uint8Array<ArrayBuffer> {
  const found = findNativeAddon(halfOf(provider));
  if (found.addon === null) throw new UsageError('NATIVE', `native: not available, because ${found.reason}`);
  try {
    return new Uint8Array(found.addon.allocate(bytes));
  } catch (error) {
    throw new UsageError('FABRIC-MEMORY', `${bytes} bytes: ${(error as Error).message}`);
  }
}

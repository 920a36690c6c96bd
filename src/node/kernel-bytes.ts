import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { UsageError } from '../base/failure.ts';

/** From src/node and from dist/node alike, this leads to the `dist` of the package. */
const KERNELS_URL = new URL('../../dist/kernels.wasm', import.meta.url);

/**
 * The bytes of the kernel module, as `npm run build:kernels` leaves them.
 * @throws UsageError KERNELS-MISSING when it was not built.
 */
export function readKernelBytes(): Uint8Array {
  const path = fileURLToPath(KERNELS_URL);
  if (!existsSync(path)) {
    throw new UsageError('KERNELS-MISSING', `no kernel module at ${path}: run \`npm run build:kernels\``);
  }
  return readFileSync(path);
}

import { existsSync, readFileSync } from 'node:fs';
import { UsageError } from '../base/failure.ts';
import { packageFile } from './package-file.ts';

/**
 * The bytes of the kernel module, as `npm run build:kernels` leaves them.
 * @throws UsageError KERNELS-MISSING when it was not built.
 */
export function readKernelBytes(): Uint8Array {
  const path = packageFile('dist/kernels.wasm');
  if (!existsSync(path)) {
    throw new UsageError('KERNELS-MISSING', `no kernel module at ${path}: run \`npm run build:kernels\``);
  }
  return readFileSync(path);
}

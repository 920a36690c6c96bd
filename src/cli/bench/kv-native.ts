import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Kernels } from '../../kv/kernels.ts';
import { packageFile } from '../../node/package-file.ts';

/** The C side: bench/native/kv.c, the same loops without checks over the same memory. */
export interface NativeKernels extends Pick<Kernels, 'planWholeBlocks' | 'planParts'> {
  attach(memory: ArrayBuffer): number;
  copyRuns(runs: number, count: number, sourceBase: number, targetBase: number): number;
}

/** What C figures are compared with, so that a reader knows how it was made. */
export const C = 'C (cc -O3 -march=native)';

const FLAGS = ['-O3', '-march=native', '-shared', '-fPIC'];
const COMPILE_MILLISECONDS_MAX = 120_000;
const SOURCE_FILE = 'bench/native/kv.c';

/** Compiles and loads the C side and gives it the memory; or says why there is none. */
export function loadNative(memory: ArrayBuffer): NativeKernels | { readonly missing: string } {
  const source = packageFile(SOURCE_FILE);
  if (!existsSync(source)) return { missing: 'bench/native is not here: it is not part of the package' };
  const headers = headerFolder();
  if (headers === undefined) return { missing: 'node_api.h is not beside node' };
  const folder = mkdtempSync(join(tmpdir(), 'moriarty-bench-'));
  try {
    const path = join(folder, 'kv.node');
    execFileSync('cc', [...FLAGS, `-I${headers}`, source, '-o', path], {
      stdio: 'pipe',
      timeout: COMPILE_MILLISECONDS_MAX,
    });
    const module: { exports: object } = { exports: {} };
    process.dlopen(module, path);
    const native = module.exports as NativeKernels;
    native.attach(memory);
    return native;
  } catch (error) {
    return { missing: `bench/native/kv.c does not compile here: ${(error as Error).message.split('\n')[0]}` };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function headerFolder(): string | undefined {
  const beside = join(dirname(process.execPath), '..', 'include', 'node');
  return [beside, '/usr/include/node', '/usr/local/include/node'].find((folder) =>
    existsSync(join(folder, 'node_api.h')),
  );
}

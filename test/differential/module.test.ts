import { describe, expect, test } from 'vitest';
import { readKernelBytes } from '../../src/node/kernel-bytes.ts';
import { instantiateKernelsAsync } from '../../src/sim/load-kernels.ts';
import { PAGE_BYTES, small } from './pair.ts';

declare const WebAssembly: {
  readonly Module: { new (bytes: Uint8Array): object; imports(module: object): object[] };
};

describe('the release module', () => {
  test('imports its memory and nothing else', () => {
    const imports = WebAssembly.Module.imports(new WebAssembly.Module(readKernelBytes()));
    expect(imports).toEqual([{ module: 'env', name: 'memory', kind: 'memory' }]);
  });

  test('exports exactly the kernels of the twin', () => {
    expect(Object.keys(small.module).sort()).toEqual(Object.keys(small.twin).sort());
  });

  test('leaves a fresh memory all zero, since it holds no static data', async () => {
    const { memory, kernels } = await instantiateKernelsAsync(readKernelBytes(), 3);
    expect(Buffer.from(memory.buffer).equals(Buffer.alloc(3 * PAGE_BYTES))).toBe(true);
    expect(kernels.digest(0, 64, 64)).toBe(0);
  });
});

import type { Kernels } from '../kv/kernels.ts';

/** What the standard library of ES2023 does not declare, as far as we need it. One page is 64 KiB. */
interface WasmMemory {
  readonly buffer: ArrayBuffer;
}
type WasmModule = object;
interface WasmInstance {
  readonly exports: object;
}
interface WasmImports {
  readonly env: { readonly memory: WasmMemory };
}
declare const WebAssembly: {
  readonly Memory: new (size: { initial: number; maximum: number }) => WasmMemory;
  readonly Module: new (bytes: Uint8Array) => WasmModule;
  readonly Instance: new (module: WasmModule, imports: WasmImports) => WasmInstance;
  instantiate(bytes: Uint8Array, imports: WasmImports): Promise<{ readonly instance: WasmInstance }>;
};

/**
 * Kernels and the memory all their addresses refer to. Views of `memory.buffer` stay valid: it never grows.
 */
export interface LoadedKernels {
  readonly kernels: Kernels;
  readonly memory: { readonly buffer: ArrayBuffer };
}

/** Compiles the module `bytes` and gives it a memory of `pages` times 64 KiB, 1 to 65,536 pages, all zero. */
export function instantiateKernels(bytes: Uint8Array, pages: number): LoadedKernels {
  const memory = fixedMemory(pages);
  const instance = new WebAssembly.Instance(new WebAssembly.Module(bytes), { env: { memory } });
  return { kernels: kernelsOf(instance), memory };
}

/** The same for browsers, whose main thread may refuse to compile synchronously. */
export async function instantiateKernelsAsync(bytes: Uint8Array, pages: number): Promise<LoadedKernels> {
  const memory = fixedMemory(pages);
  const { instance } = await WebAssembly.instantiate(bytes, { env: { memory } });
  return { kernels: kernelsOf(instance), memory };
}

function fixedMemory(pages: number): WasmMemory {
  return new WebAssembly.Memory({ initial: pages, maximum: pages });
}

/** The exports are the kernels: test/differential holds each of them against its twin. */
function kernelsOf(instance: WasmInstance): Kernels {
  return instance.exports as Kernels;
}

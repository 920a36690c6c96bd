/** What needs Node: memory with the kernels in it, and the native backend (docs/NATIVE.md). */

export { checkMemory } from './cli/harness.ts';
export { readKernelBytes } from './node/kernel-bytes.ts';
export {
  type NativeEngine,
  type NativeEngineOpened,
  type NativeEngineOptions,
  type NativePeer,
  type NativeRegion,
  openNativeEngine,
  type PeerRegion,
} from './node/native-engine.ts';
export {
  type NativeFabric,
  type NativeOpened,
  type NativeOptions,
  openNativeFabric,
} from './node/native-fabric.ts';
export { allocateNativeMemory } from './node/native-memory.ts';

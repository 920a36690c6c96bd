// The export list of dist/kernels.wasm. Interface: src/kv/kernels.ts. Specification: test/reference/kernel-twin.ts.
//
// The module imports its memory and nothing else, holds no static data and allocates nothing: several
// instances may share one memory, and no kernel writes a byte whose address was not handed in.
export { planWholeBlocks } from './blocks';
export { digest } from './digest';
export { planParts } from './parts';
export { joinRows, mergeRows } from './rows';
export { copyRuns, mergeRuns } from './runs';
export { attend, fillStamps } from './stamps';

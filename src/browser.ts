import { runSeed } from './explore/run.ts';
import { scenarioByName } from './explore/scenario-names.ts';
import { instantiateKernelsAsync } from './sim/load-kernels.ts';
import { CHECK_PAGES, CHECK_SIZES, createWorldMemory } from './sim/memory.ts';

/** Entry for a web page: the same world, with the kernels handed in as bytes. */
export async function digestsOf(
  kernelBytes: Uint8Array,
  scenarioName: string,
  seeds: readonly number[],
): Promise<string[]> {
  const scenario = scenarioByName(scenarioName);
  if (scenario === undefined) return [];
  const memory = createWorldMemory(await instantiateKernelsAsync(kernelBytes, CHECK_PAGES), CHECK_SIZES);
  return seeds.map((seed) => runSeed(memory, scenario, seed).result.digest);
}

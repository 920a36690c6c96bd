import { runSeed } from '../../src/explore/run.ts';
import { SHIPPED_MIX } from '../../src/zoo/shipped.ts';
import { newMemory } from '../helpers/world.ts';

/** The digests of seeds 0 to count - 1 of the default mix, one a line. Run by itself it prints them. */
export function digestsOf(count: number): string[] {
  const memory = newMemory();
  return Array.from({ length: count }, (_, seed) => runSeed(memory, SHIPPED_MIX, seed).result.digest);
}

if (process.argv[1]?.endsWith('digests.ts'))
  process.stdout.write(digestsOf(Number(process.argv[2])).join('\n'));

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { runSeed } from '../../src/explore/run.ts';
import { SHIPPED_MIX } from '../../src/zoo/shipped.ts';
import { newMemory } from '../helpers/world.ts';
import { digestsOf } from './digests.ts';

const SEED = 17;
const SEEDS = 100;

/** The digests that another process finds. */
function digestsElsewhere(count: number, ...flags: string[]): string[] {
  const script = fileURLToPath(new URL('digests.ts', import.meta.url));
  const options = { encoding: 'utf8', cwd: fileURLToPath(new URL('../..', import.meta.url)) } as const;
  return execFileSync(process.execPath, [...flags, '--import', 'tsx', script, String(count)], options).split(
    '\n',
  );
}

describe('one seed', () => {
  test('has one digest in ten thousand runs', () => {
    const memory = newMemory();
    const digests = new Set<string>();
    let steps = 0;
    for (let run = 0; run < 10_000; run++) {
      const { result } = runSeed(memory, SHIPPED_MIX, SEED);
      digests.add(result.digest);
      steps += result.steps;
    }
    expect([...digests]).toHaveLength(1);
    expect(steps).toBeGreaterThan(500_000);
  });

  test('has the same digest whatever ran before it in the same memory', () => {
    const fresh = runSeed(newMemory(), SHIPPED_MIX, SEED).result;
    const used = newMemory();
    let others = 0;
    for (let seed = 0; seed < 200; seed++) {
      others += runSeed(used, SHIPPED_MIX, 1000 + seed).result.digest === fresh.digest ? 0 : 1;
      const again = runSeed(used, SHIPPED_MIX, SEED).result;
      expect([again.digest, again.steps, again.atMicros]).toEqual([
        fresh.digest,
        fresh.steps,
        fresh.atMicros,
      ]);
    }
    expect(others).toBe(200);
  });
});

describe('a hundred seeds', () => {
  const here = digestsOf(SEEDS);

  test('have a hundred digests of 64 bits', () => {
    expect(new Set(here).size).toBe(SEEDS);
    expect(here.every((digest) => /^[0-9a-f]{16}$/.test(digest))).toBe(true);
  });

  test('have the same digests in another process, with and without its optimizing compilers', () => {
    const sum = (digests: readonly string[]): string =>
      createHash('sha256').update(digests.join('\n')).digest('hex');
    expect(sum(digestsElsewhere(SEEDS))).toBe(sum(here));
    expect(sum(digestsElsewhere(SEEDS, '--no-opt', '--liftoff-only'))).toBe(sum(here));
    expect(sum(here.with(3, 'x'))).not.toBe(sum(here));
  });
});

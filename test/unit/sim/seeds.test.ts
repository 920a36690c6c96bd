import { describe, expect, test } from 'vitest';
import { UsageError } from '../../../src/base/failure.ts';
import { finish, mix } from '../../../src/base/mix.ts';
import { runCampaign } from '../../../src/explore/campaign.ts';
import { rootOf, runSeed, SEED_FROM_MAX } from '../../../src/explore/run.ts';
import { SHIPPED_MIX } from '../../../src/zoo/shipped.ts';
import { newMemory } from '../../helpers/world.ts';

const memory = newMemory();
const digestOf = (seed: number): string => runSeed(memory, SHIPPED_MIX, seed).result.digest;

test('every bit of a seed counts', () => {
  const seeds = [7, ...Array.from({ length: 21 }, (_, bit) => 7 + 2 ** (32 + bit))].filter(
    Number.isSafeInteger,
  );
  expect(seeds.length).toBeGreaterThan(20);
  expect(new Set(seeds.map(digestOf)).size).toBe(seeds.length);
});

test('seeds below 2^32 have the schedules they always had', () => {
  const seeds = [0, 7, 2 ** 31, 2 ** 32 - 1];
  expect(seeds.map(rootOf)).toEqual(seeds.map((seed) => finish(mix(0x6b76, seed))));
});

describe('a seed that is no integer from 0 to 2^53 - 1 is refused', () => {
  test.each([-1, 0.5, Number.NaN, 2 ** 53, Number.POSITIVE_INFINITY, '7', null, 7n])('%s', (seed) => {
    expect(() => runSeed(memory, SHIPPED_MIX, seed as number)).toThrow(UsageError);
    const campaign = { scenario: SHIPPED_MIX, seedFrom: seed as number, stopAtFirst: false };
    expect(() => runCampaign(memory, { ...campaign, goOn: (done) => done < 2 })).toThrow(UsageError);
  });

  test('and one so high that the next seeds of a campaign are none', () => {
    const campaign = { scenario: SHIPPED_MIX, stopAtFirst: false, goOn: (done: number) => done < 2 };
    expect(() => runCampaign(memory, { ...campaign, seedFrom: SEED_FROM_MAX + 1 })).toThrow(UsageError);
    expect(runCampaign(memory, { ...campaign, seedFrom: SEED_FROM_MAX })).toMatchObject({ schedules: 2 });
  });
});

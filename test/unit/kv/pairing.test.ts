import { describe, expect, test } from 'vitest';
import { type LayoutName, type LayoutShape, layoutByName } from '../../../src/kv/layouts.ts';
import { type EngineSide, planTransfer, refusalOfEngines } from '../../../src/kv/transfer.ts';

const shape: LayoutShape = {
  layerFirst: 0,
  layerCount: 1,
  blockCount: 4,
  blockTokens: 2,
  headFirst: 0,
  headCount: 1,
  headSize: 8,
  dtype: 'bf16',
  elementBytes: 2,
};

function engine(
  tpSize: number,
  caches: readonly (readonly [LayoutName, Partial<LayoutShape>])[],
): EngineSide {
  const ranks = Array.from({ length: tpSize }, (_, tpRank) => ({
    tpRank,
    layers: caches.flatMap(([name, more]) => layoutByName(name, { ...shape, ...more })),
  }));
  return { heads: 1, tpSize, ranks };
}

function plan(local: EngineSide, remote: EngineSide, lists: readonly (readonly number[])[]) {
  const blocks = lists.map((list) => ({ blocks: list, firstToken: 0 }));
  const sides = { local, remote, localBlocks: blocks, remoteBlocks: blocks };
  return planTransfer({ operation: 'write', ...sides, tokenFrom: 0, tokenTo: 2 });
}

describe('caches of one layer number', () => {
  const two = engine(1, [
    ['mla', { group: 0, region: 0 }],
    ['mla', { group: 1, region: 1 }],
  ]);
  test('are filled each from its own group', () => {
    const regions = plan(two, two, [[0], [1]]).map(({ localRegion, remoteRegion }) => [
      localRegion,
      remoteRegion,
    ]);
    expect(regions).toEqual([
      [0, 0],
      [1, 1],
    ]);
  });
  test('are refused when nothing tells them apart', () => {
    const same = engine(1, [
      ['mla', { region: 0 }],
      ['mla', { region: 1 }],
    ]);
    expect(refusalOfEngines(same, same)).toContain('two caches of group 0');
  });
  test('of two groups over one region may not name the same bytes', () => {
    const shared = engine(1, [
      ['mla', { group: 0 }],
      ['mla', { group: 1 }],
    ]);
    expect(() => plan(two, shared, [[1], [1]])).toThrow(expect.objectContaining({ code: 'PLAN-RANGE' }));
    expect(plan(two, shared, [[0], [1]])).toHaveLength(2);
  });
});

test.each(['unified-blhnc', 'unified-lbhnc', 'sglang-mla'] as const)(
  'a latent row is one in mla and %s',
  (name) => {
    const [latent, other] = [engine(1, [['mla', {}]]), engine(1, [[name, { headSizeV: 0 }]])];
    expect(plan(latent, other, [[3]])[0]!.runs).toEqual([96, 96, 32]);
    expect(plan(other, latent, [[3]])[0]!.runs).toEqual([96, 96, 32]);
  },
);

test('a recurrent state moves between equal TP sizes only', () => {
  const states = [{ name: 'ssm', bytes: 8 }];
  const [one, both] = [engine(1, [['mamba', { states }]]), engine(2, [['mamba', { states }]])];
  expect(refusalOfEngines(both, one)).toContain('cannot be resharded');
  expect(refusalOfEngines(one, one)).toBe('');
});

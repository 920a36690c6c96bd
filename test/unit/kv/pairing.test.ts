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

describe('a number that is none', () => {
  const one = engine(1, [['mla', {}]]);
  const good = [{ blocks: [0, 1], firstToken: 0 }];
  const sides = {
    operation: 'write' as const,
    local: one,
    remote: one,
    localBlocks: good,
    remoteBlocks: good,
  };
  const refused = expect.objectContaining({ code: 'PLAN-RANGE' });
  test.each([1.5, Number.NaN, -1, -0, Number.POSITIVE_INFINITY, 4, 2 ** 32])('is refused: %d', (odd) => {
    const blocks = [{ blocks: [0, odd], firstToken: 0 }];
    const range = { ...sides, tokenFrom: 0, tokenTo: 4 };
    expect(() => planTransfer({ ...range, localBlocks: blocks })).toThrow(refused);
    expect(() => planTransfer({ ...range, remoteBlocks: blocks })).toThrow(refused);
    if (odd >= 4 && odd < Number.POSITIVE_INFINITY) return;
    expect(() => planTransfer({ ...sides, tokenFrom: 0, tokenTo: odd })).toThrow(refused);
    expect(() => planTransfer({ ...sides, tokenFrom: odd, tokenTo: 4 })).toThrow(refused);
  });
});

test('groups of unequal blocks over one region of the target may not meet in part', () => {
  const shared = engine(1, [
    ['mla', { group: 0 }],
    ['mla', { group: 1, blockTokens: 4, blockCount: 2 }],
  ]);
  const source = engine(1, [
    ['mla', { group: 0, region: 0 }],
    ['mla', { group: 1, region: 1, blockTokens: 4, blockCount: 2 }],
  ]);
  const lists = (first: number, second: number) => [
    { blocks: [first], firstToken: 0 },
    { blocks: [second], firstToken: 0 },
  ];
  const write = (first: number, second: number) =>
    planTransfer({
      operation: 'write',
      local: source,
      remote: shared,
      localBlocks: lists(first, second),
      remoteBlocks: lists(first, second),
      tokenFrom: 0,
      tokenTo: 2,
    });
  // Block 1 of the second group lies where blocks 2 and 3 of the first do.
  expect(() => write(2, 1)).toThrow(expect.objectContaining({ code: 'PLAN-RANGE' }));
  expect(write(0, 1)).toHaveLength(2);
});

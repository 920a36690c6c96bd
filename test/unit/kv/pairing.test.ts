import { describe, expect, test } from 'vitest';
import { type LayoutName, type LayoutShape, layoutByName } from '../../../src/kv/layouts.ts';
import { parseTensor } from '../../../src/kv/parse.ts';
import { refusalOf } from '../../../src/kv/refusal.ts';
import { type EngineSide, planRanks, planTransfer, refusalOfEngines } from '../../../src/kv/transfer.ts';

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

describe('a recurrent state', () => {
  const slots = (name: string) => [{ name, bytes: 8 }];
  const held = (tpSize: number, name: string): EngineSide => {
    const ranks = Array.from({ length: tpSize }, (_, tpRank) => {
      return { tpRank, layers: layoutByName('mamba', { ...shape, states: slots(name), headFirst: tpRank }) };
    });
    return { heads: 1, tpSize, ranks };
  };
  const parsed = (tpSize: number): EngineSide => {
    const tensor = { shape: [4, 1, 8], stride: [8, 8, 1], dtype: 'fp8', elementBytes: 1 };
    const spec = { latent: true, blockTokens: 2, unitTokens: 2 };
    const ranks = Array.from({ length: tpSize }, (_, tpRank) => {
      const site = { layer: 0, group: 0, region: 0, base: 0, headFirst: tpRank };
      return { tpRank, layers: [parseTensor(tensor, spec, site)] };
    });
    return { heads: 1, tpSize, ranks };
  };

  test.each(['ssm', 'conv', 'a state of another name'])(
    '%s moves between equal ranks of equal TP sizes',
    (name) => {
      expect(refusalOfEngines(held(2, name), held(1, name))).toContain('cannot be resharded');
      expect(refusalOfEngines(held(1, name), held(2, name))).toContain('cannot be resharded');
      const pairs = planRanks(held(4, name), held(4, name)).map(({ source, target }) => [source, target]);
      expect(pairs).toEqual([0, 1, 2, 3].map((rank) => [rank, rank]));
    },
  );

  test('read off a tensor does so too, and of another rank it is not taken', () => {
    expect(refusalOfEngines(parsed(2), parsed(1))).toContain('cannot be resharded');
    expect(refusalOfEngines(parsed(2), parsed(2))).toBe('');
    const [zero, one] = parsed(2).ranks.map(({ layers }) => layers[0]!);
    expect(refusalOf(zero!, one!)).toBe('layer 0: a state of rank 0 here, of rank 1 at the peer');
  });

  test('whose view was made by hand with one head number for all ranks goes to its own rank', () => {
    const byHand = (tpSize: number): EngineSide => {
      const ranks = held(tpSize, 'ssm').ranks.map(({ tpRank, layers }) => {
        return { tpRank, layers: layers.map((view) => ({ ...view, headFirst: 0 })) };
      });
      return { heads: 1, tpSize, ranks: ranks.toReversed() };
    };
    const pairs = planRanks(byHand(3), byHand(3)).map(({ source, target }) => [source, target]);
    expect(pairs).toEqual([0, 1, 2].map((rank) => [rank, rank]));
  });

  test('does not ask whether heads can be split: it has none', () => {
    const states = layoutByName('mamba', { ...shape, states: slots('ssm'), layerFirst: 1 });
    const context = { ranks: 4, rank: 0, interleaveUnits: 2 };
    const ranks = Array.from({ length: 4 }, (_, tpRank) => {
      const attention = layoutByName('packed-hnd', {
        ...shape,
        context: { ...context, rank: tpRank },
        headCount: 3,
      });
      const state = states.map((view) => ({ ...view, group: 1, headFirst: tpRank }));
      return { tpRank, layers: [...attention, ...state] };
    });
    const engine = { heads: 3, tpSize: 4, ranks };
    expect(refusalOfEngines(engine, engine)).toBe('');
  });
});

describe('heads', () => {
  const slice = (tpRank: number, headFirst: number, headCount: number) => {
    return { tpRank, layers: layoutByName('packed-hnd', { ...shape, headFirst, headCount }) };
  };
  const target = { heads: 4, tpSize: 1, ranks: [slice(0, 0, 4)] };

  test('that two ranks of the source hold in unequal ways are refused, though their number is right', () => {
    const overlapping = { heads: 4, tpSize: 2, ranks: [slice(0, 0, 2), slice(1, 1, 2)] };
    expect(refusalOfEngines(overlapping, target)).toContain('share its heads in unequal ways');
    const wide = { heads: 4, tpSize: 2, ranks: [slice(0, 0, 2), slice(1, 0, 4)] };
    expect(refusalOfEngines(wide, target)).toContain('share its heads in unequal ways');
  });

  test('of one cache in two tensors of a rank are taken from both', () => {
    const layers = [0, 2].flatMap((headFirst, region) =>
      layoutByName('packed-hnd', { ...shape, headFirst, headCount: 2, region }),
    );
    const source = { heads: 4, tpSize: 1, ranks: [{ tpRank: 0, layers }] };
    const planned = plan(source, target, [[3]]);
    expect(planned.map(({ localRegion, runs }) => [localRegion, runs.at(2)])).toEqual([
      [0, 128],
      [1, 128],
    ]);
    expect(plan(target, source, [[3]]).map(({ remoteRegion }) => remoteRegion)).toEqual([0, 1]);
  });
});

test('what the source has of a layer is said when nothing of it is for the cache of the target', () => {
  const both = engine(1, [
    ['mla', { group: 0 }],
    ['sparse-index', { group: 1, region: 1, elementBytes: 1, headSize: 132 }],
  ]);
  const other = engine(1, [
    ['mla', { group: 0, dtype: 'fp16' }],
    ['sparse-index', { group: 1, region: 1, elementBytes: 1, headSize: 132 }],
  ]);
  expect(refusalOfEngines(both, other)).toMatch(
    /the source has 'bf16 latent8' of group 0, .* 'fp16 latent8' of group 0/,
  );
});

test('side scales of NVFP4 and the scales in its rows are parts of their own', () => {
  const [view] = layoutByName('nvfp4', { ...shape, headSize: 16, elementBytes: 1, headScales: true });
  const names = view!.parts.map(({ name }) => name);
  expect(new Set(names).size).toBe(6);
  expect(refusalOf(view!, view!)).toBe('');
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

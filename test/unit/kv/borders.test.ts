import { describe, expect, test } from 'vitest';
import { finish, mix } from '../../../src/base/mix.ts';
import { LAYOUT_NAMES, type LayoutShape, layoutByName } from '../../../src/kv/layouts.ts';
import { type CacheSpec, type CacheTensor, parseTensor, type TensorSite } from '../../../src/kv/parse.ts';
import { type LayerSide, planLayer } from '../../../src/kv/plan.ts';
import { refusalOf } from '../../../src/kv/refusal.ts';
import { planTransfer, refusalOfEngines, type Transfer } from '../../../src/kv/transfer.ts';
import { headsOfRank, layView, ORDERS, sourceRanks, targetRanks } from '../../../src/kv/view.ts';

/** Numbers that a caller may give and that are none: every entry gives a value or a refusal with a code. */

const SHAPE: LayoutShape = {
  layerFirst: 0,
  layerCount: 1,
  blockCount: 8,
  blockTokens: 4,
  headFirst: 0,
  headCount: 2,
  headSize: 16,
  dtype: 'bf16',
  elementBytes: 2,
};
const ENGINE = { heads: 2, tpSize: 1, ranks: [{ tpRank: 0, layers: layoutByName('packed-hnd', SHAPE) }] };
const TRANSFER: Transfer = {
  operation: 'write',
  local: ENGINE,
  remote: ENGINE,
  localBlocks: [{ blocks: [3, 1, 2], firstToken: 0 }],
  remoteBlocks: [{ blocks: [5, 0], firstToken: 4 }],
  tokenFrom: 4,
  tokenTo: 12,
};

const BAD = [1.5, Number.NaN, -1, -0, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 2 ** 53, 1e300];

describe.each(BAD)('a number of %d', (bad) => {
  const list = { blocks: [3, bad, 2], firstToken: 0 };
  test.each<[string, Partial<Transfer>]>([
    ['a block of the source', { localBlocks: [list] }],
    ['a block of the target', { remoteBlocks: [list] }],
    ['a block that is not wanted', { remoteBlocks: [{ blocks: [5, 0, bad], firstToken: 4 }] }],
    ['the first token of a list', { localBlocks: [{ blocks: [3, 1, 2], firstToken: bad }] }],
    ['the first token', { tokenFrom: bad }],
    ['the last token', { tokenTo: bad }],
  ])('is refused as %s', (_, change) => {
    for (const operation of ['read', 'write'] as const)
      expect(() => planTransfer({ ...TRANSFER, operation, ...change })).toThrow(
        expect.objectContaining({ code: 'PLAN-RANGE' }),
      );
  });

  test('is refused by planLayer in the same places', () => {
    const [layer] = ENGINE.ranks[0]!.layers;
    const side: LayerSide = { layer: layer!, blocks: [3, 1, 2], firstToken: 0 };
    const refused = expect.objectContaining({ code: 'PLAN-RANGE' });
    expect(() => planLayer({ ...side, blocks: [3, bad, 2] }, side, { from: 0, to: 12 }, [])).toThrow(refused);
    expect(() => planLayer(side, { ...side, blocks: [3, bad, 2] }, { from: 0, to: 12 }, [])).toThrow(refused);
    expect(() => planLayer(side, { ...side, firstToken: bad }, { from: 0, to: 12 }, [])).toThrow(refused);
    expect(() => planLayer(side, side, { from: bad, to: 12 }, [])).toThrow(refused);
    expect(() => planLayer(side, side, { from: 0, to: bad }, [])).toThrow(refused);
  });
});

test('a block beyond its cache and a list that begins within a block are refused', () => {
  const lists = [{ blocks: [3, 1, 8], firstToken: 0 }];
  expect(() => planTransfer({ ...TRANSFER, localBlocks: lists })).toThrow(/block 8 of group 0 is none of 8/);
  const within = [{ blocks: [3, 1, 2], firstToken: 2 }];
  expect(() => planTransfer({ ...TRANSFER, localBlocks: within })).toThrow(/token 2 begins no block/);
});

test('a transfer with more cells than are looked at is refused before they are', () => {
  const wide = layoutByName('packed-hnd', { ...SHAPE, headCount: 2 ** 31, blockTokens: 1, headSize: 1 });
  const engine = { heads: 2 ** 31, tpSize: 1, ranks: [{ tpRank: 0, layers: wide }] };
  const huge = { ...TRANSFER, local: engine, remote: engine, tokenFrom: 0, tokenTo: 2 };
  expect(() => planTransfer({ ...huge, remoteBlocks: TRANSFER.localBlocks })).toThrow(
    expect.objectContaining({ code: 'PLAN-SIZE' }),
  );
  const side = { layer: wide[0]!, blocks: [1, 2], firstToken: 0 };
  expect(() => planLayer(side, side, { from: 0, to: 2 }, [])).toThrow(
    expect.objectContaining({ code: 'PLAN-SIZE' }),
  );
});

/** What one field may become. */
const ODD: readonly unknown[] = [
  ...BAD,
  0,
  1,
  2,
  3,
  4,
  16,
  65_536,
  2 ** 31,
  2 ** 32,
  2 ** 40,
  null,
  '3',
  true,
  [],
];

/** A copy of which some numbers are odd. */
function spoiled<Value>(value: Value, draw: (below: number) => number): Value {
  const copy = structuredClone(value);
  const places: { holder: Record<string, unknown>; key: string }[] = [];
  const visit = (holder: Record<string, unknown>): void => {
    for (const [key, inner] of Object.entries(holder)) {
      if (typeof inner === 'number') places.push({ holder, key });
      else if (typeof inner === 'object' && inner !== null) visit(inner as Record<string, unknown>);
    }
  };
  visit(copy as Record<string, unknown>);
  for (let count = 1 + draw(2); count > 0; count--) {
    const { holder, key } = places[draw(places.length)]!;
    holder[key] = ODD[draw(ODD.length)];
  }
  return copy;
}

const TENSOR: { tensor: CacheTensor; spec: CacheSpec; site: TensorSite } = {
  tensor: { shape: [2, 8, 16, 3, 8], stride: [3072, 384, 24, 8, 1], dtype: 'bf16', elementBytes: 2 },
  spec: { latent: false, blockTokens: 16, heads: 3, headSize: 8, unitTokens: 1 },
  site: { layer: 0, group: 0, region: 0, base: 0, headFirst: 0 },
};
const [LAYER] = ENGINE.ranks[0]!.layers;
const LAID = { blockCount: 4, blockUnits: 4, unitTokens: 1, cellBytes: 4, headFirst: 0, headCount: 1 };
const ONE_HEAD: readonly string[] = ['mla', 'mla-fp8', 'sparse-index', 'sglang-mla', 'mamba'];

const ENTRIES: { readonly [name: string]: (draw: (below: number) => number) => unknown } = {
  layoutByName: (draw) => {
    const name = LAYOUT_NAMES[draw(LAYOUT_NAMES.length)]!;
    const headCount = ONE_HEAD.includes(name) ? 1 : 2;
    const states = name === 'mamba' ? { states: [{ name: 'ssm', bytes: 4 }] } : {};
    return layoutByName(name, spoiled({ ...SHAPE, headCount, kernelTokens: 4, ...states }, draw));
  },
  parseTensor: (draw) => {
    const { tensor, spec, site } = spoiled(TENSOR, draw);
    return parseTensor(tensor, spec, site);
  },
  layView: (draw) => {
    const { layer, base, ...shape } = spoiled({ ...LAID, layer: 0, base: 0 }, draw);
    return layView(layer, base, { ...shape, order: ORDERS[draw(ORDERS.length)]! });
  },
  headsOfRank: (draw) => {
    const [heads, tpSize, tpRank] = spoiled([8, 4, 1] as const, draw);
    return headsOfRank(heads, tpSize, tpRank);
  },
  sourceRanks: (draw) => {
    const [heads, sourceTp, targetTp, rank] = spoiled([8, 4, 2, 1] as const, draw);
    return [sourceRanks(heads, sourceTp, targetTp, rank), targetRanks(heads, sourceTp, targetTp, rank)];
  },
  planLayer: (draw) => {
    const side = { layer: LAYER!, blocks: [3, 1, 2], firstToken: 0 };
    const { here, there, from, to } = spoiled({ here: side, there: side, from: 4, to: 12 }, draw);
    const runs: number[] = [];
    planLayer(here, there, { from, to }, runs);
    return runs;
  },
  refusalOf: (draw) => refusalOf(spoiled(LAYER!, draw), LAYER!),
  refusalOfEngines: (draw) => refusalOfEngines(spoiled(ENGINE, draw), ENGINE),
  planTransfer: (draw) => planTransfer(spoiled(TRANSFER, draw)).flatMap(({ runs }) => runs),
};

test.each(Object.keys(ENTRIES))(
  '%s gives a value of whole numbers or a refusal with a code, whatever the numbers',
  (entry) => {
    const outcomes = { value: 0, refused: 0 };
    for (let round = 0; round < 1000; round++) {
      let drawn = 0;
      const draw = (below: number): number => finish(mix(round, drawn++)) % below;
      try {
        const value = ENTRIES[entry]!(draw);
        outcomes.value++;
        const text = JSON.stringify(value);
        expect(text).not.toMatch(/(?<=[:[,])(?:-|null|\d+\.\d|\d+(?:\.\d+)?e)/);
      } catch (error) {
        expect(error).toMatchObject({ name: 'UsageError', code: expect.stringMatching(/^[A-Z]+-[A-Z]+$/) });
        outcomes.refused++;
      }
    }
    expect(outcomes.value).toBeGreaterThan(10);
    expect(outcomes.refused + (entry.startsWith('refusal') ? 1000 : 0)).toBeGreaterThan(100);
  },
);

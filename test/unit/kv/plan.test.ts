import { describe, expect, test } from 'vitest';
import { UsageError } from '../../../src/base/failure.ts';
import { layoutByName } from '../../../src/kv/layouts.ts';
import { planLayer, planPart, planUnits } from '../../../src/kv/plan.ts';
import { type AxisOrder, type LayerView, layView, type PartView } from '../../../src/kv/view.ts';

describe('runs of equal layouts', () => {
  const N = 4;
  const H = 4;
  const BLOCKS = 8;
  const view = (order: AxisOrder, headFirst = 0, headCount = order === 'BN' ? 1 : H): LayerView =>
    layView(0, 0, {
      order,
      blockCount: BLOCKS,
      blockUnits: N,
      unitTokens: 1,
      cellBytes: 16,
      headFirst,
      headCount,
    });
  const runsOf = (
    local: LayerView,
    remote: LayerView,
    blocks: readonly number[],
    tokens = blocks.length * N,
  ): number => {
    const runs: number[] = [];
    planUnits(
      { layer: local, blocks, firstUnit: 0 },
      { layer: remote, blocks, firstUnit: 0 },
      { from: 0, to: tokens },
      runs,
    );
    return runs.length / 3;
  };

  // layouts.md 7.2, per layer: one block, then two blocks that do not touch.
  test.each([
    ['KBNH', 2],
    ['KBHN', 2],
    ['BKNH', 1],
    ['BKHN', 1],
    ['BN', 1],
  ] as const)('%s takes %i for one block', (order, count) => {
    expect(runsOf(view(order), view(order), [5])).toBe(count);
    expect(runsOf(view(order), view(order), [5, 2])).toBe(2 * count);
  });

  test('BHNK, the packed form, takes 1 for one block', () => {
    expect(runsOf(view('BHNK'), view('BHNK'), [5])).toBe(1);
  });

  test.each([
    ['KBNH', 2 * N],
    ['KBHN', 2],
    ['BKNH', 2 * N],
    ['BKHN', 2],
  ] as const)('%s takes %i for two of four heads of one block', (order, count) => {
    expect(runsOf(view(order, 1, 2), view(order), [5])).toBe(count);
    expect(runsOf(view(order), view(order, 1, 2), [5])).toBe(count);
  });

  test.each([
    ['BKNH', 1],
    ['BKHN', 1],
    ['BN', 1],
  ] as const)('%s takes %i for three blocks that touch', (order, count) => {
    expect(runsOf(view(order), view(order), [2, 3, 4])).toBe(count);
  });

  test.each([
    ['KBNH', 2],
    ['KBHN', 2],
  ] as const)('%s takes %i for three blocks that touch: all of K, all of V', (order, count) => {
    expect(runsOf(view(order), view(order), [2, 3, 4])).toBe(count);
  });

  test.each([
    ['KBNH', 'BKNH', 2],
    ['KBHN', 'BKHN', 2],
    ['KBNH', 'KBHN', 2 * N * H],
    ['BKHN', 'BKNH', 2 * N * H - 1],
  ] as const)('%s to %s takes %i for one block', (local, remote, count) => {
    expect(runsOf(view(local), view(remote), [5])).toBe(count);
  });

  test('a part of a block takes as many as its rows', () => {
    expect(runsOf(view('BKNH'), view('BKNH'), [5], 3)).toBe(2);
    expect(runsOf(view('BKHN'), view('BKHN'), [5], 3)).toBe(2 * H);
  });

  test('the remote side has its own block count: V lies after its own K', () => {
    const remote = layView(0, 0, {
      order: 'KBNH',
      blockCount: 3,
      blockUnits: N,
      unitTokens: 1,
      cellBytes: 16,
      headFirst: 0,
      headCount: H,
    });
    const runs: number[] = [];
    planUnits(
      { layer: view('KBNH'), blocks: [7], firstUnit: 0 },
      { layer: remote, blocks: [1], firstUnit: 0 },
      { from: 0, to: N },
      runs,
    );
    const block = N * H * 16;
    expect(runs).toEqual([7 * block, block, block, (BLOCKS + 7) * block, (3 + 1) * block, block]);
  });

  test('an empty range takes none, and heads that do not meet take none', () => {
    expect(runsOf(view('BKNH'), view('BKNH'), [5], 0)).toBe(0);
    expect(runsOf(view('BKNH', 0, 2), view('BKNH', 2, 2), [5])).toBe(0);
  });
});

function codeOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (error instanceof UsageError) return error.code;
    throw error;
  }
  return 'accepted';
}

describe('two parts', () => {
  const sideOf = (layer: LayerView) => ({ layer, blocks: [2, 0, 1], firstUnit: 0 });
  const shape = { blockCount: 3, unitTokens: 1, cellBytes: 8, headFirst: 0, headCount: 2 } as const;
  const dense = layView(0, 0, { ...shape, order: 'KBNH', blockUnits: 4 });
  // Gaps everywhere, so that each stride can change alone.
  const roomy = dense.parts.map((part, index) => {
    return { ...part, base: index * 384, blockStride: 128, unitStride: 24 };
  });
  const [k, v] = roomy as [PartView, PartView];
  const paired: LayerView = { ...dense, parts: [k, v] };

  /** Each byte here with its byte there, whatever the runs. */
  function bytePairs(runs: readonly number[]): string[] {
    const pairs: string[] = [];
    for (let i = 0; i < runs.length; i += 3)
      for (let byte = 0; byte < runs[i + 2]!; byte++) pairs.push(`${runs[i]! + byte} ${runs[i + 1]! + byte}`);
    return pairs.sort();
  }

  test.each<[string, LayerView]>([
    ['lie alike', paired],
    ['are named the other way round', { ...paired, parts: [v, k] }],
    [
      'lie the other way round',
      {
        ...paired,
        parts: [
          { ...k, base: v.base },
          { ...v, base: k.base },
        ],
      },
    ],
    [
      'lie and are named the other way round',
      {
        ...paired,
        parts: [
          { ...v, base: 0 },
          { ...k, base: 384 },
        ],
      },
    ],
    ['have pages of their own', { ...paired, parts: [k, { ...v, pageUnits: 2 }] }],
    ['have units of their own', { ...paired, parts: [k, { ...v, unitStride: 28 }] }],
    ['have blocks of their own', { ...paired, parts: [k, { ...v, blockStride: 136 }] }],
    ['have heads of their own', { ...paired, parts: [k, { ...v, headStride: 12 }] }],
  ])('that %s on one side move as they do one by one', (_, odd) => {
    for (const [here, there] of [
      [odd, paired],
      [paired, odd],
      [odd, odd],
    ] as const) {
      const together: number[] = [];
      planUnits(sideOf(here), sideOf(there), { from: 1, to: 11 }, together);
      const oneByOne: number[] = [];
      for (const part of here.parts) {
        const peer = there.parts.find(({ name }) => name === part.name)!;
        planPart({ ...sideOf(here), part }, { ...sideOf(there), part: peer }, { from: 1, to: 11 }, oneByOne);
      }
      expect(bytePairs(together)).toEqual(bytePairs(oneByOne));
      expect(bytePairs(together)).toHaveLength(10 * 2 * 2 * 8);
    }
  });

  test('that lie V first take no more runs than K first', () => {
    const [first, second] = dense.parts as [PartView, PartView];
    const swapped = {
      ...dense,
      parts: [
        { ...first, base: second.base },
        { ...second, base: 0 },
      ],
    };
    const runs: number[] = [];
    planUnits(sideOf(swapped), sideOf(swapped), { from: 0, to: 4 }, runs);
    expect(runs).toHaveLength(2 * 3);
  });

  test('in regions of their own are walked one by one, also where their offsets would join', () => {
    const layer = layView(0, 0, { ...shape, order: 'BKNH', blockUnits: 4 });
    const [first, second] = layer.parts as [PartView, PartView];
    const apart = { ...layer, parts: [first, { ...second, region: 1 }] };
    const runs: number[] = [];
    planUnits(sideOf(apart), sideOf(apart), { from: 0, to: 8 }, runs);
    expect(runs).toEqual([256, 256, 64, 0, 0, 64, 320, 320, 64, 64, 64, 64]);
  });
});

test('heads that lie further apart than blocks are walked outside the list, so that blocks that touch join', () => {
  const [layer] = layoutByName('unified-lhbnc', {
    layerFirst: 0,
    layerCount: 1,
    blockCount: 6,
    blockTokens: 4,
    headFirst: 0,
    headCount: 3,
    headSize: 8,
    dtype: 'fp8',
    elementBytes: 1,
  });
  const side = { layer: layer!, blocks: [1, 2, 3], firstToken: 0 };
  const runs: number[] = [];
  planLayer(side, side, { from: 0, to: 12 }, runs);
  expect(runs).toEqual(
    [0, 1, 2].flatMap((head) =>
      Array(2)
        .fill((head * 6 + 1) * 64)
        .concat(3 * 64),
    ),
  );
});

describe('refusals', () => {
  const view = layView(2, 0, {
    order: 'BKNH',
    blockCount: 4,
    blockUnits: 4,
    unitTokens: 1,
    cellBytes: 16,
    headFirst: 0,
    headCount: 2,
  });
  const span = (blocks: readonly number[], firstUnit = 0) => ({ layer: view, blocks, firstUnit });

  test.each([
    ['a local list that is too short', span([0]), span([0, 1]), 0, 5, 'PLAN-RANGE'],
    ['a remote list that is too short', span([0, 1]), span([0]), 0, 5, 'PLAN-RANGE'],
    ['a block past the local cache', span([4]), span([0]), 0, 1, 'PLAN-RANGE'],
    ['a block past the remote cache', span([0]), span([4]), 0, 1, 'PLAN-RANGE'],
    ['a negative block', span([0]), span([-1]), 0, 1, 'PLAN-RANGE'],
    ['a token before the local list', span([0], 4), span([0, 1]), 3, 5, 'PLAN-RANGE'],
    ['a token before the remote list', span([0, 1]), span([0], 4), 3, 5, 'PLAN-RANGE'],
    ['nothing at the end of the lists', span([0]), span([0]), 0, 4, 'accepted'],
    ['nothing at the start of shifted lists', span([0], 4), span([1], 4), 4, 8, 'accepted'],
    ['nothing for no token and no list', span([]), span([]), 3, 3, 'accepted'],
  ])('a plan refuses %s', (_, local, remote, from, to, code) => {
    const runs: number[] = [];
    expect(codeOf(() => planUnits(local, remote, { from, to }, runs))).toBe(code);
  });

  const tokens = (change: object, firstToken = 0) => ({
    layer: { ...view, ...change },
    blocks: [0],
    firstToken,
  });

  test.each([
    ['units of other tokens at the peer', tokens({ unitTokens: 2 }), tokens({}), 'PLAN-RANGE'],
    [
      'a list that begins within a unit',
      tokens({ unitTokens: 4 }, 2),
      tokens({ unitTokens: 4 }),
      'PLAN-RANGE',
    ],
    ['nothing of units of four tokens', tokens({ unitTokens: 4 }), tokens({ unitTokens: 4 }), 'accepted'],
  ])('a plan in tokens refuses %s', (_, local, remote, code) => {
    expect(codeOf(() => planLayer(local, remote, { from: 2, to: 3 }, []))).toBe(code);
  });

  test('a plan in tokens moves the whole of every unit it touches, and nothing for no token', () => {
    const side = tokens({ unitTokens: 4 });
    const cells = (from: number, to: number): number => {
      const runs: number[] = [];
      planLayer(side, side, { from, to }, runs);
      return runs.reduce((sum, value, index) => sum + (index % 3 === 2 ? value : 0), 0) / (2 * 2 * 16);
    };
    expect([cells(0, 4), cells(3, 5), cells(5, 6), cells(6, 6), cells(0, 16)]).toEqual([1, 2, 1, 0, 4]);
  });
});

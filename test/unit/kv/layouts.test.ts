import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { UsageError } from '../../../src/base/failure.ts';
import { LAYOUT_NAMES, type LayoutName, type LayoutShape, layoutByName } from '../../../src/kv/layouts.ts';
import { type CacheSpec, parseTensor } from '../../../src/kv/parse.ts';
import { planPart } from '../../../src/kv/plan.ts';
import { DYNAMIC_SCALE, refusalOf } from '../../../src/kv/refusal.ts';
import { planTransfer } from '../../../src/kv/transfer.ts';
import type { LayerView, PartView } from '../../../src/kv/view.ts';
import { byteOf } from '../../reference/byte-of.ts';
import { stretchesOf } from '../../reference/regions.ts';

const L = 3;
const B = 5;
const N = 4;
const H = 4;
const D = 32;
const SHAPE: LayoutShape = {
  layerFirst: 0,
  layerCount: L,
  blockCount: B,
  blockTokens: N,
  headFirst: 0,
  headCount: H,
  headSize: D,
  dtype: 'bf16',
  elementBytes: 2,
};
const ONE_HEAD: readonly LayoutName[] = ['mla', 'mla-fp8', 'sparse-index', 'sglang-mla', 'mamba'];
const STATES = [
  { name: 'conv', bytes: 24 },
  { name: 'ssm', bytes: 40 },
];

function laid(name: LayoutName, change: Partial<LayoutShape> = {}): LayerView[] {
  const headCount = ONE_HEAD.includes(name) ? 1 : H;
  return layoutByName(name, {
    ...SHAPE,
    headCount,
    ...(name === 'mamba' ? { states: STATES } : {}),
    ...change,
  });
}

function codeOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (error instanceof UsageError) return error.code;
    throw error;
  }
  return 'accepted';
}

function cellsOf(view: LayerView, part: PartView): { region: number; at: number; bytes: number }[] {
  const cells: { region: number; at: number; bytes: number }[] = [];
  for (let block = 0; block < view.blockCount; block++)
    for (let unit = 0; unit < view.blockUnits; unit++)
      for (let head = view.headFirst; head < view.headFirst + view.headCount; head++)
        cells.push({ region: part.region, at: byteOf(view, part, block, unit, head), bytes: part.bytes });
  return cells;
}

describe.each(LAYOUT_NAMES)('%s', (name) => {
  test.each([{}, { kernelTokens: 2, layerCount: 1 }, { headScales: true, base: 64, region: 2 }])(
    'fills its regions without a gap and without an overlap, shaped by %j',
    (change: Partial<LayoutShape>) => {
      if (change.headScales && ['shuffled', 'shuffled-v-plain', 'mamba'].includes(name)) {
        expect(codeOf(() => laid(name, change))).toBe('LAYOUT-SHAPE');
        return;
      }
      const views = laid(name, change);
      const cells = views.flatMap((view) => view.parts.flatMap((part) => cellsOf(view, part)));
      expect(cells.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(
        views.reduce((sum, { bytes }) => sum + bytes, 0),
      );
      const stretches = views.flatMap(stretchesOf);
      for (const region of new Set(cells.map((cell) => cell.region))) {
        const inside = cells.filter((cell) => cell.region === region).sort((x, y) => x.at - y.at);
        const isSide = change.headScales === true && region === Math.max(...cells.map((cell) => cell.region));
        expect(inside[0]!.at).toBe(isSide ? 0 : (change.base ?? 0));
        for (let i = 1; i < inside.length; i++)
          expect(inside[i]!.at).toBe(inside[i - 1]!.at + inside[i - 1]!.bytes);
        const registered = stretches.filter((stretch) => stretch.region === region);
        const end = inside.at(-1)!.at + inside.at(-1)!.bytes;
        expect(Math.min(...registered.map(({ offset }) => offset))).toBe(inside[0]!.at);
        expect(Math.max(...registered.map(({ offset, bytes }) => offset + bytes))).toBe(end);
      }
    },
  );
});

/** Offsets in elements, as layouts.md 7.4 spells them out; `k` is 0 for K and 1 for V. */
const SPELLED: [LayoutName, (l: number, b: number, k: number, n: number, h: number) => number][] = [
  ['kv-first-nhd', (l, b, k, n, h) => l * 2 * B * N * H * D + (((k * B + b) * N + n) * H + h) * D],
  ['kv-first-hnd', (l, b, k, n, h) => l * 2 * B * N * H * D + (((k * B + b) * H + h) * N + n) * D],
  ['block-first-nhd', (l, b, k, n, h) => l * 2 * B * N * H * D + (((b * 2 + k) * N + n) * H + h) * D],
  ['block-first-hnd', (l, b, k, n, h) => l * 2 * B * N * H * D + (((b * 2 + k) * H + h) * N + n) * D],
  ['packed-hnd', (l, b, k, n, h) => l * 2 * B * N * H * D + ((b * H + h) * N + n) * 2 * D + k * D],
  ['unified-lbhnc', (l, b, k, n, h) => (((l * B + b) * H + h) * N + n) * 2 * D + k * D],
  ['unified-bhlnc', (l, b, k, n, h) => (((b * H + h) * L + l) * N + n) * 2 * D + k * D],
  ['unified-blnhc', (l, b, k, n, h) => (((b * L + l) * N + n) * H + h) * 2 * D + k * D],
  ['cross-layer-hnd', (l, b, k, n, h) => ((((b * L + l) * 2 + k) * H + h) * N + n) * D],
];

test.each(SPELLED)('%s puts every vector where its formula says', (name, formula) => {
  laid(name).forEach((view, l) => {
    view.parts.forEach((part, k) => {
      for (let b = 0; b < B; b++)
        for (let n = 0; n < N; n++)
          for (let h = 0; h < H; h++) expect(byteOf(view, part, b, n, h)).toBe(2 * formula(l, b, k, n, h));
    });
  });
});

test('a slot of two states is padded to its stride, and rows with inline scales have their parts in order', () => {
  const [mamba] = laid('mamba', { slotBytes: 100 });
  expect(mamba!.parts.map(({ name, base, blockStride, bytes }) => [name, base, blockStride, bytes])).toEqual([
    ['conv', 0, 100, 24],
    ['ssm', 24, 100, 40],
  ]);
  const [fp8] = laid('mla-fp8', { elementBytes: 1 });
  expect(fp8!.parts.map(({ name, base, unitStride, bytes }) => [name, base, unitStride, bytes])).toEqual([
    ['latent', 0, 656, 512],
    ['scale', 512, 656, 16],
    ['rope', 528, 656, 128],
  ]);
  const [nvfp4] = laid('nvfp4');
  expect(nvfp4!.parts.map(({ name, base, bytes }) => [name, base, bytes])).toEqual([
    ['k', 0, 16],
    ['kScale', 16, 2],
    ['v', 18 * H * N, 16],
    ['vScale', 18 * H * N + 16, 2],
  ]);
});

describe('a tensor', () => {
  const spec: CacheSpec = { latent: false, blockTokens: 16, heads: 3, headSize: 8 };
  const bf16 = { dtype: 'bf16', elementBytes: 2 };
  const dense = (shape: readonly number[]) => ({
    ...bf16,
    shape,
    stride: shape.map((_, axis) => shape.slice(axis + 1).reduce((product, size) => product * size, 1)),
  });
  const named = (name: LayoutName, change: Partial<LayoutShape> = {}) =>
    layoutByName(name, { ...SHAPE, layerCount: 1, blockTokens: 16, headCount: 3, headSize: 8, ...change })[0];

  test.each([
    ['kv-first-nhd', [2, 5, 16, 3, 8], {}],
    ['kv-first-hnd', [2, 5, 3, 16, 8], {}],
    ['block-first-nhd', [5, 2, 16, 3, 8], {}],
    ['block-first-hnd', [5, 2, 3, 16, 8], {}],
    ['kv-first-nhd', [2, 20, 4, 3, 8], { kernelTokens: 4 }],
    ['block-first-hnd', [20, 2, 3, 4, 8], { kernelTokens: 4 }],
    ['packed-hnd', [5, 3, 16, 16], {}],
    ['packed-hnd', [40, 3, 2, 16], { kernelTokens: 2 }],
  ] as const)('dense in its axes reads as %s by the sizes %j', (name, shape, change) => {
    expect(parseTensor(dense(shape), spec)).toEqual(named(name, change));
  });

  test.each([
    ['mla', 576, 576, 2],
    ['mla-fp8', 656, 576, 1],
    ['sparse-index', 132, 132, 1],
  ] as const)('of three axes reads as %s by its row of %i', (name, row, headSize, elementBytes) => {
    const tensor = { ...dense([5, 16, row]), elementBytes };
    const view = parseTensor(tensor, { latent: true, blockTokens: 16, headSize });
    expect(view).toEqual(named(name, { headCount: 1, headSize: row, elementBytes }));
  });

  test('with its axes in another physical order reads as the order of its strides', () => {
    const tensor = { ...bf16, shape: [2, 5, 16, 3, 8], stride: [384, 768, 8, 128, 1] };
    expect(parseTensor(tensor, spec)).toEqual(named('block-first-hnd'));
  });

  test('whose names are given is not guessed at', () => {
    const twoBlocks = dense([2, 2, 16, 3, 8]);
    expect(codeOf(() => parseTensor(twoBlocks, spec))).toBe('LAYOUT-AMBIGUOUS');
    expect(parseTensor(twoBlocks, { ...spec, axes: 'BKNHC' })).toEqual(
      named('block-first-nhd', { blockCount: 2 }),
    );
    expect(codeOf(() => parseTensor(twoBlocks, { ...spec, axes: 'BKNH' }))).toBe('LAYOUT-UNSUPPORTED');
  });

  test.each([
    [[2, 5, 16, 4, 8], 4 * 16],
    [[2, 5, 4, 16, 8], 16],
  ])(
    'of %j without a number of heads has its tokens along the axis of the block size',
    (shape, unitStride) => {
      const view = parseTensor(dense(shape), { latent: false, blockTokens: 16 });
      expect([view.parts[0]!.pageUnits, view.headCount]).toEqual([16, 4]);
      expect(view.parts[0]!.unitStride).toBe(unitStride);
    },
  );

  test('with as many heads as tokens in a page moves page by page, and only with all its heads', () => {
    const square = { ...spec, blockTokens: 12 };
    const view = parseTensor(dense([2, 8, 3, 3, 8]), square);
    expect([view.unitTokens, view.blockUnits, view.headCount, view.parts[0]!.bytes]).toEqual([
      3,
      4,
      1,
      3 * 3 * 16,
    ]);
    const half = parseTensor(dense([2, 8, 3, 3, 8]), square, {
      layer: 0,
      group: 0,
      region: 0,
      base: 0,
      headFirst: 3,
    });
    expect(refusalOf(view, view)).toBe('');
    expect(refusalOf(view, half)).toMatch(/heads are split over .* 0 to 2 here, 3 to 5 at the peer/);
  });

  test.each([
    [
      'a content that is not contiguous',
      { ...dense([2, 5, 16, 3, 8]), stride: [1920, 384, 24, 1, 3] },
      'LAYOUT-UNSUPPORTED',
    ],
    [
      'blocks on top of each other',
      { ...dense([2, 5, 16, 3, 8]), stride: [384, 0, 24, 8, 1] },
      'LAYOUT-OVERLAP',
    ],
    [
      'a square page with gaps',
      { ...dense([2, 5, 3, 3, 8]), stride: [500, 100, 32, 8, 1] },
      'LAYOUT-AMBIGUOUS',
    ],
  ])('of %s is refused', (_, tensor, code) => {
    expect(codeOf(() => parseTensor(tensor, { ...spec, blockTokens: tensor.shape[2]! }))).toBe(code);
  });
});

describe('a layout refuses', () => {
  test.each<[string, LayoutName, Partial<LayoutShape>]>([
    ['pages that do not fill a block', 'kv-first-nhd', { kernelTokens: 3 }],
    ['several heads of a latent cache', 'mla', { headCount: 2 }],
    ['a V of another size beside K in one tensor', 'block-first-nhd', { headSizeV: 16 }],
    ['a state without sizes', 'mamba', { states: [] }],
    ['a slot that is smaller than its states', 'mamba', { slotBytes: 63 }],
    ['padded slots of what has none', 'mla', { slotBytes: 100 }],
    ['NVFP4 heads that 16 does not divide', 'nvfp4', { headSize: 24 }],
    ['a scale for each head of shuffled pages', 'shuffled', { headScales: true }],
  ])('%s', (_, name, change) => {
    expect(codeOf(() => laid(name, change))).toBe('LAYOUT-SHAPE');
    expect(codeOf(() => laid(name))).toBe('accepted');
  });
});

describe('layers cannot be joined with the cause', () => {
  const [base] = laid('kv-first-nhd');
  test.each<[string, LayerView | undefined, LayerView | undefined, RegExp]>([
    [
      'another data type',
      base,
      laid('kv-first-nhd', { dtype: 'fp16' })[0],
      /'bf16 k32 v32' here and 'fp16 k32 v32'/,
    ],
    [
      'another head size',
      base,
      laid('kv-first-nhd', { headSize: 16 })[0],
      /part k has 64 bytes here and 32 bytes at the peer/,
    ],
    ['a part missing there', base, laid('mla')[0], /part k is missing at the peer/],
    [
      'a part missing here',
      base,
      laid('kv-first-nhd', { headScales: true })[0],
      /part kScale is missing here/,
    ],
    [
      'two parts of one name',
      base,
      { ...base!, parts: [...base!.parts, base!.parts[0]!] },
      /two parts have one name/,
    ],
    [
      'other static scales',
      laid('mla', { scale: '0.5' })[0],
      laid('mla', { scale: '0.25' })[0],
      /scale 0.5' here and .* scale 0.25'/,
    ],
    [
      'dynamic scales',
      laid('mla', { scale: DYNAMIC_SCALE })[0],
      laid('mla', { scale: DYNAMIC_SCALE })[0],
      /dynamic per-tensor scale here is not in the cache/,
    ],
    [
      'shuffled pages of other sizes',
      laid('shuffled')[0],
      laid('shuffled', { kernelTokens: 2 })[0],
      /part k has 256 bytes here and 128/,
    ],
    [
      'shuffled V and plain V',
      laid('shuffled')[0],
      laid('shuffled-v-plain')[0],
      /shuffled by 8 of 4 tokens' here/,
    ],
    [
      'shuffled and plain tokens',
      laid('shuffled')[0],
      laid('kv-first-hnd', { headSize: N * D })[0],
      /tokens of a unit cannot be taken apart: 4 tokens here and 1/,
    ],
    [
      'a state of another TP size',
      laid('mamba')[0],
      laid('mamba', { states: [STATES[0]!, { name: 'ssm', bytes: 20 }] })[0],
      /part ssm has 40 bytes here and 20/,
    ],
    [
      'pages that do not fill blocks',
      { ...base!, blockUnits: 6 },
      base,
      /a block of 6 units here is no whole number of pages of 4/,
    ],
  ])('%s', (_, local, remote, cause) => {
    expect(refusalOf(local!, remote!)).toMatch(cause);
    expect(refusalOf(local!, remote!)).toMatch(/^layer 0: /);
  });

  test('and every layout of one content can be joined with every other one', () => {
    const alike = LAYOUT_NAMES.filter((name) => laid(name)[0]!.form === base!.form);
    expect(alike.length).toBeGreaterThan(14);
    for (const here of alike)
      for (const there of alike)
        expect(
          refusalOf(laid(here)[0]!, laid(there, { kernelTokens: 1, headFirst: 1, headCount: 2 })[0]!),
        ).toBe('');
  });
});

describe('runs per copy, as the table in docs/LAYOUTS.md predicts', () => {
  const page = readFileSync(new URL('../../../docs/LAYOUTS.md', import.meta.url), 'utf8');
  const section = page.slice(page.indexOf('## Runs per copy'), page.indexOf('## Where we differ'));
  const rows = [...section.matchAll(/^\| `([a-z-]+)` \|(.*)\|$/gm)].map(
    ([, name, cells]) => [name as LayoutName, cells!.split('|').map((cell) => cell.trim())] as const,
  );
  const wanted = 2;
  const sizes: { readonly [letter: string]: number } = { L, N, H, h: wanted };

  function product(expression: string): number {
    return expression.split(' ').reduce((value, factor) => value * (sizes[factor] ?? Number(factor)), 1);
  }

  function runsOf(name: LayoutName, layerCount: number, heads: Partial<LayoutShape>): number {
    const engine = (views: LayerView[]) => ({ heads: H, tpSize: 1, ranks: [{ tpRank: 0, layers: views }] });
    // All layers lie in memory on both sides, of which the target names those it wants.
    const source = laid(name);
    const target = laid(name, heads).slice(0, layerCount);
    const transfers = planTransfer({
      operation: 'read',
      local: engine(target),
      remote: engine(source),
      localBlocks: [{ blocks: [3], firstToken: 0 }],
      remoteBlocks: [{ blocks: [1], firstToken: 0 }],
      tokenFrom: 0,
      tokenTo: N,
    });
    return transfers.reduce((sum, { runs }) => sum + runs.length / 3, 0);
  }

  function keysOnly(name: LayoutName): number {
    const [layer] = laid(name);
    const part = layer!.parts.find((candidate) => candidate.name === 'k')!;
    const runs: number[] = [];
    const sideOf = (block: number) => ({ part, layer: layer!, blocks: [block], firstUnit: 0 });
    planPart(sideOf(3), sideOf(1), { from: 0, to: N }, runs);
    return runs.length / 3;
  }

  test('which has a row for each of ten layouts', () => {
    expect(rows).toHaveLength(10);
    expect(new Set(rows.map(([name]) => name)).size).toBe(10);
  });

  test.each(rows)('%s: %j', (name, cells) => {
    const some = { headFirst: 1, headCount: wanted };
    const measured = [
      runsOf(name, 1, {}),
      runsOf(name, 1, some),
      runsOf(name, L, {}),
      runsOf(name, L, some),
      keysOnly(name),
    ];
    expect(measured).toEqual(cells.map(product));
  });
});

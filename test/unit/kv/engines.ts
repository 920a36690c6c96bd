import fc from 'fast-check';
import { type ContextView, WHOLE_CONTEXT } from '../../../src/base/cache-view.ts';
import { type LayoutName, type LayoutShape, layoutByName } from '../../../src/kv/layouts.ts';
import type { EngineSide, GroupBlocks, RankSide } from '../../../src/kv/transfer.ts';
import { headsOfRank, type LayerView } from '../../../src/kv/view.ts';
import { spanOf } from '../../reference/regions.ts';

/** Random engines that can be joined, with their memory as plain arrays. */

/** One kind of content, with the layouts that hold it. */
interface Family {
  readonly names: readonly LayoutName[];
  readonly cell: Pick<LayoutShape, 'headSize' | 'headSizeV' | 'dtype' | 'elementBytes' | 'states'>;
  /** Heads by TP, one latent head, or one head for each TP rank. */
  readonly heads: 'split' | 'latent' | 'ranked';
  readonly mayScale?: boolean;
  /** Both sides have the same pages, whose tokens move together. */
  readonly wholePages?: boolean;
}

const K_AXIS = ['kv-first-nhd', 'kv-first-hnd', 'block-first-nhd', 'block-first-hnd'] as const;
const PACKED = [
  'packed-hnd',
  'packed-nhd',
  'unified-lbhnc',
  'unified-lbnhc',
  'unified-lhbnc',
  'unified-blhnc',
  'unified-blnhc',
  'unified-bhlnc',
] as const;
const bf16 = { dtype: 'bf16', elementBytes: 2 } as const;
const fp8 = { dtype: 'fp8', elementBytes: 1 } as const;

export const FAMILIES: { readonly [name: string]: Family } = {
  attention: {
    names: [...K_AXIS, ...PACKED, 'cross-layer-nhd', 'cross-layer-hnd', 'sglang-mha'],
    cell: { ...bf16, headSize: 2 },
    heads: 'split',
    mayScale: true,
  },
  'attention with a smaller V': {
    names: PACKED,
    cell: { ...fp8, headSize: 5, headSizeV: 3 },
    heads: 'split',
    mayScale: true,
  },
  latent: {
    names: ['mla', 'sglang-mla', ...PACKED],
    cell: { ...bf16, headSize: 9, headSizeV: 0 },
    heads: 'latent',
    mayScale: true,
  },
  'latent fp8': { names: ['mla-fp8', 'mla', 'sglang-mla'], cell: { ...fp8, headSize: 656 }, heads: 'latent' },
  'sparse index': { names: ['sparse-index', 'mla'], cell: { ...fp8, headSize: 132 }, heads: 'latent' },
  nvfp4: { names: ['nvfp4'], cell: { ...fp8, dtype: 'nvfp4', headSize: 16 }, heads: 'split' },
  shuffled: { names: ['shuffled'], cell: { ...bf16, headSize: 2 }, heads: 'split', wholePages: true },
  mamba: {
    names: ['mamba'],
    cell: {
      ...bf16,
      headSize: 0,
      states: [
        { name: 'conv', bytes: 6 },
        { name: 'ssm', bytes: 11 },
      ],
    },
    heads: 'ranked',
    wholePages: true,
  },
};

interface GroupDraw {
  readonly family: string;
  readonly layers: number;
  readonly scaled: boolean;
  readonly pageTokens: number;
  readonly sides: readonly [SideDraw, SideDraw];
}

interface SideDraw {
  readonly name: number;
  readonly kernelTokens: number;
  readonly pages: number;
  readonly spareBlocks: number;
  readonly base: number;
  readonly shuffle: number;
  /** Blocks of the list that may be left out at its front. */
  readonly leftOut: number;
  readonly slotPadding: number;
  /** Units of an interleave, where they divide a block; null for a whole block. */
  readonly interleave: 1 | 2 | null;
}

export interface EngineDraw {
  readonly tp: number;
  /** Ranks of a context group; divides `tp`. */
  readonly dcp: number;
  /** Where the layers of each group are cut into stages, in tenths. */
  readonly cuts: readonly number[];
}

export interface TransferDraw {
  readonly operation: 'read' | 'write';
  readonly heads: number;
  readonly engines: readonly [EngineDraw, EngineDraw];
  readonly groups: readonly GroupDraw[];
  readonly tokens: number;
  readonly fromShare: number;
  /** Whether the groups have layer numbers in common. */
  readonly sameLayers: boolean;
  /** Whether all groups are as the first one and lie over one another, as those of a hybrid allocator do. */
  readonly oneMemory: boolean;
  /** How far each side counts its groups on, where that cannot be mistaken. */
  readonly turns: readonly [number, number];
}

const side = fc.record<SideDraw>({
  name: fc.nat({ max: 100 }),
  kernelTokens: fc.constantFrom(1, 2, 3, 4),
  pages: fc.constantFrom(1, 1, 2, 3),
  spareBlocks: fc.nat({ max: 3 }),
  base: fc.nat({ max: 5 }),
  shuffle: fc.nat(),
  leftOut: fc.nat({ max: 3 }),
  slotPadding: fc.nat({ max: 4 }),
  interleave: fc.constantFrom(1, 2, null),
});
const group = fc.record<GroupDraw>({
  family: fc.constantFrom('attention', 'attention', 'attention', ...Object.keys(FAMILIES)),
  layers: fc.integer({ min: 1, max: 3 }),
  scaled: fc.boolean(),
  pageTokens: fc.constantFrom(2, 4),
  sides: fc.tuple(side, side),
});
const engine = fc
  .record<EngineDraw>({
    tp: fc.constantFrom(1, 1, 2, 3, 4, 4),
    dcp: fc.constantFrom(1, 2, 4),
    cuts: fc.array(fc.nat({ max: 10 }), { maxLength: 2 }),
  })
  .map((drawn) => ({ ...drawn, dcp: drawn.tp % drawn.dcp === 0 ? drawn.dcp : 1 }));

function divides(heads: number, tp: number): boolean {
  return heads % tp === 0 || tp % heads === 0;
}

export const transferDraw: fc.Arbitrary<TransferDraw> = fc
  .record<TransferDraw>({
    operation: fc.constantFrom('read', 'write'),
    heads: fc.constantFrom(1, 2, 3, 4, 6),
    engines: fc.tuple(engine, engine),
    groups: fc.array(group, { minLength: 1, maxLength: 3 }),
    tokens: fc.nat({ max: 14 }),
    fromShare: fc.nat({ max: 100 }),
    sameLayers: fc.boolean(),
    oneMemory: fc.integer({ min: 0, max: 4 }).map((drawn) => drawn === 0),
    turns: fc.tuple(fc.nat({ max: 2 }), fc.nat({ max: 2 })),
  })
  .map((drawn) => (drawn.oneMemory ? { ...drawn, groups: drawn.groups.map(() => drawn.groups[0]!) } : drawn))
  .filter(({ heads, engines }) =>
    engines.every(({ tp, dcp }) => divides(heads, tp) && divides(heads, tp / dcp)),
  )
  .filter(({ engines: [a, b], groups }) => a.tp === b.tp || groups.every(({ family }) => family !== 'mamba'));

/** One engine's side of a drawn transfer. */
export interface BuiltEngine {
  readonly engine: EngineSide;
  readonly blocks: readonly GroupBlocks[];
  /** Memory of each rank, by region. */
  readonly memory: readonly Uint8Array[][];
  readonly names: readonly LayoutName[];
  /** Which group of the draw each group is. */
  readonly drawn: readonly number[];
}

export const UNTOUCHED = 0xee;

/** Whether forms tell the groups apart, or layer numbers do. */
function mayTurn({ groups, sameLayers }: TransferDraw): boolean {
  const kinds = groups.map(
    ({ family, scaled }) => `${family} ${scaled && FAMILIES[family]!.mayScale === true}`,
  );
  return !sameLayers || new Set(kinds).size === kinds.length;
}

/** `from` is the first token that the target lacks; a target's lists may begin there, a source's never later. */
export function buildEngine(draw: TransferDraw, index: 0 | 1, from: number): BuiltEngine {
  const { tp, cuts } = draw.engines[index];
  const laid = draw.groups.map((group, number) => layGroup(draw, group, number, index, from));
  const turn = mayTurn(draw) ? draw.turns[index] : draw.turns[0];
  const drawn = laid.map((_, number) => (number + turn) % laid.length);
  const stages = [...cuts, 0, 10].sort((a, b) => a - b);
  const ranks: RankSide[] = [];
  for (let stage = 0; stage + 1 < stages.length; stage++) {
    for (let tpRank = 0; tpRank < tp; tpRank++) {
      const layers = drawn.flatMap((number, at) => {
        const { layers } = draw.groups[number]!;
        const [first, end] = [stages[stage]!, stages[stage + 1]!].map((cut) =>
          Math.round((cut * layers) / 10),
        );
        const views = layoutOf(draw, number, index, tpRank, first!, end! - first!, laid[number]!);
        return views.map((view) => ({ ...view, group: at }));
      });
      ranks.push({ tpRank, layers: index === 0 ? layers : layers.toReversed() });
    }
  }
  return {
    engine: { heads: draw.heads, tpSize: tp, ranks },
    blocks: drawn.map((number) => laid[number]!.span),
    memory: ranks.map(memoryOf),
    names: laid.map(({ name }) => name),
    drawn,
  };
}

interface LaidGroup {
  readonly name: LayoutName;
  readonly kernelTokens: number;
  readonly blockTokens: number;
  readonly blockCount: number;
  readonly span: GroupBlocks;
  /** That of the first rank. */
  readonly context: ContextView;
}

function layGroup(
  draw: TransferDraw,
  group: GroupDraw,
  number: number,
  index: 0 | 1,
  from: number,
): LaidGroup {
  const family = FAMILIES[group.family]!;
  const side = group.sides[index];
  const kernelTokens = family.wholePages ? group.pageTokens : side.kernelTokens;
  const pages = family.heads === 'ranked' ? 1 : side.pages;
  const blockTokens = kernelTokens * pages;
  const unitTokens = family.wholePages ? kernelTokens : 1;
  const context =
    family.heads === 'ranked'
      ? WHOLE_CONTEXT
      : contextOf(draw.engines[index].dcp, side, blockTokens / unitTokens);
  const listedTokens = blockTokens * context.ranks;
  const listed = Math.ceil(draw.tokens / listedTokens) + 1;
  const lists = draw.oneMemory ? draw.groups.length : 1;
  const blockCount = lists * listed + side.spareBlocks;
  const skip = Math.min(side.leftOut, Math.floor(from / listedTokens));
  // Over one memory no block is in two lists.
  const own = draw.oneMemory ? number * listed : 0;
  const order = shuffled(blockCount, side.shuffle + (draw.oneMemory ? 0 : number));
  const blocks = order.slice(own + skip, own + listed);
  const span = { blocks, firstToken: skip * listedTokens };
  return {
    name: family.names[side.name % family.names.length]!,
    kernelTokens,
    blockTokens,
    blockCount,
    span,
    context,
  };
}

function contextOf(ranks: number, { interleave }: SideDraw, blockUnits: number): ContextView {
  const isWhole = interleave === null || blockUnits % interleave !== 0;
  return { ranks, rank: 0, interleaveUnits: isWhole ? blockUnits : interleave };
}

/** Layers `first` to `first + count` of a group, numbered from 10 times the group's number on, or all from 0. */
function layoutOf(
  draw: TransferDraw,
  number: number,
  index: 0 | 1,
  tpRank: number,
  first: number,
  count: number,
  { name, kernelTokens, blockTokens, blockCount, context }: LaidGroup,
): LayerView[] {
  if (count === 0) return [];
  const group = draw.groups[number]!;
  const family = FAMILIES[group.family]!;
  const { tp, dcp } = draw.engines[index];
  const split = headsOfRank(draw.heads, tp / dcp, Math.floor(tpRank / dcp));
  const ranked = family.heads === 'ranked' ? tpRank : 0;
  const held = family.heads === 'split' ? split : { first: ranked, count: 1 };
  const { base, slotPadding } = group.sides[index];
  return layoutByName(name, {
    ...family.cell,
    layerFirst: (draw.sameLayers ? 0 : number * 10) + first,
    layerCount: count,
    blockCount,
    blockTokens,
    kernelTokens,
    headFirst: held.first,
    headCount: held.count,
    context: { ...context, rank: tpRank % context.ranks },
    headScales: group.scaled && family.mayScale === true,
    ...(name === 'mamba' ? { slotBytes: 17 + slotPadding } : {}),
    // Regions of one group never meet those of another, or are the same.
    region: draw.oneMemory ? 0 : number * 20,
    base,
  });
}

function memoryOf({ layers }: RankSide): Uint8Array[] {
  const memory: Uint8Array[] = [];
  for (const view of layers) {
    for (const part of view.parts) {
      const end = part.base + spanOf(view, part) + 3;
      const old = memory[part.region] ?? new Uint8Array();
      if (old.length < end) memory[part.region] = new Uint8Array(end).fill(UNTOUCHED);
    }
  }
  return memory;
}

function shuffled(count: number, seed: number): number[] {
  const list = Array.from({ length: count }, (_, index) => index);
  let state = seed >>> 0;
  for (let i = count - 1; i > 0; i--) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const j = (state >>> 8) % (i + 1);
    [list[i], list[j]] = [list[j]!, list[i]!];
  }
  return list;
}

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { listedTokensOf } from '../../../src/base/cache-view.ts';
import { finish, mix } from '../../../src/base/mix.ts';
import {
  type EngineSide,
  planRanks,
  planTransfer,
  refusalOfEngines,
  type Transfer,
} from '../../../src/kv/transfer.ts';
import { headsOfRank, type LayerView, layView, sourceRanks } from '../../../src/kv/view.ts';
import { byteOf } from '../../reference/byte-of.ts';
import { type BuiltEngine, buildEngine, FAMILIES, transferDraw } from './engines.ts';

/** Calls back with every byte of the cells of the tokens [from, to), and with the byte that belongs there. */
function eachByte(
  { engine, blocks, drawn }: BuiltEngine,
  from: (view: LayerView) => number,
  to: number,
  visit: (rank: number, region: number, at: number, stamp: number) => void,
): void {
  engine.ranks.forEach(({ layers }, rank) => {
    for (const view of layers) {
      const { blocks: list, firstToken } = blocks[view.group]!;
      const first = Math.floor(from(view) / view.unitTokens);
      const { ranks, rank: held, interleaveUnits } = view.context;
      const listed = view.blockUnits * ranks;
      for (let unit = first; unit * view.unitTokens < to; unit++) {
        const distance = unit - firstToken / view.unitTokens;
        const block = list[Math.floor(distance / listed)]!;
        const inListed = distance % listed;
        if (Math.floor(inListed / interleaveUnits) % ranks !== held) continue;
        const round = Math.floor(inListed / (ranks * interleaveUnits));
        const inBlock = round * interleaveUnits + (inListed % interleaveUnits);
        for (let head = view.headFirst; head < view.headFirst + view.headCount; head++) {
          for (const part of view.parts) {
            const at = byteOf(view, part, block, inBlock, head);
            const cell = mix(
              mix(mix(view.layer + 100 * drawn[view.group]!, unit), head),
              part.name.length * 256 + part.name.charCodeAt(0),
            );
            for (let byte = 0; byte < part.bytes; byte++)
              visit(rank, part.region, at + byte, finish(mix(cell, byte)) & 0xff);
          }
        }
      }
    }
  });
}

function firstDifference(left: readonly Uint8Array[][], right: readonly Uint8Array[][]): string {
  for (const [rank, regions] of right.entries()) {
    for (const [region, bytes] of regions.entries()) {
      const found = left[rank]![region];
      const at = bytes?.findIndex((byte, index) => byte !== found![index]) ?? -1;
      if (at >= 0) return `rank ${rank}, region ${region}, byte ${at}: ${found![at]} for ${bytes[at]}`;
    }
  }
  return '';
}

test('every wanted cell of every target rank is written once with its own bytes, and nothing else changes', () => {
  const seen: { [what: string]: number } = {};
  const note = (what: string, happened: boolean): void => {
    seen[what] = (seen[what] ?? 0) + (happened ? 1 : 0);
  };
  fc.assert(
    fc.property(transferDraw, (draw) => {
      const { operation, tokens } = draw;
      const tokenFrom = Math.floor((tokens * draw.fromShare) / 101);
      const local = buildEngine(draw, 0, tokenFrom);
      const remote = buildEngine(draw, 1, tokenFrom);
      const [source, target] = operation === 'write' ? [local, remote] : [remote, local];
      const transfer: Transfer = {
        operation,
        local: local.engine,
        remote: remote.engine,
        localBlocks: local.blocks,
        remoteBlocks: remote.blocks,
        tokenFrom,
        tokenTo: tokens,
      };
      const sourceFirst = (view: LayerView): number => source.blocks[view.group]!.firstToken;
      eachByte(source, sourceFirst, tokens, (rank, region, at, stamp) => {
        source.memory[rank]![region]![at] = stamp;
      });
      const wanted = target.memory.map((regions) => regions.map((bytes) => bytes.slice()));
      const due = target.memory.map((regions) => regions.map((bytes) => new Uint8Array(bytes.length)));
      if (tokenFrom < tokens) {
        eachByte(
          target,
          () => tokenFrom,
          tokens,
          (rank, region, at, stamp) => {
            wanted[rank]![region]![at] = stamp;
            due[rank]![region]![at]!++;
          },
        );
      }
      const writes = target.memory.map((regions) => regions.map((bytes) => new Uint8Array(bytes.length)));
      for (const { localRank, remoteRank, localRegion, remoteRegion, runs } of planTransfer(transfer)) {
        const here = local.memory[localRank]![localRegion]!;
        const there = remote.memory[remoteRank]![remoteRegion]!;
        for (let i = 0; i < runs.length; i += 3) {
          const [localAt, remoteAt, bytes] = [runs[i]!, runs[i + 1]!, runs[i + 2]!];
          const [from, fromAt, to, toAt] =
            operation === 'write' ? [here, localAt, there, remoteAt] : [there, remoteAt, here, localAt];
          expect(fromAt + bytes).toBeLessThanOrEqual(from.length);
          to.set(from.subarray(fromAt, fromAt + bytes), toAt);
          const [rank, region] =
            operation === 'write' ? [remoteRank, remoteRegion] : [localRank, localRegion];
          for (let byte = 0; byte < bytes; byte++) writes[rank]![region]![toAt + byte]!++;
          note('runs that end where the next begins', runs[i + 3] === localAt + bytes);
        }
      }
      expect(firstDifference(target.memory, wanted)).toBe('');
      expect(firstDifference(writes, due)).toBe('');

      const moves = tokenFrom < tokens;
      for (const { family } of draw.groups) note(family, moves);
      for (const name of [...local.names, ...remote.names]) note(name, moves);
      note('several groups', moves && draw.groups.length > 1);
      note('several caches of one layer', moves && draw.groups.length > 1 && draw.sameLayers);
      note(
        'caches of one layer and form, over one memory',
        moves && draw.groups.length > 1 && draw.sameLayers && draw.oneMemory,
      );
      note('groups counted in another order', moves && `${local.drawn}` !== `${remote.drawn}`);
      note('unequal TP', moves && draw.engines[0].tp !== draw.engines[1].tp);
      note('copies of heads', moves && draw.engines.some(({ tp }) => tp > draw.heads));
      const groups = [source, target].map(({ engine }) => {
        const { ranks, interleaveUnits } = engine.ranks.flatMap(({ layers }) => layers).at(-1)!.context;
        return { ranks, interleaveUnits };
      });
      const [here, there] = groups as [(typeof groups)[number], (typeof groups)[number]];
      note('context groups at the source', moves && here.ranks > 1 && there.ranks === 1);
      note('context groups at the target', moves && here.ranks === 1 && there.ranks > 1);
      note('context groups on both sides', moves && here.ranks > 1 && there.ranks > 1);
      note(
        'unequal context groups',
        moves && here.ranks > 1 && there.ranks > 1 && here.ranks !== there.ranks,
      );
      note(
        'interleaves of two',
        moves && groups.some((side) => side.ranks > 1 && side.interleaveUnits === 2),
      );
      note('unequal stages', moves && `${draw.engines[0].cuts}` !== `${draw.engines[1].cuts}`);
      note('prefix hit', moves && target.blocks.some(({ firstToken }) => firstToken > 0));
      note(
        'partial last block',
        moves &&
          source.engine.ranks.some(({ layers }) =>
            layers.some((view) => tokens % listedTokensOf(view) !== 0),
          ),
      );
      const pages = (engine: BuiltEngine): number[] =>
        engine.engine.ranks.flatMap(({ layers }) =>
          layers.map(({ blockUnits, parts }) => blockUnits / parts[0]!.pageUnits),
        );
      note('kernel pages', moves && pages(local).some((count) => count > 1));
      note('unequal kernel pages', moves && `${pages(local)}` !== `${pages(remote)}`);
      note(
        'side tensor',
        moves && draw.groups.some(({ scaled, family }) => scaled && FAMILIES[family]!.mayScale),
      );
    }),
    { seed: 42, numRuns: 1200 },
  );
  const { 'runs that end where the next begins': touching, ...rest } = seen;
  expect(touching).toBeGreaterThan(0);
  for (const [what, count] of Object.entries(rest)) expect([what, count > 30]).toEqual([what, true]);
  expect(Object.keys(rest).length).toBeGreaterThan(30);
});

/** An engine of one layer of which only the heads matter. */
function headsOnly(heads: number, tpSize: number): EngineSide {
  const ranks = Array.from({ length: tpSize }, (_, tpRank) => {
    const { first, count } = headsOfRank(heads, tpSize, tpRank);
    const shape = { blockCount: 1, blockUnits: 1, unitTokens: 1, cellBytes: 4 };
    const view = layView(0, 0, { ...shape, order: 'BKNH', headFirst: first, headCount: count });
    return { tpRank, layers: [view] };
  });
  return { heads, tpSize, ranks };
}

describe('a transfer', () => {
  const draw = fc.sample(
    transferDraw.filter(
      ({ groups, engines, tokens }) =>
        groups.length === 1 &&
        groups[0]!.family === 'attention' &&
        engines[0].tp === 1 &&
        engines[1].dcp === 1 &&
        tokens > 8,
    ),
    { seed: 42, numRuns: 1 },
  )[0]!;
  const local = buildEngine(draw, 0, 0);
  const remote = buildEngine(draw, 1, 0);
  const transfer: Transfer = {
    operation: 'write',
    local: local.engine,
    remote: remote.engine,
    localBlocks: local.blocks,
    remoteBlocks: remote.blocks,
    tokenFrom: 0,
    tokenTo: draw.tokens,
  };
  const twice = remote.blocks.map((group) => ({
    ...group,
    blocks: group.blocks.map(() => group.blocks[0]!),
  }));

  test.each([
    ['a block of the target listed twice', { remoteBlocks: twice }, 'PLAN-RANGE'],
    ['a token that is no whole number', { tokenFrom: 0.5 }, 'PLAN-RANGE'],
    ['a token that is NaN', { tokenTo: Number.NaN }, 'PLAN-RANGE'],
    [
      'a block of 1.5',
      { localBlocks: local.blocks.map((g) => ({ ...g, blocks: [1.5, ...g.blocks.slice(1)] })) },
      'PLAN-RANGE',
    ],
    ['a group without blocks', { localBlocks: [] }, 'PLAN-RANGE'],
    ['lists that are too short', { tokenTo: 1000 }, 'PLAN-RANGE'],
    ['engines that do not fit', { remote: { ...remote.engine, heads: 12 } }, 'PLAN-REFUSED'],
  ])('refuses %s', (_, change, code) => {
    expect(() => planTransfer({ ...transfer, ...change })).toThrow(expect.objectContaining({ code }));
  });

  test('accepts its neighbour without any of these, and a source block listed twice', () => {
    const twiceHere = local.blocks.map((group) => ({
      ...group,
      blocks: group.blocks.map(() => group.blocks[0]!),
    }));
    expect(planTransfer(transfer).length).toBeGreaterThan(0);
    expect(planTransfer({ ...transfer, localBlocks: twiceHere }).length).toBeGreaterThan(0);
  });

  test('begins with the list of the target when that begins later', () => {
    const { blockUnits } = remote.engine.ranks[0]!.layers[0] ?? remote.engine.ranks.at(-1)!.layers[0]!;
    const later = remote.blocks.map(({ blocks }) => ({ blocks: blocks.slice(1), firstToken: blockUnits }));
    const short = { ...transfer, remoteBlocks: later };
    expect(planTransfer(short)).toEqual(planTransfer({ ...short, tokenFrom: blockUnits }));
    expect(planTransfer(short)).not.toEqual(planTransfer(transfer));
  });

  test('takes each target from the ranks that sourceRanks names, copies by turns', () => {
    let pairs = 0;
    for (const heads of [1, 2, 4]) {
      for (const sourceTp of [1, 2, 4, 8]) {
        for (const targetTp of [1, 2, 4, 8]) {
          const planned = planRanks(headsOnly(heads, sourceTp), headsOnly(heads, targetTp));
          for (let target = 0; target < targetTp; target++) {
            const sources = planned.filter((pair) => pair.target === target).map(({ source }) => source);
            expect(sources).toEqual(sourceRanks(heads, sourceTp, targetTp, target));
            pairs += sources.length;
          }
        }
      }
    }
    expect(pairs).toBeGreaterThan(150);
  });

  const { engine } = local;
  const withLayers = (change: (view: LayerView) => LayerView | undefined) => ({
    ...engine,
    ranks: engine.ranks.map((rank) => ({
      ...rank,
      layers: rank.layers.flatMap((view) => change(view) ?? []),
    })),
  });

  test.each([
    ['heads that TP does not divide', { ...engine, heads: 4, tpSize: 3 }, engine, /4 KV heads .* 3 TP ranks/],
    ['other numbers of heads', { ...engine, heads: 12 }, engine, /12 KV heads at the source/],
    [
      'a layer that nobody holds',
      withLayers((view) => (view.layer === 0 ? undefined : view)),
      engine,
      /layer 0 is held by no rank/,
    ],
    [
      'heads that nobody holds',
      withLayers((view) => ({ ...view, headFirst: view.headFirst + 100 })),
      engine,
      /the source has 0 of the/,
    ],
    ['another form', withLayers((view) => ({ ...view, form: 'other' })), engine, /the form is 'other' here/],
    [
      'half of the heads that a rank needs',
      { ...headsOnly(4, 2), ranks: headsOnly(4, 2).ranks.slice(1) },
      headsOnly(4, 1),
      /layer 0: the source has 2 of the 4 heads/,
    ],
  ])('between engines with %s is refused with the cause', (_, source, target, cause) => {
    expect(refusalOfEngines(source, target)).toMatch(cause);
    expect(refusalOfEngines(engine, engine)).toBe('');
  });
});

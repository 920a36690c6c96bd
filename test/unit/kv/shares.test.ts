import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type ContextView,
  type LayerView,
  listedTokensOf,
  WHOLE_CONTEXT,
} from '../../../src/base/cache-view.ts';
import { type PartSide, planPart, planUnits } from '../../../src/kv/plan.ts';
import { refusalOf } from '../../../src/kv/refusal.ts';
import { contextsMeet, sharedStretches } from '../../../src/kv/shares.ts';
import {
  type EngineSide,
  planRanks,
  planTransfer,
  refusalOfEngines,
  type Transfer,
} from '../../../src/kv/transfer.ts';
import { headsOfRank, layView } from '../../../src/kv/view.ts';

/** Context groups: ranks that split the units of a request. */

const context = fc
  .record({
    ranks: fc.constantFrom(1, 2, 3, 4, 8),
    rank: fc.nat({ max: 7 }),
    interleaveUnits: fc.constantFrom(1, 2, 3, 4),
  })
  .map(({ ranks, rank, interleaveUnits }): ContextView => ({ ranks, rank: rank % ranks, interleaveUnits }));

function holds({ ranks, rank, interleaveUnits }: ContextView, unit: number): boolean {
  return Math.floor(unit / interleaveUnits) % ranks === rank;
}

function numberAmongHeld({ ranks, interleaveUnits }: ContextView, unit: number): number {
  return Math.floor(unit / (ranks * interleaveUnits)) * interleaveUnits + (unit % interleaveUnits);
}

describe('shares', () => {
  test('are the units that both hold, in as few stretches as there can be', () => {
    let found = 0;
    fc.assert(
      fc.property(
        context,
        context,
        fc.nat({ max: 40 }),
        fc.nat({ max: 40 }),
        fc.nat({ max: 100 }),
        (a, b, here, there, units) => {
          const wanted: [number, number][] = [];
          for (let i = 0; i < units; i++)
            if (holds(a, here + i) && holds(b, there + i))
              wanted.push([numberAmongHeld(a, here + i), numberAmongHeld(b, there + i)]);
          const stretches = [...sharedStretches(a, b, { local: here, remote: there, units })];
          const got = stretches.flatMap(({ local, remote, units: count }) =>
            Array.from({ length: count }, (_, i) => [local + i, remote + i]),
          );
          expect(got).toEqual(wanted);
          const breaks = wanted.filter(
            ([x, y], i) => i === 0 || x !== wanted[i - 1]![0] + 1 || y !== wanted[i - 1]![1] + 1,
          );
          expect(stretches).toHaveLength(breaks.length);
          found += stretches.length;
        },
      ),
      { seed: 42, numRuns: 2000 },
    );
    expect(found).toBeGreaterThan(2000);
  });

  test('of ranks with equal groups are one stretch', () => {
    const alike = { ranks: 4, rank: 2, interleaveUnits: 2 };
    expect([...sharedStretches(alike, alike, { local: 0, remote: 0, units: 800 })]).toEqual([
      { local: 0, remote: 0, units: 200 },
    ]);
  });

  test('meet exactly when some unit lies with both', () => {
    const outcomes = { true: 0, false: 0 };
    fc.assert(
      fc.property(context, context, (a, b) => {
        const round = a.ranks * a.interleaveUnits * b.ranks * b.interleaveUnits;
        const meet = Array.from({ length: round }, (_, unit) => unit).some(
          (unit) => holds(a, unit) && holds(b, unit),
        );
        expect(contextsMeet(a, b)).toBe(meet);
        outcomes[`${meet}`]++;
      }),
      { seed: 42, numRuns: 2000 },
    );
    expect(Math.min(outcomes.true, outcomes.false)).toBeGreaterThan(200);
  });
});

const SHAPE = { blockCount: 9, blockUnits: 4, unitTokens: 1, cellBytes: 4, headFirst: 0, headCount: 1 };

function viewOf(context: ContextView = WHOLE_CONTEXT, change: Partial<typeof SHAPE> = {}): LayerView {
  return layView(0, 0, { ...SHAPE, ...change, order: 'BN', context });
}

describe('a plan of one part', () => {
  const sideOf = (layer: LayerView, blocks: readonly number[]): PartSide => {
    return { layer, part: layer.parts[0]!, blocks, firstUnit: 0 };
  };

  test('takes every fourth token from a rank of four, into its place', () => {
    const runs: number[] = [];
    const quarter = viewOf({ ranks: 4, rank: 1, interleaveUnits: 1 });
    planPart(sideOf(quarter, [5]), sideOf(viewOf(), [3, 1, 2]), { from: 0, to: 12 }, runs);
    expect(runs).toEqual([80, 52, 4, 84, 20, 4, 88, 36, 4]);
  });

  test('of equal groups is whole blocks, as without groups', () => {
    const runs: number[] = [];
    const quarter = viewOf({ ranks: 4, rank: 3, interleaveUnits: 2 });
    planPart(sideOf(quarter, [5, 0]), sideOf(quarter, [6, 7]), { from: 0, to: 32 }, runs);
    expect(runs).toEqual([80, 96, 16, 0, 112, 16]);
  });

  test('of shares that never meet is nothing, and its lists cover the range all the same', () => {
    const [first, second] = [0, 1].map((rank) => viewOf({ ranks: 2, rank, interleaveUnits: 1 })) as [
      LayerView,
      LayerView,
    ];
    const runs: number[] = [];
    planPart(sideOf(first, [5]), sideOf(second, [6]), { from: 0, to: 8 }, runs);
    expect(runs).toEqual([]);
    const refused = expect.objectContaining({ code: 'PLAN-RANGE' });
    for (const [here, there] of [
      [[5], [6, 7]],
      [[5, 6], [6]],
      [
        [5, 9],
        [6, 7],
      ],
    ] as const)
      expect(() => planPart(sideOf(first, here), sideOf(second, there), { from: 0, to: 9 }, runs)).toThrow(
        refused,
      );
    expect(() =>
      planUnits({ ...sideOf(first, [5]), firstUnit: 8 }, sideOf(second, [6, 7]), { from: 7, to: 9 }, runs),
    ).toThrow(refused);
  });
});

describe('refusals', () => {
  test.each([
    [
      'an interleave that does not divide a block',
      { ranks: 2, rank: 0, interleaveUnits: 3 },
      /layer 0: a block of 4 units here is no whole number of interleaves of 3/,
    ],
    ['an interleave of nothing', { ranks: 2, rank: 0, interleaveUnits: 0 }, /interleaves of 0/],
    [
      'a rank outside its group',
      { ranks: 2, rank: 2, interleaveUnits: 1 },
      /context rank 2 of 2 here is none/,
    ],
    ['a group of nobody', { ranks: 0, rank: 0, interleaveUnits: 1 }, /context rank 0 of 0 here is none/],
    ['a group that no host has', { ranks: 65_536, rank: 0, interleaveUnits: 1 }, /context rank 0 of 65536/],
  ])('%s', (_, context, cause) => {
    expect(refusalOf(viewOf(context), viewOf())).toMatch(cause);
    expect(refusalOf(viewOf(), viewOf(context))).toMatch(/at the peer/);
  });

  test('units of unequal tokens, also of groups that would share them alike', () => {
    const half = { ranks: 2, rank: 0, interleaveUnits: 1 };
    expect(refusalOf(viewOf(half), viewOf(half, { unitTokens: 2 }))).toMatch(
      /1 tokens here and 2 at the peer/,
    );
  });

  test('nothing of unequal groups', () => {
    const [a, b] = [
      { ranks: 2, rank: 0, interleaveUnits: 1 },
      { ranks: 4, rank: 3, interleaveUnits: 4 },
    ];
    expect(refusalOf(viewOf(a), viewOf(b))).toBe('');
  });
});

function engineOf(heads: number, tpSize: number, ranks: number, interleaveUnits = 1): EngineSide {
  return {
    heads,
    tpSize,
    ranks: Array.from({ length: tpSize }, (_, tpRank) => {
      const { first, count } = headsOfRank(heads, tpSize / ranks, Math.floor(tpRank / ranks));
      const context = { ranks, rank: tpRank % ranks, interleaveUnits };
      const view = layView(0, 0, { ...SHAPE, order: 'BKNH', headFirst: first, headCount: count, context });
      return { tpRank, layers: [view] };
    }),
  };
}

function pairsOf(source: EngineSide, target: EngineSide): string[] {
  expect(refusalOfEngines(source, target)).toBe('');
  return planRanks(source, target).map((pair) => `${pair.source}-${pair.target}`);
}

describe('engines with context groups', () => {
  test.each([
    ['one rank to a group of four', engineOf(1, 1, 1), engineOf(1, 4, 4), ['0-0', '0-1', '0-2', '0-3']],
    ['a group of four to one rank', engineOf(1, 4, 4), engineOf(1, 1, 1), ['0-0', '1-0', '2-0', '3-0']],
    ['equal groups', engineOf(1, 2, 2), engineOf(1, 2, 2), ['0-0', '1-1']],
    ['a group of two to one of four', engineOf(1, 2, 2), engineOf(1, 4, 4), ['0-0', '1-1', '0-2', '1-3']],
    [
      'the same, two tokens at a time at the target',
      engineOf(1, 2, 2),
      engineOf(1, 2, 2, 2),
      ['0-0', '1-0', '0-1', '1-1'],
    ],
    [
      'copies of a head, by turns, to a group',
      engineOf(1, 2, 1),
      engineOf(1, 4, 4),
      ['0-0', '1-1', '0-2', '1-3'],
    ],
    [
      'two groups of one head each to one rank',
      engineOf(2, 4, 2),
      engineOf(2, 1, 1),
      ['0-0', '1-0', '2-0', '3-0'],
    ],
    [
      'two copies of a group to equal ones',
      engineOf(1, 4, 2),
      engineOf(1, 4, 2),
      ['0-0', '3-1', '0-2', '3-3'],
    ],
  ])('pair %s', (_, source, target, pairs) => {
    expect(pairsOf(source, target)).toEqual(pairs);
  });

  const four = engineOf(1, 4, 4);
  const change = (rank: number, context: ContextView): EngineSide => ({
    ...four,
    ranks: four.ranks.map((side) =>
      side.tpRank === rank ? { ...side, layers: side.layers.map((view) => ({ ...view, context })) } : side,
    ),
  });

  test.each([
    [
      'a context rank that nobody is',
      { ...four, ranks: four.ranks.slice(0, 3) },
      /layer 0: context rank 3 of 4 is no rank of the source/,
    ],
    [
      'groups of two sizes',
      change(1, { ranks: 2, rank: 1, interleaveUnits: 1 }),
      /split the tokens of a head in unequal ways/,
    ],
    [
      'two interleaves',
      change(1, { ranks: 4, rank: 1, interleaveUnits: 2 }),
      /split the tokens of a head in unequal ways/,
    ],
    [
      'groups that TP does not fill',
      { ...four, tpSize: 6 },
      /6 TP ranks are no whole number of context groups of 4/,
    ],
    [
      'heads that groups do not divide',
      { ...engineOf(3, 1, 1), tpSize: 4, ranks: engineOf(1, 2, 2).ranks },
      /3 KV heads cannot be split over or replicated on 2 TP ranks/,
    ],
    ['a rank outside its group', change(1, { ranks: 4, rank: 4, interleaveUnits: 1 }), /context rank/],
  ])('are refused for %s', (_, source, cause) => {
    expect(refusalOfEngines(source, { ...engineOf(1, 1, 1), heads: source.heads })).toMatch(cause);
  });

  test('need only the context ranks that a target shares units with', () => {
    const some = { ...four, ranks: four.ranks.slice(0, 2) };
    const target = engineOf(1, 4, 4);
    expect(refusalOfEngines(some, { ...target, ranks: target.ranks.slice(0, 2) })).toBe('');
    expect(refusalOfEngines(some, { ...target, ranks: target.ranks.slice(2) })).toMatch(
      /context rank 2 of 4/,
    );
  });

  test('have lists that begin with a listed block, over all ranks of the group', () => {
    const target = engineOf(1, 4, 4);
    const transfer: Transfer = {
      operation: 'write',
      local: engineOf(1, 1, 1),
      remote: target,
      localBlocks: [{ blocks: [0, 1, 2, 3, 4, 5, 6, 7], firstToken: 0 }],
      remoteBlocks: [{ blocks: [4], firstToken: 16 }],
      tokenFrom: 0,
      tokenTo: 32,
    };
    expect(listedTokensOf(target.ranks[0]!.layers[0]!)).toBe(16);
    expect(planTransfer(transfer)).toHaveLength(4);
    for (const firstToken of [4, 8, 15]) {
      const within = { ...transfer, remoteBlocks: [{ blocks: [4, 5], firstToken }] };
      expect(() => planTransfer(within)).toThrow(expect.objectContaining({ code: 'PLAN-RANGE' }));
    }
  });
});

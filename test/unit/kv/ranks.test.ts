import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { UsageError } from '../../../src/base/failure.ts';
import { headsOfRank, sourceRanks } from '../../../src/kv/view.ts';
import * as ranks from '../../reference/ranks.ts';

/** Two TP sizes of which one divides the other. */
const pair = fc
  .tuple(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 1, max: 8 }), fc.boolean())
  .map(([one, factor, swap]) => (swap ? [one * factor, one] : [one, one * factor]) as [number, number]);

test('the ranks that turn to a rank are those that it acknowledges, and all of them are expected', () => {
  fc.assert(
    fc.property(pair, ([decodeTp, prefillTp]) => {
      for (let rank = 0; rank < prefillTp; rank++) {
        const acking = ranks.ackingRanks(prefillTp, decodeTp, rank);
        expect(acking).toHaveLength(ranks.expectedAckCount(prefillTp, decodeTp));
        for (const reader of acking) {
          // With fewer ranks of D each stands for a whole share, of which the first is the one that it reads from.
          const share = Math.max(1, prefillTp / decodeTp);
          expect(ranks.remoteTpRank(reader, decodeTp, prefillTp)).toBe(rank - (rank % share));
        }
      }
    }),
    { seed: 42, numRuns: 200 },
  );
});

test('where every rank holds one head, the rank turned to holds it', () => {
  fc.assert(
    fc.property(pair, fc.integer({ min: 1, max: 8 }), ([localTp, remoteTp], heads) => {
      fc.pre(localTp % heads === 0 && remoteTp % heads === 0);
      for (let rank = 0; rank < localTp; rank++) {
        const remote = ranks.remoteTpRank(rank, localTp, remoteTp);
        expect(headsOfRank(heads, remoteTp, remote)).toEqual(headsOfRank(heads, localTp, rank));
        expect(sourceRanks(heads, remoteTp, localTp, rank)).toHaveLength(1);
      }
    }),
    { seed: 42, numRuns: 300 },
  );
});

test('heads that both sides can hold can move, and each rank then finds all of its own', () => {
  const size = fc.integer({ min: 1, max: 12 });
  let moved = 0;
  fc.assert(
    fc.property(size, size, size, (localTp, remoteTp, heads) => {
      try {
        ranks.requireMovableHeads(localTp, remoteTp, heads, false);
      } catch (error) {
        expect(error).toBeInstanceOf(UsageError);
        return;
      }
      moved++;
      for (let rank = 0; rank < localTp; rank++) {
        const wanted = headsOfRank(heads, localTp, rank);
        const held = new Set<number>();
        for (const source of sourceRanks(heads, remoteTp, localTp, rank)) {
          const { first, count } = headsOfRank(heads, remoteTp, source);
          for (let head = first; head < first + count; head++) held.add(head);
        }
        for (let head = wanted.first; head < wanted.first + wanted.count; head++)
          expect(held).toContain(head);
      }
    }),
    { seed: 42, numRuns: 600 },
  );
  expect(moved).toBeGreaterThan(100);
});

test('a latent cache is one head on each rank, whatever the heads of the model', () => {
  expect(() => ranks.requireMovableHeads(4, 2, 3, true)).not.toThrow();
  expect(() => ranks.requireMovableHeads(4, 2, 3, false)).toThrow(UsageError);
});

describe('reads in turn', () => {
  const anywhere = { localTp: 1, isLatent: true, remoteDp: 1, remoteTp: 3 };

  test('ask every rank of a remote equally often, whatever else is read in between', () => {
    fc.assert(
      fc.property(fc.array(fc.nat({ max: 2 }), { maxLength: 60 }), fc.nat({ max: 9 }), (order, dpRank) => {
        const sizes = [2, 3, 4];
        const turns: ranks.ReadTurns = new Map();
        const asked = sizes.map((size) => Array<number>(size).fill(0));
        for (const remote of order) {
          const at = ranks.takeReadTurn(turns, `P${remote}`, dpRank, sizes[remote]!);
          asked[remote]![at]!++;
        }
        for (const counts of asked) expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
      }),
      { seed: 42, numRuns: 200 },
    );
  });

  test('are for a lone rank with a latent cache alone, against one DP rank', () => {
    expect(ranks.mayReadAnywhere(anywhere)).toBe(true);
    for (const other of [{ localTp: 2 }, { isLatent: false }, { remoteDp: 2 }, { remoteTp: 1 }])
      expect(ranks.mayReadAnywhere({ ...anywhere, ...other })).toBe(false);
  });

  test('leave no trace where there is no choice', () => {
    const turns: ranks.ReadTurns = new Map();
    expect(ranks.readSource(turns, 'P', { ...anywhere, localTp: 3 }, 5, 2)).toBe(2);
    expect(turns.size).toBe(0);
  });
});

test.each([
  ['a TP size of 0', () => ranks.remoteTpRank(0, 0, 1), 'TP-SIZE'],
  ['a TP size that is no whole number', () => ranks.expectedAckCount(1.5, 3), 'TP-SIZE'],
  ['a rank that is no whole number', () => ranks.remoteTpRank(0.5, 2, 2), 'TP-RANK'],
  ['an acknowledged rank beyond the size', () => ranks.ackingRanks(2, 2, 2), 'TP-RANK'],
  ['sizes that do not divide', () => ranks.ackingRanks(3, 2, 0), 'TP-INDIVISIBLE'],
  ['a larger group of D that is no multiple', () => ranks.expectedAckCount(2, 3), 'TP-INDIVISIBLE'],
  ['no heads', () => ranks.requireMovableHeads(1, 1, 0, false), 'TP-HEADS'],
  [
    'no DP ranks',
    () => ranks.eagerTargets({ localTp: 1, isLatent: true, remoteDp: 0, remoteTp: 1 }),
    'DP-SIZE',
  ],
  ['a negative first turn', () => ranks.takeReadTurn(new Map(), 'P', -1, 2), 'DP-RANK'],
])('%s is refused', (_, ask, code) => {
  expect(ask).toThrow(UsageError);
  expect(ask).toThrow(expect.objectContaining({ code }));
});

import { describe, expect, test } from 'vitest';
import { UsageError } from '../../../src/base/failure.ts';
import { headsOfRank, isFirstHolder, sourceRanks, targetRanks } from '../../../src/kv/view.ts';

function codeOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (error instanceof UsageError) return error.code;
    throw error;
  }
  return 'accepted';
}

function divides(heads: number, tp: number): boolean {
  return heads % tp === 0 || tp % heads === 0;
}

describe('KV heads over TP ranks', () => {
  test('heads and ranks of which neither divides the other are refused, all others are covered', () => {
    let refused = 0;
    for (let heads = 1; heads <= 8; heads++) {
      for (let tp = 1; tp <= 16; tp++) {
        const code = codeOf(() => headsOfRank(heads, tp, 0));
        expect(code).toBe(divides(heads, tp) ? 'accepted' : 'TP-INDIVISIBLE');
        if (code !== 'accepted') {
          refused++;
          continue;
        }
        const holders = new Array<number>(heads).fill(0);
        const firsts = new Array<number>(heads).fill(0);
        for (let rank = 0; rank < tp; rank++) {
          const { first, count } = headsOfRank(heads, tp, rank);
          for (let head = first; head < first + count; head++) {
            holders[head]!++;
            if (isFirstHolder(heads, tp, rank)) firsts[head]!++;
          }
        }
        expect(new Set(holders)).toEqual(new Set([Math.max(1, tp / heads)]));
        expect(new Set(firsts)).toEqual(new Set([1]));
      }
    }
    expect(refused).toBe(74);
  });

  test('the sources of a rank hold each of its heads exactly once, and replicas share the work', () => {
    let triples = 0;
    let spread = 0;
    for (const heads of [1, 2, 3, 4, 6, 8]) {
      for (let sourceTp = 1; sourceTp <= 16; sourceTp++) {
        for (let targetTp = 1; targetTp <= 16; targetTp++) {
          if (!divides(heads, sourceTp) || !divides(heads, targetTp)) continue;
          triples++;
          const served = new Array<number>(sourceTp).fill(0);
          for (let rank = 0; rank < targetTp; rank++) {
            const wantedHeads = headsOfRank(heads, targetTp, rank);
            const got: number[] = [];
            for (const source of sourceRanks(heads, sourceTp, targetTp, rank)) {
              served[source]!++;
              const held = headsOfRank(heads, sourceTp, source);
              for (let head = held.first; head < held.first + held.count; head++) {
                if (head >= wantedHeads.first && head < wantedHeads.first + wantedHeads.count) got.push(head);
              }
            }
            expect(got).toEqual(
              Array.from({ length: wantedHeads.count }, (_, index) => wantedHeads.first + index),
            );
          }
          const replicas = Math.max(1, sourceTp / heads);
          if (replicas > 1 && targetTp >= heads) {
            spread++;
            for (let first = 0; first < sourceTp; first += replicas) {
              const group = served.slice(first, first + replicas);
              expect(Math.max(...group) - Math.min(...group)).toBeLessThanOrEqual(1);
            }
          }
          served.forEach((count, source) => {
            expect(targetRanks(heads, sourceTp, targetTp, source)).toHaveLength(count);
          });
        }
      }
    }
    expect(triples).toBeGreaterThan(200);
    expect(spread).toBeGreaterThan(50);
  });
});

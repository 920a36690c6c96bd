import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BrokenBelief } from '../../../src/base/failure.ts';
import {
  allocateBlocks,
  cacheBlock,
  countFreeAmong,
  createBlockPool,
  findCachedPrefix,
  releaseBlocks,
  shareBlocks,
} from '../../../src/serving/block-pool.ts';

/** What a pool should be: plain lists and maps, no links. */
class Model {
  /** Free blocks, the next to be handed out first. */
  readonly free: number[];
  readonly holders: number[];
  readonly keys = new Map<number, number>();

  constructor(total: number) {
    this.free = Array.from({ length: total }, (_, block) => block);
    this.holders = new Array<number>(total).fill(0);
  }

  allocate(count: number): number[] | null {
    if (count > this.free.length) return null;
    const taken = this.free.splice(0, count);
    for (const block of taken) {
      this.holders[block] = 1;
      this.keys.delete(block);
    }
    return taken;
  }

  share(blocks: readonly number[]): void {
    for (const block of blocks) {
      if (this.holders[block] === 0) this.free.splice(this.free.indexOf(block), 1);
      this.holders[block]!++;
    }
  }

  release(blocks: readonly number[]): void {
    for (const block of [...blocks].reverse()) {
      this.holders[block]!--;
      if (this.holders[block] === 0) this.free.push(block);
    }
  }

  blockOf(key: number): number | undefined {
    for (const [block, held] of this.keys) if (held === key) return block;
    return undefined;
  }

  cache(block: number, key: number): void {
    if (this.keys.has(block) || this.blockOf(key) !== undefined) return;
    this.keys.set(block, key);
  }
}

type Operation =
  | { readonly kind: 'allocate'; readonly count: number }
  | { readonly kind: 'release'; readonly pick: number }
  | { readonly kind: 'cache'; readonly pick: number; readonly key: number }
  | {
      readonly kind: 'lookUp';
      readonly keys: readonly number[];
      readonly countMax: number;
      readonly share: boolean;
    };

const KEYS = 4;
const small = fc.nat({ max: 1000 });
const key = fc.nat({ max: KEYS - 1 });
const operation: fc.Arbitrary<Operation> = fc.oneof(
  fc.record({ kind: fc.constant('allocate' as const), count: fc.nat({ max: 5 }) }),
  fc.record({ kind: fc.constant('release' as const), pick: small }),
  fc.record({ kind: fc.constant('cache' as const), pick: small, key }),
  fc.record({
    kind: fc.constant('lookUp' as const),
    keys: fc.array(key, { minLength: 1, maxLength: 3 }),
    countMax: fc.integer({ min: 1, max: 3 }),
    share: fc.boolean(),
  }),
);

test('any sequence of operations leaves the pool as a plain model of it says', () => {
  const seen = {
    allocated: 0,
    refused: 0,
    released: 0,
    shared: 0,
    revived: 0,
    evicted: 0,
    hits: 0,
    secondKeys: 0,
  };
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 9 }),
      fc.array(operation, { minLength: 20, maxLength: 80 }),
      (total, operations) => {
        const pool = createBlockPool(total);
        const model = new Model(total);
        /** Block lists that somebody holds, as requests do. */
        const held: number[][] = [];
        for (const step of operations) {
          if (step.kind === 'allocate') {
            const cachedBefore = model.keys.size;
            const freeBefore = new Set(model.free);
            const blocks = allocateBlocks(pool, step.count);
            expect(blocks).toEqual(model.allocate(step.count));
            if (blocks === null) {
              seen.refused++;
              continue;
            }
            expect(new Set(blocks).size).toBe(step.count);
            expect(blocks.every((block) => freeBefore.has(block))).toBe(true);
            seen.allocated += blocks.length;
            seen.evicted += cachedBefore - model.keys.size;
            held.push(blocks);
          } else if (step.kind === 'release' && held.length > 0) {
            const [blocks] = held.splice(step.pick % held.length, 1) as [number[]];
            releaseBlocks(pool, blocks, 0);
            model.release(blocks);
            seen.released += blocks.length;
          } else if (step.kind === 'cache') {
            const all = held.flat();
            if (all.length === 0) continue;
            const block = all[step.pick % all.length]!;
            if (model.blockOf(step.key) !== undefined || model.keys.has(block)) seen.secondKeys++;
            cacheBlock(pool, block, step.key);
            model.cache(block, step.key);
          } else if (step.kind === 'lookUp') {
            const countMax = Math.min(step.countMax, step.keys.length);
            const blocks = findCachedPrefix(pool, step.keys, countMax);
            const wanted: number[] = [];
            for (const wantedKey of step.keys.slice(0, countMax)) {
              const block = model.blockOf(wantedKey);
              if (block === undefined) break;
              wanted.push(block);
            }
            expect(blocks).toEqual(wanted);
            seen.hits += blocks.length;
            const distinct = [...new Set(blocks)];
            const free = distinct.filter((block) => model.holders[block] === 0).length;
            expect(countFreeAmong(pool, distinct)).toBe(free);
            if (!step.share || distinct.length === 0) continue;
            seen.shared += distinct.length;
            seen.revived += free;
            shareBlocks(pool, distinct);
            model.share(distinct);
            held.push(distinct);
          }
          expect(pool.freeCount).toBe(model.free.length);
          expect([...pool.holders]).toEqual(model.holders);
          for (let known = 0; known < KEYS; known++) {
            expect(findCachedPrefix(pool, [known], 1)).toEqual(
              [model.blockOf(known)].filter((block) => block !== undefined),
            );
          }
        }
        // Everything comes back, and then every block can be had once more, oldest first.
        for (const blocks of held) {
          releaseBlocks(pool, blocks, 0);
          model.release(blocks);
        }
        expect(pool.freeCount).toBe(total);
        expect(allocateBlocks(pool, total)).toEqual(model.allocate(total));
        expect(pool.cached.size).toBe(0);
      },
    ),
    { seed: 42, numRuns: 600 },
  );
  for (const [what, count] of Object.entries(seen)) expect([what, count > 50]).toEqual([what, true]);
});

describe('a pool', () => {
  test('takes nothing when it cannot give all', () => {
    const pool = createBlockPool(3);
    expect(allocateBlocks(pool, 4)).toBeNull();
    expect(pool.freeCount).toBe(3);
    expect(allocateBlocks(pool, 3)).toEqual([0, 1, 2]);
    expect(allocateBlocks(pool, 1)).toBeNull();
    expect(allocateBlocks(pool, 0)).toEqual([]);
  });

  test('frees the last block of a list first, so that a prefix lives longest', () => {
    const pool = createBlockPool(3);
    const blocks = allocateBlocks(pool, 3)!;
    blocks.forEach((block, index) => {
      cacheBlock(pool, block, 100 + index);
    });
    releaseBlocks(pool, blocks, 0);
    allocateBlocks(pool, 1);
    expect(findCachedPrefix(pool, [100, 101, 102], 3)).toEqual([0, 1]);
    allocateBlocks(pool, 1);
    expect(findCachedPrefix(pool, [100, 101, 102], 3)).toEqual([0]);
  });

  test('gives a shared block back to the free list only when the last holder lets go', () => {
    const pool = createBlockPool(2);
    const blocks = allocateBlocks(pool, 1)!;
    shareBlocks(pool, blocks);
    releaseBlocks(pool, blocks, 0);
    expect(pool.freeCount).toBe(1);
    releaseBlocks(pool, blocks, 1);
    expect(pool.freeCount).toBe(2);
  });

  test('believes in no release that nobody is entitled to, and in no pool of nothing', () => {
    const pool = createBlockPool(2);
    const blocks = allocateBlocks(pool, 1)!;
    releaseBlocks(pool, blocks, 0);
    expect(() => releaseBlocks(pool, blocks, 0)).toThrow(BrokenBelief);
    expect(() => releaseBlocks(createBlockPool(1), [0], 0)).toThrow('INV-POOL-2');
    for (const total of [0, -1, 1.5, Number.NaN]) expect(() => createBlockPool(total)).toThrow('INV-POOL-1');
  });
});

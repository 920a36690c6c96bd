import { believe } from '../base/failure.ts';
import { filled } from '../base/lists.ts';
import { SmallMap } from '../base/small-map.ts';
import type { BlockId, RequestId } from '../base/topology.ts';

/**
 * The KV blocks of one engine: reference counts, a free list in order of release, and the prefix cache over full blocks.
 * A free block keeps its cached content until it is handed out again, as in vLLM.
 */
export interface BlockPool {
  readonly total: number;
  freeCount: number;
  /** Doubly linked free list; index `total` is the sentinel. */
  readonly next: number[];
  readonly previous: number[];
  readonly holders: number[];
  /** Prefix key of each cached block, -1 when it holds no cached prefix. */
  readonly keys: number[];
  readonly cached: SmallMap<number, BlockId>;
}

export function createBlockPool(total: number): BlockPool {
  believe(Number.isInteger(total) && total > 0, 'INV-POOL-1', `a pool of ${total} blocks`);
  const next = filled(total + 1, 0);
  const previous = filled(total + 1, 0);
  for (let block = 0; block <= total; block++) {
    next[block] = block === total ? 0 : block + 1;
    previous[block] = block === 0 ? total : block - 1;
  }
  return {
    total,
    freeCount: total,
    next,
    previous,
    holders: filled(total, 0),
    keys: filled(total, -1),
    cached: new SmallMap(),
  };
}

function unlink(pool: BlockPool, block: BlockId): void {
  const before = pool.previous[block]!;
  const after = pool.next[block]!;
  pool.next[before] = after;
  pool.previous[after] = before;
  pool.freeCount--;
}

function append(pool: BlockPool, block: BlockId): void {
  const last = pool.previous[pool.total]!;
  pool.next[last] = block;
  pool.previous[block] = last;
  pool.next[block] = pool.total;
  pool.previous[pool.total] = block;
  pool.freeCount++;
}

/** Takes `count` free blocks, oldest first, and drops what they cached; null, and nothing taken, when there are too few. */
export function allocateBlocks(pool: BlockPool, count: number): BlockId[] | null {
  if (count > pool.freeCount) return null;
  const blocks: BlockId[] = [];
  for (let taken = 0; taken < count; taken++) {
    const block = pool.next[pool.total]!;
    unlink(pool, block);
    const key = pool.keys[block]!;
    if (key !== -1) {
      if (pool.cached.get(key) === block) pool.cached.delete(key);
      pool.keys[block] = -1;
    }
    pool.holders[block] = 1;
    blocks.push(block);
  }
  return blocks;
}

/** The longest run of cached blocks that starts the key list, at most `countMax`. Takes no reference. */
export function findCachedPrefix(pool: BlockPool, keys: readonly number[], countMax: number): BlockId[] {
  const blocks: BlockId[] = [];
  for (let index = 0; index < countMax; index++) {
    const block = pool.cached.get(keys[index]!);
    if (block === undefined) break;
    blocks.push(block);
  }
  return blocks;
}

/** Adds a holder to each block; a free one leaves the free list with its content. */
export function shareBlocks(pool: BlockPool, blocks: readonly BlockId[]): void {
  for (const block of blocks) {
    if (pool.holders[block] === 0) unlink(pool, block);
    pool.holders[block]!++;
  }
}

/** Free blocks that {@link shareBlocks} would take off the free list. */
export function countFreeAmong(pool: BlockPool, blocks: readonly BlockId[]): number {
  let count = 0;
  for (const block of blocks) if (pool.holders[block] === 0) count++;
  return count;
}

/** Gives up one hold on each block, last block first so that prefixes survive longest. */
export function releaseBlocks(pool: BlockPool, blocks: readonly BlockId[], request: RequestId): void {
  for (let index = blocks.length - 1; index >= 0; index--) {
    const block = blocks[index]!;
    believe(
      pool.holders[block]! > 0,
      'INV-POOL-2',
      `request ${request} frees block ${block}, which nobody holds`,
    );
    if (--pool.holders[block]! === 0) append(pool, block);
  }
}

/** Makes a full block findable by its prefix; the first block with a key keeps it. */
export function cacheBlock(pool: BlockPool, block: BlockId, key: number): void {
  if (pool.keys[block] !== -1 || pool.cached.has(key)) return;
  pool.keys[block] = key;
  pool.cached.set(key, block);
}

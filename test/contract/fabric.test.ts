import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { UsageError } from '../../src/base/failure.ts';
import { StatusCode } from '../../src/io/codes.ts';
import type { Completion, Connection, Fabric } from '../../src/io/fabric.ts';
import { NATIVE_PROVIDERS } from '../../src/node/native-fabric.ts';
import type { WorldMemory } from '../../src/sim/memory.ts';
import { createWasmFabric } from '../../src/sim/wasm-fabric.ts';
import { availability, openNative } from '../helpers/native.ts';
import { newMemory } from '../helpers/world.ts';

/** What every fabric owes the world, whatever moves the bytes. */

interface Subject {
  readonly name: string;
  readonly missing: boolean;
  readonly open: (memory: WorldMemory) => Fabric & { reset?: () => void; close?: () => Promise<void> };
}

const SUBJECTS: readonly Subject[] = [
  { name: 'wasm', missing: false, open: createWasmFabric },
  ...NATIVE_PROVIDERS.flatMap((provider): Subject[] => {
    const { missing, note } = availability(provider);
    return [1, 3].map((queuePairs) => ({
      name: `native ${provider} (${queuePairs} queue pairs)${note}`,
      missing,
      open: (memory) => openNative(provider, memory, queuePairs),
    }));
  }),
];

const REGION = 256 * 1024;
const SOURCE = 1024 * 1024;
const TARGET = 2 * 1024 * 1024;

/** Waits for `count` completions, each at most once. */
function endsOf(fabric: Fabric, count: number): Completion[] {
  const ended: Completion[] = [];
  for (;;) {
    ended.push(...fabric.poll());
    if (ended.length >= count || fabric.rest === undefined) return ended;
    fabric.rest();
  }
}

describe.each(SUBJECTS)('the $name fabric', ({ missing, open }) => {
  describe.skipIf(missing)('keeps the contract:', () => {
    const memory = missing ? null! : newMemory();
    const fabric = missing ? null! : open(memory);
    let connection: Connection;
    afterAll(() => fabric.close?.());

    beforeEach(() => {
      fabric.reset?.();
      for (let i = 0; i < REGION; i++) memory.bytes[SOURCE + i] = (i * 31 + (i >>> 8)) & 0xff;
      memory.bytes.fill(0, TARGET, TARGET + REGION);
      connection = fabric.connect(
        fabric.registerMemory(1, SOURCE, SOURCE + REGION),
        fabric.registerMemory(2, TARGET, TARGET + REGION),
      );
    });

    const post = (operation: 'read' | 'write', runs: readonly number[], id: number): Completion => {
      fabric.post(connection, operation, runs, id);
      const ended = endsOf(fabric, 1);
      expect(ended.map((completion) => completion.id)).toEqual([id]);
      return ended[0]!;
    };
    const slice = (base: number, offset: number, bytes: number): Uint8Array =>
      memory.bytes.slice(base + offset, base + offset + bytes);
    const untouched = (): boolean =>
      memory.bytes.subarray(TARGET, TARGET + REGION).every((byte) => byte === 0);

    test('a write moves the bytes of every run, and no other', () => {
      const runs = [0, 100, 1, 7, 4096, 65_537, 131_072, 200_000, 4096];
      expect(post('write', runs, 7)).toEqual({ id: 7, code: StatusCode.SUCCESS, message: 'success' });
      const wanted = new Uint8Array(REGION);
      for (let i = 0; i < runs.length; i += 3)
        wanted.set(slice(SOURCE, runs[i]!, runs[i + 2]!), runs[i + 1]!);
      expect(Buffer.compare(slice(TARGET, 0, REGION), wanted)).toBe(0);
    });

    test.skipIf(missing || fabric.reset === undefined)(
      'what a run that broke off has left behind is no completion of the next',
      () => {
        fabric.post(connection, 'write', [0, 100, 200_000], 7);
        fabric.reset!();
        expect(fabric.poll()).toEqual([]);
        connection = fabric.connect(
          fabric.registerMemory(1, SOURCE, SOURCE + REGION),
          fabric.registerMemory(2, TARGET, TARGET + REGION),
        );
        expect(post('write', [0, 0, 64], 8).code).toBe(StatusCode.SUCCESS);
      },
    );

    test('a read moves them the other way', () => {
      memory.bytes.fill(9, TARGET + 500, TARGET + 800);
      expect(post('read', [10, 500, 300], 1).code).toBe(StatusCode.SUCCESS);
      expect([...slice(SOURCE, 10, 300)].every((byte) => byte === 9)).toBe(true);
      expect(memory.bytes[SOURCE + 9]).toBe((9 * 31) & 0xff);
      expect(memory.bytes[SOURCE + 310]).toBe((310 * 31 + 1) & 0xff);
    });

    test('a run may fill both regions to the last byte, and begin anywhere', () => {
      expect(post('write', [0, 0, REGION], 1).code).toBe(StatusCode.SUCCESS);
      expect(Buffer.compare(slice(TARGET, 0, REGION), slice(SOURCE, 0, REGION))).toBe(0);
      expect(post('write', [REGION - 1, REGION - 1, 1], 2).code).toBe(StatusCode.SUCCESS);
    });

    test.each([
      ['beyond the local region', [0, 0, 8, REGION - 7, 0, 8]],
      ['beyond the remote region', [0, 0, 8, 0, REGION - 7, 8]],
      ['longer than both', [0, 0, 8, 0, 0, REGION + 1]],
      ['that begins after the end', [0, 0, 8, REGION + 1, 0, 1]],
      ['whose end wraps round 2^32', [0, 0, 8, 0, 2 ** 32 - 4, 8]],
      ['whose offset is cut to 0 in 32 bits', [0, 0, 8, 2 ** 32, 0, 8]],
      ['whose length is cut to 8 in 32 bits', [0, 0, 8, 0, 0, 2 ** 32 + 8]],
      ['whose sum passes 2^53', [0, 0, 8, 0, Number.MAX_SAFE_INTEGER, 8]],
      ['below the region', [0, 0, 8, 0, -8, 8]],
      ['at half a byte', [0, 0, 8, 0, 0.5, 8]],
      ['at no number', [0, 0, 8, 0, Number.NaN, 8]],
      ['of endless length', [0, 0, 8, 0, 0, Number.POSITIVE_INFINITY]],
      ['of no bytes after the end', [0, 0, 8, 0, REGION + 1, 0]],
    ])('a run %s is ERR_INVALID_ARGS, and nothing of its batch moves', (_, runs) => {
      expect(post('write', runs, 3)).toEqual({
        id: 3,
        code: StatusCode.ERR_INVALID_ARGS,
        message: 'length out of range',
      });
      expect(untouched()).toBe(true);
      expect(post('write', [0, 0, 8], 4).code).toBe(StatusCode.SUCCESS);
    });

    test('a dead key is ERR_RDMA_OP at either end, and is never given again', () => {
      fabric.deregisterMemory(connection.target);
      expect(post('write', [0, 0, 8], 5)).toEqual({
        id: 5,
        code: StatusCode.ERR_RDMA_OP,
        message: 'remote access error',
      });
      expect(untouched()).toBe(true);
      const again = fabric.registerMemory(2, TARGET, TARGET + REGION);
      expect(again.key).not.toBe(connection.target.key);
      expect(post('write', [0, 0, 8], 6).code).toBe(StatusCode.ERR_RDMA_OP);
      const fresh = fabric.connect(connection.initiator, again);
      fabric.post(fresh, 'write', [0, 0, 8], 7);
      expect(endsOf(fabric, 1)[0]!.code).toBe(StatusCode.SUCCESS);
      fabric.deregisterMemory(connection.initiator);
      fabric.post(fresh, 'read', [0, 0, 8], 8);
      expect(endsOf(fabric, 1)[0]!.code).toBe(StatusCode.ERR_RDMA_OP);
    });

    test('a region may be taken back twice', () => {
      fabric.deregisterMemory(connection.target);
      fabric.deregisterMemory(connection.target);
      expect(post('write', [0, 0, 8], 5).code).toBe(StatusCode.ERR_RDMA_OP);
    });

    test.each([
      ['beyond the memory', 0, 2 ** 40],
      ['that ends before it begins', 200, 100],
      ['below zero', -1, 100],
      ['of no numbers', Number.NaN, 100],
    ])('a region %s is refused', (_, start, end) => {
      expect(() => fabric.registerMemory(1, start, end)).toThrow(UsageError);
    });

    test('an empty region can be registered, and holds nothing', () => {
      const empty = fabric.registerMemory(3, TARGET, TARGET);
      fabric.post(fabric.connect(connection.initiator, empty), 'write', [0, 0, 1], 1);
      expect(endsOf(fabric, 1)[0]!.code).toBe(StatusCode.ERR_INVALID_ARGS);
      fabric.post(fabric.connect(connection.initiator, empty), 'write', [0, 0, 0], 2);
      expect(endsOf(fabric, 1)[0]!.code).toBe(StatusCode.SUCCESS);
      expect(untouched()).toBe(true);
    });

    test('a batch of no runs, or of empty ones, ends well and moves nothing', () => {
      expect(post('write', [], 1).code).toBe(StatusCode.SUCCESS);
      expect(post('read', [5, 5, 0, REGION, REGION, 0], 2).code).toBe(StatusCode.SUCCESS);
      expect(untouched()).toBe(true);
    });

    test('as many runs as the memory has room for are one batch; one more is too long', () => {
      const many = Array.from({ length: memory.runsMax }, (_, i) => [i * 64, i * 64 + 3, 61]).flat();
      expect(post('write', many, 1).code).toBe(StatusCode.SUCCESS);
      let wrong = 0;
      for (let i = 0; i < memory.runsMax; i++)
        for (let at = 0; at < 61; at++)
          if (memory.bytes[TARGET + i * 64 + 3 + at] !== memory.bytes[SOURCE + i * 64 + at]) wrong++;
      expect(wrong).toBe(0);
      expect(post('write', [...many, 0, 0, 1], 2)).toEqual({
        id: 2,
        code: StatusCode.ERR_INVALID_ARGS,
        message: `a batch of ${memory.runsMax + 1} work requests is longer than ${memory.runsMax}`,
      });
    });

    test('of runs onto the same bytes the last one counts', () => {
      const runs = Array.from({ length: 50 }, (_, i) => [i * 1000, 0, 1000]).flat();
      expect(post('write', runs, 1).code).toBe(StatusCode.SUCCESS);
      expect(Buffer.compare(slice(TARGET, 0, 1000), slice(SOURCE, 49_000, 1000))).toBe(0);
    });

    test('queue pairs name the same memory, carry batches at once and lose a key together', () => {
      const { initiator, target } = connection;
      const pairs = [0, 1, 2, 3].map((queuePair) => fabric.connect(initiator, target, queuePair));
      expect(pairs.map(({ queuePair }) => queuePair)).toEqual([0, 1, 2, 3]);
      for (const [at, pair] of pairs.entries()) fabric.post(pair, 'write', [at, at * 50_000, 40_000], at);
      const ids = endsOf(fabric, 4).map(({ id, code }) => [id, code]);
      expect(ids.sort()).toEqual([0, 1, 2, 3].map((id) => [id, StatusCode.SUCCESS]));
      for (const at of [0, 1, 2, 3])
        expect(Buffer.compare(slice(TARGET, at * 50_000, 40_000), slice(SOURCE, at, 40_000))).toBe(0);
      for (const none of [-1, 0.5, Number.NaN])
        expect(() => fabric.connect(initiator, target, none)).toThrow(UsageError);
      fabric.deregisterMemory(target);
      for (const [at, pair] of pairs.entries()) fabric.post(pair, 'read', [0, 0, 8], 10 + at);
      expect(endsOf(fabric, 4).map(({ code }) => code)).toEqual(pairs.map(() => StatusCode.ERR_RDMA_OP));
    });

    test('every batch completes exactly once, with its own id, also when many are under way', () => {
      const posted = new Map<number, number>();
      for (let i = 0; i < 600; i++) {
        const runs = i % 5 === 0 ? [0, REGION, 1] : [i * 8, i * 16, 8, i, 100_000 + i, 1];
        fabric.post(connection, i % 2 === 0 ? 'write' : 'read', runs, 1e6 + i);
        posted.set(1e6 + i, i % 5 === 0 ? StatusCode.ERR_INVALID_ARGS : StatusCode.SUCCESS);
      }
      const ended = endsOf(fabric, 600);
      expect(new Map(ended.map(({ id, code }) => [id, code]))).toEqual(posted);
      expect(ended.length).toBe(600);
      expect(fabric.poll()).toEqual([]);
    });
  });
});

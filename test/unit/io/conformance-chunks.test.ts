import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type ChunkRules, chunkGeometry, cut } from '../../../src/io/chunks.ts';
import { StatusCode } from '../../../src/io/codes.ts';
import { mergeBothSides } from '../../../src/io/engine/copies.ts';
import { formWorkRequests, planChains, type SubmissionLimits } from '../../../src/io/submission.ts';
import { entriesOf, type Row } from './rig.ts';

/** Upstream's behaviours of merging, cutting and refusing, in our words; and what must hold for any batch. */

const KIB = 1024;
const GIB = 2 ** 30;
const LIMITS: SubmissionLimits = {
  localBytes: 2 ** 40,
  remoteBytes: 2 ** 40,
  endpoints: 1,
  maxSge: 4,
  maxMessageBytes: 2 ** 31,
  chunking: null,
  merge: true,
  rangeWraps: true,
};

function formed(rows: readonly Row[], limits: Partial<SubmissionLimits> = {}) {
  const result = formWorkRequests(entriesOf(rows), { ...LIMITS, ...limits });
  if (!result.ok) throw result;
  return result;
}

function refused(rows: readonly Row[], limits: Partial<SubmissionLimits> = {}) {
  const result = formWorkRequests(entriesOf(rows), { ...LIMITS, ...limits });
  return result.ok ? null : result;
}

function rules(chunkBytes: number, maxChunks: number): ChunkRules {
  return { chunkBytes, maxChunks };
}

describe('chunks', () => {
  test.each([
    [0, 65_536, 64, []],
    [100, 0, 64, [100]],
    [65_536, 65_536, 64, [65_536]],
    [65_537, 65_536, 64, [32_769, 32_768]],
    [1024 * KIB, 128 * KIB, 4, [262_144, 262_144, 262_144, 262_144]],
    [1024 * KIB, 128 * KIB, 0, []],
  ])('of %d bytes by %d, at most %d', (total, chunkBytes, maxChunks, wanted) => {
    const entries = total === 0 || maxChunks === 0 ? [] : [{ offset: 0, bytes: total }];
    const pieces = cut(entries, rules(chunkBytes, maxChunks), Number.MAX_SAFE_INTEGER);
    expect(pieces.map(({ bytes }) => bytes)).toEqual(wanted);
  });

  test('of one entry are as many as the formula says', () => {
    for (const total of [1, 6, 65_537, 10_000_000]) {
      for (const chunkBytes of [1, 4096, 65_536, 2 ** 30]) {
        for (const maxChunks of [1, 4, 64]) {
          for (const maxMessage of [2, 7, 4096, 65_535, 65_536, 262_144, 2 ** 31, 2 ** 32]) {
            const { count, target } = chunkGeometry(total, rules(chunkBytes, maxChunks), maxMessage);
            if (count > 100_000) continue;
            const pieces = cut([{ offset: 0, bytes: total }], rules(chunkBytes, maxChunks), maxMessage);
            expect([pieces.length, target <= maxMessage]).toEqual([count, true]);
          }
        }
      }
    }
  });

  test('may be fewer than wanted', () => {
    expect(chunkGeometry(6, rules(1, 4), 2)).toEqual({ wanted: 4, target: 2, count: 3 });
  });

  test('cover two entries of 4 GiB together without a gap', () => {
    const entries = [2 * GIB, 2 * GIB].map((bytes, index) => ({ offset: index * 3 * GIB, bytes }));
    const pieces = cut(entries, rules(64 * KIB, 64), 2 ** 31);
    expect(pieces.length).toBeGreaterThanOrEqual(64);
    expect(pieces.length).toBeLessThanOrEqual(65);
    expect(Math.max(...pieces.map(({ bytes }) => bytes))).toBeLessThanOrEqual(64 * KIB * KIB);
    expect(pieces.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(4 * GIB);
  });

  test('never cross the end of an entry', () => {
    const page = 4096;
    const entries = [
      { offset: 0, bytes: 30 * page },
      { offset: 500 * page, bytes: 70 * page },
    ];
    expect(cut(entries, rules(60 * page, 2), 2 ** 31).map(({ bytes }) => bytes / page)).toEqual([30, 20, 50]);
  });

  test('count the same however the requests are split over workers', () => {
    const sizes = [1, 65_536, 65_537, 300_000, 0, 1_000_000, 70_000];
    const chunking = rules(65_536, 64);
    const counts = (parts: number[][]): number =>
      parts.reduce((sum, part) => {
        const rows = part.map((bytes, at): Row => [at * 2 ** 21, at * 2 ** 21, bytes]);
        return sum + formed(rows, { chunking, merge: false }).total;
      }, 0);
    expect(counts([sizes.slice(0, 3), sizes.slice(3)])).toBe(counts([sizes]));
    expect(counts(sizes.map((size) => [size]))).toBe(counts([sizes]));
  });

  test('stand for what a list of entries becomes before anything is posted', () => {
    const rows: Row[] = [
      [0, 0, 4 * GIB - 4096],
      [8 * GIB, 4 * GIB - 4096, 4096],
    ];
    const { workRequests, total } = formed(rows, { chunking: rules(65_536, 64), maxMessageBytes: 2 ** 31 });
    expect([workRequests.length, total]).toEqual([65, 65]);
    expect(workRequests.every(({ credits, sges }) => credits === 1 && sges.length === 1)).toBe(true);
  });
});

describe('a batch', () => {
  const three: Row[] = [
    [0, 0, 64],
    [64, 64, 64],
    [128, 128, 64],
  ];

  test('joins what continues, unless merging is off; its total counts the requests', () => {
    const off = formed(three, { merge: false });
    expect([off.workRequests.length, off.total]).toEqual([3, 3]);
    const on = formed(three);
    expect([on.workRequests.length, on.total, on.workRequests[0].credits]).toEqual([1, 3, 3]);
  });

  test('of 64 shuffled neighbours becomes one, for RDMA and for copies', () => {
    const order = Array.from({ length: 64 }, (_, index) => (index * 37) % 64);
    const rows = order.map((at): Row => [at * 100, at * 100, 100]);
    expect(formed(rows).workRequests.map(({ bytes }) => bytes)).toEqual([6400]);
    expect(mergeBothSides(entriesOf(rows))).toEqual([0, 0, 6400]);
  });

  test('with one request of 4 GiB is refused', () => {
    const refusal = refused([[0, 0, 2 ** 32]]);
    expect([refusal?.code, refusal?.message]).toEqual([
      StatusCode.ERR_INVALID_ARGS,
      expect.stringContaining('UINT32_MAX'),
    ]);
  });

  test('that outgrows the largest message is refused without chunking', () => {
    const refusal = refused([[0, 0, 4096]], { maxMessageBytes: 1000 });
    expect(refusal?.message).toContain('max_msg_sz');
  });

  test('is refused by the first check that fails, in order', () => {
    const rows: Row[] = [[0, 2 ** 41, 2 ** 32]];
    const none = { endpoints: 0, maxMessageBytes: 0, chunking: rules(4096, 0) };
    expect(refused(rows, none)?.message).toBe('no endpoints');
    expect(refused(rows, { ...none, endpoints: 1 })?.message).toContain('maxChunks');
    const later = { maxMessageBytes: 0 };
    expect(refused(rows, later)?.message).toContain('UINT32_MAX');
    expect(refused([[0, 2 ** 41, 1]], later)?.message).toBe('length out of range');
    expect(refused([[0, 0, 1]], later)?.code).toBe(StatusCode.ERR_BAD_STATE);
    expect(formed([], none).workRequests).toEqual([]);
  });

  test('wraps past the range check only when told to', () => {
    expect(formed([[0, -1, 2]]).workRequests).toHaveLength(1);
    expect(refused([[0, -3, 2]])?.message).toBe('length out of range');
    expect(refused([[0, -1, 2]], { rangeWraps: false })?.message).toBe('length out of range');
  });
});

describe('any batch', () => {
  const row = fc.tuple(fc.nat(3000), fc.nat(3000), fc.nat(300));
  const limits = fc.record({
    maxSge: fc.integer({ min: 1, max: 5 }),
    chunking: fc.option(
      fc.record({ chunkBytes: fc.integer({ min: 1, max: 400 }), maxChunks: fc.integer({ min: 1, max: 9 }) }),
    ),
    maxMessageBytes: fc.integer({ min: 100_000, max: 200_000 }),
  });

  test('keeps every byte, in order of the remote offset, ties in input order', () => {
    fc.assert(
      fc.property(fc.array(row, { minLength: 1, maxLength: 40 }), limits, (rows, some) => {
        const { workRequests, total } = formed(rows, some);
        const moved = workRequests.flatMap(({ remoteOffset, sges }) => {
          let at = remoteOffset;
          return sges.flatMap(({ offset, bytes }) => {
            const pairs = Array.from({ length: bytes }, (_, byte) => [offset + byte, at + byte]);
            at += bytes;
            return pairs;
          });
        });
        const sorted = rows.map((each) => each).sort((left, right) => left[1] - right[1]);
        const wanted = sorted.flatMap(([local, remote, bytes]) =>
          Array.from({ length: bytes }, (_, byte) => [local + byte, remote + byte]),
        );
        expect(moved).toEqual(wanted);
        expect(workRequests.every(({ sges }) => sges.length <= some.maxSge)).toBe(true);
        expect(workRequests.reduce((sum, { credits }) => sum + credits, 0)).toBe(total);
      }),
      { numRuns: 200 },
    );
  });

  test('is dealt in whole chains, each within its queue, the last of each queue pair signaled', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 200 }),
        fc.nat(50),
        fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 1, maxLength: 5 }),
        fc.constantFrom(-1, 0, 1, 3, 7, 100),
        fc.boolean(),
        (count, id, depths, postBatchSize, signalsLastOnly) => {
          const endpoints = depths.length;
          const chains = planChains(count, id, { endpoints, postBatchSize, depths, signalsLastOnly });
          expect(chains.map(({ first }) => first)).toEqual([0, ...chains.slice(0, -1).map(({ end }) => end)]);
          expect(chains.at(-1)!.end).toBe(count);
          expect(chains[0].endpoint).toBe(id % endpoints);
          expect(chains.every(({ endpoint, first, end }) => end - first <= depths[endpoint])).toBe(true);
          for (let endpoint = 0; endpoint < endpoints; endpoint += 1) {
            const last = chains.findLast((chain) => chain.endpoint === endpoint);
            expect(last?.signaled ?? true).toBe(true);
          }
        },
      ),
      { numRuns: 300 },
    );
  });
});

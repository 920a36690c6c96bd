import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { REFUSED } from '../../src/kv/kernels.ts';
import {
  NO_ROOM,
  NOT_COVERED,
  PART_BYTES,
  PARTS_JOB_BYTES,
  type PartFields,
} from '../../src/kv/row-kernels.ts';
import { anyWord, SETTINGS, small, Tally, U32_MAX } from './pair.ts';
import {
  agreeOnPlan,
  CAPACITY,
  clearUnused,
  JOB,
  LOCAL_BLOCKS,
  LOCAL_PARTS,
  OUT,
  partOf,
  putPart,
  putPartsJob,
  REMOTE_BLOCKS,
  REMOTE_PARTS,
} from './plan.ts';

/** One head, four units a block, no gaps. */
const DENSE = {
  order: [2, 1, 0],
  gap: 3,
  bytes: 8,
  base: 0,
  pageUnits: 4,
  pages: 1,
  headFirst: 0,
  headCount: 1,
  blockCount: 9,
};

const shape = fc.record({
  order: fc.shuffledSubarray([0, 1, 2], { minLength: 3 }),
  gap: fc.constantFrom(0, 1, 2, 3, 3),
  bytes: fc.constantFrom(1, 16, 256),
  base: fc.oneof(fc.integer({ min: 0, max: 100 }), fc.constant(2 ** 42)),
  pageUnits: fc.constantFrom(1, 2, 3, 4, 8, 16),
  pages: fc.constantFrom(1, 1, 2, 4),
  headFirst: fc.integer({ min: 0, max: 3 }),
  headCount: fc.integer({ min: 0, max: 5 }),
  blockCount: fc.integer({ min: 20, max: 30 }),
  context: fc.record({
    ranks: fc.constantFrom(1, 1, 2, 4),
    rank: fc.nat({ max: 3 }),
    interleave: fc.constantFrom(1 as const, 2 as const, 'block' as const),
  }),
});

/** Stretches of neighbours, so that blocks join. */
const blocks = fc
  .array(fc.tuple(fc.integer({ min: 0, max: 17 }), fc.integer({ min: 1, max: 3 })), {
    minLength: 1,
    maxLength: 30,
  })
  .map((stretches) => stretches.flatMap(([first, length]) => Array.from({ length }, (_, i) => first + i)));

const broken = fc.constantFrom<[keyof PartFields, number] | undefined>(
  ...Array.from({ length: 60 }, () => undefined),
  ['base', -1],
  ['base', 2 ** 53 - 100],
  ['blockStride', 2 ** 50],
  ['unitStride', 0.5],
  ['headStride', Number.NaN],
  ['headStride', 2 ** 53],
  ['bytes', 0],
  ['blockUnits', 0],
  ['blockUnits', U32_MAX + 1],
  ['pageUnits', 0],
  ['pageUnits', 5],
  ['headFirst', 2 ** 32],
  ['headCount', Number.POSITIVE_INFINITY],
  ['blockCount', 2 ** 33],
  ['contextRanks', 0],
  ['contextRanks', 2 ** 32],
  ['contextRank', 9],
  ['contextRank', 0.5],
  ['interleaveUnits', 0],
  ['interleaveUnits', 2 ** 33],
  ['interleaveUnits', 5],
);

describe('planParts', () => {
  const place = fc.record({ from: fc.integer({ min: 0, max: 12 }), units: fc.integer({ min: 0, max: 40 }) });
  const first = fc.integer({ min: 0, max: 10 });
  const room = fc.constantFrom(CAPACITY, CAPACITY, CAPACITY, 40, 4);
  const before = fc.constantFrom(0, 0, 1, 3);
  const pair = fc.tuple(shape, shape, fc.boolean()).map(([here, there, alike]) => {
    return [here, alike ? { ...here, base: there.base, pages: there.pages } : there] as const;
  });
  const sides = fc.array(fc.tuple(pair, broken, broken), { minLength: 1, maxLength: 3 });

  test('agrees with the twin on caches of any two shapes', () => {
    const tally = new Tally();
    const property = fc.property(
      sides,
      blocks,
      blocks,
      fc.tuple(first, first),
      place,
      room,
      before,
      (parts, local, remote, firsts, range, capacity, count) => {
        small.reset();
        parts.forEach(([[here, there], brokenHere, brokenThere], i) => {
          const spoil = (part: PartFields, what: typeof brokenHere): PartFields =>
            what ? { ...part, [what[0]]: what[1] } : part;
          putPart(small, LOCAL_PARTS + i * PART_BYTES, spoil(partOf(here, here.bytes), brokenHere));
          putPart(small, REMOTE_PARTS + i * PART_BYTES, spoil(partOf(there, here.bytes), brokenThere));
        });
        small.put(LOCAL_BLOCKS, local);
        small.put(REMOTE_BLOCKS, remote);
        for (let column = 0; column < 3; column++)
          small.putDoubles(OUT + column * capacity * 8, [900, 800, 700]);
        const from = Math.max(0, ...firsts.map((unit) => unit + range.from - 1));
        const agreed = agreeOnPlan({
          parts: parts.length,
          local: local.length,
          remote: remote.length,
          firsts,
          from,
          to: from + range.units,
          count,
          capacity,
        });
        const heads = parts.reduce(
          (sum, [[a, b]]) =>
            sum +
            Math.max(
              0,
              Math.min(a.headFirst + a.headCount, b.headFirst + b.headCount) -
                Math.max(a.headFirst, b.headFirst),
            ),
          0,
        );
        tally.add('rows', agreed > count);
        tally.add('joined', agreed >= 0 && agreed - count < heads * range.units && agreed > count);
        const split = ([a, b]: (typeof parts)[number][0]) => a.context.ranks > 1 || b.context.ranks > 1;
        const bothSplit = ([a, b]: (typeof parts)[number][0]) => a.context.ranks > 1 && b.context.ranks > 1;
        tally.add('rows of context groups', agreed > count && parts.every(([shapes]) => split(shapes)));
        tally.add('of groups on both sides', agreed > count && parts.every(([shapes]) => bothSplit(shapes)));
        tally.add('nothing', agreed === count);
        tally.add('refused', agreed === REFUSED);
        tally.add('not covered', agreed === NOT_COVERED);
        tally.add('no room', agreed === NO_ROOM);
      },
    );
    fc.assert(property, { ...SETTINGS, numRuns: 6000 });
    const outcomes = ['rows', 'joined', 'nothing', 'refused', 'not covered', 'no room'];
    tally.expectEach([...outcomes, 'rows of context groups', 'of groups on both sides'], 100);
  });

  test('agrees with the twin on parts that lie alike, apart or one behind the other', () => {
    const tally = new Tally();
    const order = fc.oneof(fc.constant([0, 1, 2, 3]), fc.shuffledSubarray([0, 1, 2, 3], { minLength: 1 }));
    const property = fc.property(
      shape,
      shape,
      order,
      fc.boolean(),
      fc.integer({ min: 1, max: 5 }),
      before,
      room,
      (a, b, list, dense, count, rows, capacity) => {
        small.reset();
        const here = { ...a, pages: 1, blockCount: 4, headCount: 2, headFirst: 0 };
        const there = dense ? { ...here, base: b.base } : { ...b, blockCount: 4, headCount: 2, headFirst: 0 };
        const [local, remote] = [partOf(here, a.bytes), partOf(there, a.bytes)];
        const step = here.bytes * here.pageUnits * 8 + (dense ? 0 : 64);
        for (let i = 0; i < count; i++) {
          // From the third one on each differs from its neighbours.
          const other = (part: PartFields): Partial<PartFields> => ({
            ...(i === 2 ? { blockCount: 5 } : {}),
            ...(i >= 3 ? { contextRank: (part.contextRank + 1) % part.contextRanks } : {}),
            ...(i === 4 ? { interleaveUnits: 1 } : {}),
          });
          for (const [part, at] of [
            [local, LOCAL_PARTS],
            [remote, REMOTE_PARTS],
          ] as const)
            putPart(small, at + i * PART_BYTES, { ...part, ...other(part), base: part.base + i * step });
        }
        small.put(LOCAL_BLOCKS, list);
        small.put(REMOTE_BLOCKS, list);
        const joint = [local.base - 10, remote.base - 10, 10];
        for (let column = 0; column < 3; column++)
          small.putDoubles(
            OUT + column * capacity * 8,
            Array.from({ length: rows }, () => joint[column]!),
          );
        const units = Math.min(list.length * here.pageUnits, list.length * there.pageUnits * there.pages);
        const result = agreeOnPlan({
          parts: count,
          local: list.length,
          remote: list.length,
          firsts: [0, 0],
          from: 0,
          to: units,
          count: rows,
          capacity,
        });
        tally.add('rows', result > rows);
        tally.add('one row for many parts', count > 1 && result === Math.max(rows, 1));
        tally.add('joined across parts', dense && count > 1 && result > 0 && (result - rows) % count !== 0);
        tally.add('no room', result === NO_ROOM);
      },
    );
    fc.assert(property, { ...SETTINGS, numRuns: 4000 });
    tally.expectEach(['rows', 'one row for many parts', 'joined across parts', 'no room'], 30);
  });

  test('looks at every part, also at one that lies as the one before it', () => {
    const part = partOf(DENSE, 8);
    for (const [second, expected] of [
      [{ base: 4096 }, 2],
      [{ base: 2 ** 53 - 100 }, REFUSED],
      [{ base: 0.5 }, REFUSED],
      [{ blockCount: 2 }, NOT_COVERED],
    ] as const) {
      for (const spoiled of [LOCAL_PARTS, REMOTE_PARTS]) {
        small.reset();
        for (const at of [LOCAL_PARTS, REMOTE_PARTS]) {
          putPart(small, at, part);
          putPart(small, at + PART_BYTES, { ...part, base: 4096, ...(at === spoiled ? second : {}) });
        }
        small.put(LOCAL_BLOCKS, [1, 2]);
        small.put(REMOTE_BLOCKS, [1, 2]);
        expect(
          agreeOnPlan({
            parts: 2,
            local: 2,
            remote: 2,
            firsts: [0, 0],
            from: 0,
            to: 8,
            count: 0,
            capacity: 9,
          }),
        ).toBe(expected);
      }
    }
  });

  test('has no room for more heads than fit in 32 bits of bytes', () => {
    // The twin would need as many rows.
    const headCount = 2 ** 29 + 1;
    const part = {
      ...partOf(DENSE, 8),
      headCount,
      headStride: 16,
      unitStride: 32,
      blockStride: 2 ** 40,
    };
    small.reset();
    putPart(small, LOCAL_PARTS, part);
    putPart(small, REMOTE_PARTS, part);
    small.put(LOCAL_BLOCKS, [1]);
    putPartsJob({ localCount: 1, remoteBlocks: LOCAL_BLOCKS, remoteCount: 1, to: 4 });
    const planned = small.module.planParts(JOB);
    expect(planned).toBe(NO_ROOM);
  });

  test('joins its first row to the last one before it, and gives it back when there is no room', () => {
    const part = partOf(DENSE, 8);
    const padded = { ...part, base: 100, blockStride: 64 };
    for (const [capacity, expected, bytes] of [
      [3, 3, 40],
      [2, NO_ROOM, 8],
    ] as const) {
      small.reset();
      putPart(small, LOCAL_PARTS, part);
      putPart(small, REMOTE_PARTS, padded);
      small.put(LOCAL_BLOCKS, [1, 2]);
      small.put(REMOTE_BLOCKS, [1, 2]);
      for (const [column, values] of [
        [5, 24],
        [5, 156],
        [5, 8],
      ].entries())
        small.putDoubles(OUT + column * capacity * 8, values);
      putPartsJob({ localCount: 2, remoteCount: 2, to: 8, count: 2, capacity });
      const result = small.agree((k) => k.planParts(JOB));
      expect(result).toBe(expected);
      expect(small.doubles(OUT + capacity * 16 + 8, 1)).toEqual([bytes]);
    }
  });

  test('reads its job first, and refuses one that leaves the memory', () => {
    small.reset();
    for (const address of [LOCAL_PARTS, REMOTE_PARTS]) putPart(small, address, partOf(DENSE, 8));
    small.put(LOCAL_BLOCKS, [1, 2]);
    small.put(REMOTE_BLOCKS, [2, 1]);
    const lists = { localCount: 2, remoteCount: 2, to: 8, capacity: 2 };
    putPartsJob({ ...lists, out: JOB });
    expect(small.agree((k) => k.planParts(JOB))).toBe(2);
    for (const past of [small.bytes - PARTS_JOB_BYTES + 1, small.bytes, U32_MAX])
      expect(small.agree((k) => k.planParts(past))).toBe(REFUSED);
  });

  test('agrees with the twin on lists at any address', () => {
    const tally = new Tally();
    const at = fc.oneof(
      { weight: 12, arbitrary: fc.integer({ min: 0, max: 60_000 }) },
      { weight: 1, arbitrary: anyWord },
    );
    const many = fc.oneof(
      { weight: 12, arbitrary: fc.integer({ min: 0, max: 3 }) },
      { weight: 1, arbitrary: anyWord },
    );
    const property = fc.property(
      fc.tuple(at, at, at, at, at),
      many,
      fc.tuple(many, many),
      many,
      fc.oneof(fc.constant(100), anyWord),
      (places, parts, counts, count, capacity) => {
        const [localParts, remoteParts, localBlocks, remoteBlocks, out] = places;
        small.reset();
        const part = partOf({ ...DENSE, base: 64 }, 8);
        for (const address of [localParts, remoteParts]) {
          for (let i = 0; i < 3; i++)
            if (address + 3 * PART_BYTES < small.bytes) putPart(small, address + i * PART_BYTES, part);
        }
        for (const address of [localBlocks, remoteBlocks])
          if (address + 12 < small.bytes) small.put(address, [1, 2, 4]);
        putPartsJob({
          localParts,
          remoteParts,
          partCount: parts,
          localBlocks,
          localCount: counts[0],
          remoteBlocks,
          remoteCount: counts[1],
          from: 1,
          to: 7,
          out,
          count,
          capacity,
        });
        const result = small.agree((k) => {
          const made = k.planParts(JOB);
          if (made === NO_ROOM) clearUnused(k, count, capacity, out);
          return made;
        });
        tally.add(result === REFUSED ? 'refused' : 'accepted');
        tally.add('rows', result > count);
      },
    );
    fc.assert(property, SETTINGS);
    tally.expectEach(['refused', 'accepted', 'rows'], 50);
  });
});

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  bytesOf,
  createQueuePair,
  type Flight,
  landMicros,
  type NicProfile,
  PROFILES,
  postBatch,
  retire,
} from '../../../src/io/nic.ts';
import type { PostedBatch } from '../../../src/wire/machine.ts';

function batch(runs: number, bytes = 16, operation: 'read' | 'write' = 'write'): PostedBatch {
  return {
    tag: 1,
    peer: 4,
    queuePair: 0,
    operation,
    transfer: 1,
    request: 0,
    layer: 0,
    part: 0,
    runs: Array.from({ length: runs }, (_, index) => [index * bytes, index * bytes, bytes]).flat(),
    localBlocks: [],
    remoteBlocks: [],
  };
}

describe('a send queue', () => {
  test('takes work requests up to its depth and gives slots back as they retire', () => {
    const queuePair = createQueuePair(1, 4, 0, 5);
    const first = postBatch(queuePair, batch(3))!;
    expect(postBatch(queuePair, batch(3))).toBeNull();
    expect([queuePair.posted, queuePair.inFlight.size]).toEqual([3, 1]);
    const second = postBatch(queuePair, batch(2))!;
    expect(queuePair.posted).toBe(5);
    expect(postBatch(queuePair, batch(1))).toBeNull();
    retire(first);
    expect([queuePair.posted, [...queuePair.inFlight]]).toEqual([2, [second]]);
    expect(postBatch(queuePair, batch(3))).not.toBeNull();
  });

  test('never holds more than its depth and counts what is in flight, whatever the order', () => {
    let refused = 0;
    let full = 0;
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 12 }),
        fc.array(fc.nat({ max: 7 }), { maxLength: 40 }),
        (depth, moves) => {
          const queuePair = createQueuePair(1, 4, 0, depth);
          const flights: Flight[] = [];
          let posted = 0;
          for (const move of moves) {
            if (move >= 5 && flights.length > 0) {
              const flight = flights.splice(move % flights.length, 1)[0]!;
              retire(flight);
              posted -= flight.batch.runs.length / 3;
            } else {
              const flight = postBatch(queuePair, batch(move));
              expect(flight === null).toBe(posted + move > depth);
              if (flight === null) refused++;
              else {
                flights.push(flight);
                posted += move;
              }
            }
            full += posted === depth ? 1 : 0;
            expect(queuePair.posted).toBe(posted);
            expect(queuePair.inFlight).toEqual(new Set(flights));
          }
        },
      ),
      { seed: 42, numRuns: 300 },
    );
    expect(refused).toBeGreaterThan(100);
    expect(full).toBeGreaterThan(100);
  });
});

describe('the price of a batch', () => {
  const profile: NicProfile = {
    name: 'test',
    writeBaseMicros: 5,
    readBaseMicros: 6,
    workRequestsPerMicro: 7,
    bytesPerMicro: 1000,
    bytesScale: 1,
    completeMicros: 1,
  };

  test.each([
    ['nothing costs the base', 0, 16, 'write', 5],
    ['a read starts later than a write', 0, 16, 'read', 6],
    ['one small run is rounded up', 1, 16, 'write', 6],
    ['few large runs are bound by the wire', 2, 4000, 'write', 13],
    ['many small runs are bound by the issue rate', 70, 16, 'write', 15],
    ['issue and wire overlap', 7, 1000, 'write', 12],
  ] as const)('%s', (_, runs, bytes, operation, micros) => {
    expect(landMicros(profile, batch(runs, bytes, operation))).toBe(micros);
  });

  test('counts the bytes on the wire, not those of the simulated memory', () => {
    const scaled = { ...profile, bytesScale: 250 };
    expect(landMicros(scaled, batch(1, 16))).toBe(5 + 4);
    expect(bytesOf(batch(3, 16))).toBe(48);
  });

  test('never falls as runs or bytes grow', () => {
    fc.assert(
      fc.property(fc.nat({ max: 60 }), fc.nat({ max: 5000 }), (runs, bytes) => {
        const micros = landMicros(profile, batch(runs, bytes));
        expect(Number.isInteger(micros)).toBe(true);
        expect(landMicros(profile, batch(runs + 1, bytes))).toBeGreaterThanOrEqual(micros);
        expect(landMicros(profile, batch(runs, bytes + 1))).toBeGreaterThanOrEqual(micros);
      }),
      { seed: 42, numRuns: 300 },
    );
  });

  test('is made of whole, positive numbers in every profile', () => {
    for (const { name, ...numbers } of Object.values(PROFILES)) {
      for (const [field, value] of Object.entries(numbers))
        expect([name, field, Number.isInteger(value) && value > 0]).toEqual([name, field, true]);
    }
  });
});

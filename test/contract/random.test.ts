import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import type { Completion, Fabric, MemoryRegion } from '../../src/io/fabric.ts';
import { digestMemory, type WorldMemory } from '../../src/sim/memory.ts';
import { createWasmFabric } from '../../src/sim/wasm-fabric.ts';
import { availability, openNative } from '../helpers/native.ts';
import { newMemory } from '../helpers/world.ts';

/** Random orders, good and bad, given to both fabrics: equal statuses after each, equal bytes at the end. */

const BASE = 1024 * 1024;
const REGION = 40_000;
const REGIONS = 4;

type Order =
  | { readonly kind: 'move'; from: number; to: number; write: boolean; runs: readonly number[] }
  | { readonly kind: 'renew'; which: number };

/** Near the edges more often than not. */
const place = fc.oneof(
  { weight: 6, arbitrary: fc.nat(REGION) },
  { weight: 2, arbitrary: fc.integer({ min: REGION - 3, max: REGION + 3 }) },
  { weight: 1, arbitrary: fc.constantFrom(-1, 0.5, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 53 - 1) },
);
const bytes = fc.oneof(
  { weight: 6, arbitrary: fc.nat(300) },
  { weight: 2, arbitrary: fc.integer({ min: 4000, max: 20_000 }) },
  { weight: 1, arbitrary: fc.constantFrom(REGION, REGION + 1, 2 ** 32, 2 ** 32 + 8) },
);
const goodRun = fc
  .tuple(fc.nat(20_000), fc.nat(20_000), fc.nat(20_000))
  .map(([local, remote, size]) => [local, remote, size]);
const run = fc.oneof(
  { weight: 8, arbitrary: goodRun },
  { weight: 1, arbitrary: fc.tuple(place, place, bytes) },
);
const move = fc.record({
  kind: fc.constant('move' as const),
  from: fc.nat(REGIONS - 1),
  to: fc.nat(REGIONS - 1),
  write: fc.boolean(),
  runs: fc.array(run, { maxLength: 12 }).map((runs) => runs.flat()),
});
const renew = fc.record({ kind: fc.constant('renew' as const), which: fc.nat(REGIONS - 1) });
const orders: fc.Arbitrary<Order[]> = fc.array(
  fc.oneof({ weight: 6, arbitrary: move }, { weight: 1, arbitrary: renew }),
  { maxLength: 25 },
);

function endOf(fabric: Fabric): Completion {
  for (;;) {
    const [ended, more] = fabric.poll();
    expect(more).toBeUndefined();
    if (ended !== undefined) return ended;
    fabric.rest!();
  }
}

function obey(fabric: Fabric, memory: WorldMemory, list: readonly Order[]): unknown[] {
  for (let i = 0; i < REGIONS * REGION; i++) memory.bytes[BASE + i] = (i * 13 + (i >>> 9)) & 0xff;
  const register = (which: number): MemoryRegion =>
    fabric.registerMemory(which, BASE + which * REGION, BASE + (which + 1) * REGION);
  const regions = Array.from({ length: REGIONS }, (_, which) => register(which));
  const stale = [...regions];
  const told = list.map((order, id) => {
    if (order.kind === 'renew') {
      stale[order.which] = regions[order.which]!;
      fabric.deregisterMemory(regions[order.which]!);
      regions[order.which] = register(order.which);
      return null;
    }
    // A region onto itself could overlap; then it is one that may have been taken back.
    const { from, to } = order;
    const target = from === to ? stale[(to + 1) % REGIONS]! : regions[to]!;
    fabric.post(fabric.connect(regions[from]!, target), order.write ? 'write' : 'read', order.runs, id);
    return endOf(fabric);
  });
  for (const region of regions) fabric.deregisterMemory(region);
  return [...told, digestMemory(memory)];
}

describe.each(['shm', 'tcp'] as const)('native %s and wasm', (provider) => {
  const { missing, note } = availability(provider);
  describe.skipIf(missing)(`given the same orders${note}`, () => {
    const [ours, theirs] = [newMemory(), newMemory()];
    const native = missing ? null! : openNative(provider, theirs);
    afterAll(() => native.close());

    test('give the same statuses and leave the same bytes', () => {
      const codes = new Set<unknown>();
      fc.assert(
        fc.property(orders, (list) => {
          const told = obey(createWasmFabric(ours), ours, list);
          for (const one of told) codes.add((one as Completion | null)?.code);
          expect(obey(native, theirs, list)).toEqual(told);
        }),
        { numRuns: 250, seed: 20_261_130 },
      );
      for (const code of [0, 11, 13]) expect(codes).toContain(code);
    });
  });
});

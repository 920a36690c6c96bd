import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { openNativeFabric } from '../../src/node/native-fabric.ts';
import { allocateNativeMemory } from '../../src/node/native-memory.ts';
import { availability } from '../helpers/native.ts';

const MIB = 2 ** 20;

interface Mapping {
  readonly start: number;
  readonly bytes: number;
}

/** Mappings of this process that a fork does not copy, with huge pages asked for. */
function unforked(): Mapping[] {
  const mappings = readFileSync('/proc/self/smaps', 'utf8').split(/\n(?=[0-9a-f]+-[0-9a-f]+ )/);
  return mappings
    .filter((text) => {
      const flags = ` ${/VmFlags: (.*)/.exec(text)?.[1] ?? ''} `;
      return flags.includes(' dc ') && flags.includes(' hg ');
    })
    .map((text) => {
      const [start, end] = text
        .split(' ')[0]!
        .split('-')
        .map((number) => Number.parseInt(number, 16));
      return { start: start!, bytes: end! - start! };
    });
}

function total(mappings: readonly Mapping[]): number {
  return mappings.reduce((sum, { bytes }) => sum + bytes, 0);
}

describe.each(['shm', 'mori'] as const)('memory of the bridge, %s', (provider) => {
  const { missing, note } = availability(provider);

  test.skipIf(missing)(`is zeros on huge pages that a fork does not copy${note}`, () => {
    const before = total(unforked());
    const memory = allocateNativeMemory(provider, 6 * MIB + 1);
    expect([memory.length, memory.byteOffset, memory.buffer.byteLength]).toEqual([
      6 * MIB + 1,
      0,
      6 * MIB + 1,
    ]);
    expect(memory.every((byte) => byte === 0)).toBe(true);
    const after = unforked();
    expect(total(after) - before).toBe(6 * MIB + 4096);
    expect(after.some(({ start, bytes }) => start % (2 * MIB) === 0 && bytes >= 6 * MIB + 4096)).toBe(true);
  });

  test.skipIf(missing)(`may be as small as a byte, and each is another${note}`, () => {
    const [one, other] = [allocateNativeMemory(provider, 1), allocateNativeMemory(provider, 1)];
    one[0] = 7;
    expect([one.buffer.byteLength, one[0], other[0]]).toEqual([1, 7, 0]);
  });

  test.skipIf(missing)(`is what a fabric moves its bytes in${note}`, () => {
    const memory = allocateNativeMemory(provider, 4 * MIB);
    memory.fill(9, 0, MIB);
    const { fabric } = openNativeFabric({ provider, memory, runsMax: 4 });
    const connection = fabric!.connect(
      fabric!.registerMemory(0, 0, 2 * MIB),
      fabric!.registerMemory(1, 2 * MIB, 4 * MIB),
    );
    fabric!.post(connection, 'write', [0, 5, MIB], 1);
    let ended = fabric!.poll();
    while (ended.length === 0) {
      fabric!.rest();
      ended = fabric!.poll();
    }
    expect(ended).toMatchObject([{ id: 1, code: 0 }]);
    expect(memory.subarray(2 * MIB + 5, 3 * MIB + 5).every((byte) => byte === 9)).toBe(true);
    return fabric!.close();
  });

  test.skipIf(missing).each([0, -1, 1.5, Number.NaN, 2 ** 36 + 1, 2 ** 60])(
    `of %d bytes is refused with a code${note}`,
    (bytes) => {
      expect(() => allocateNativeMemory(provider, bytes)).toThrow(
        expect.objectContaining({ code: 'FABRIC-MEMORY', message: expect.stringContaining(String(bytes)) }),
      );
    },
  );
});

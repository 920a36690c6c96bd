import fc from 'fast-check';
import { expect, test } from 'vitest';
import { UsageError } from '../../../src/base/failure.ts';
import * as desc from '../../../src/io/descriptors.ts';

const RUNS = { seed: 42, numRuns: 300 } as const;

const text = fc.string({ unit: 'grapheme', maxLength: 40 });
const i32 = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
const u32 = fc.integer({ min: 0, max: 2 ** 32 - 1 });
const u64 = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
const handle = fc.uint8Array({ minLength: 64, maxLength: 64 });

const anyEngine: fc.Arbitrary<desc.EngineDesc> = fc.record(
  { key: text, nodeId: text, hostname: text, host: text, port: i32, pid: i32 },
  { noNullPrototype: true },
);
const anyMemory: fc.Arbitrary<desc.MemoryDesc> = fc.record(
  {
    engineKey: text,
    id: u32,
    deviceId: i32,
    deviceBusId: text,
    data: u64,
    size: u64,
    loc: u32,
    ipcHandle: handle,
    numaNode: i32,
    ipcOffset: u64,
    fabricHandle: handle,
    vpodId: i32,
    vpodPpodId: text,
    fabricOffset: u64,
    fabricAllocSize: u64,
  },
  { noNullPrototype: true },
);

/** The code of a refusal; anything thrown that is no UsageError fails the test. */
function outcomeOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (error instanceof UsageError) return error.code;
    throw error;
  }
  return 'accepted';
}

test('pack then unpack is the identity on engine descs, and every truncation is short', () => {
  fc.assert(
    fc.property(anyEngine, (engine) => {
      const packed = desc.packEngineDesc(engine);
      expect(desc.unpackEngineDesc(packed)).toEqual(engine);
      for (let length = 0; length < packed.length; length += 1) {
        expect(outcomeOf(() => desc.unpackEngineDesc(packed.subarray(0, length)))).toBe('DESC-SHORT');
      }
    }),
    RUNS,
  );
});

test('pack then unpack is the identity on memory descs, and every truncation is short', () => {
  fc.assert(
    fc.property(anyMemory, (memory) => {
      const packed = desc.packMemoryDesc(memory);
      expect(desc.unpackMemoryDesc(packed)).toEqual(memory);
      for (let length = 0; length < packed.length; length += 1) {
        expect(outcomeOf(() => desc.unpackMemoryDesc(packed.subarray(0, length)))).toBe('DESC-SHORT');
      }
    }),
    { ...RUNS, numRuns: 100 },
  );
});

/**
 * Random bytes rarely get past the first one, so half of the inputs are packed descs with a few bytes
 * changed.
 */
const hostile = fc.oneof(
  fc.uint8Array({ maxLength: 300 }),
  fc
    .tuple(anyMemory, fc.array(fc.tuple(fc.nat(200), fc.nat(255)), { minLength: 1, maxLength: 4 }))
    .map(([memory, changes]) => {
      const bytes = desc.packMemoryDesc(memory);
      for (const [offset, value] of changes) bytes[offset % bytes.length] = value;
      return bytes;
    }),
);

test('whatever the bytes, unpacking ends with a desc or a UsageError', () => {
  const seen = new Set<string>();
  fc.assert(
    fc.property(hostile, (bytes) => {
      seen.add(outcomeOf(() => desc.unpackMemoryDesc(bytes)));
      outcomeOf(() => desc.unpackEngineDesc(bytes));
    }),
    { seed: 42, numRuns: 3000 },
  );
  expect([...seen].sort()).toEqual(['DESC-FORMAT', 'DESC-SHORT', 'DESC-TEXT', 'DESC-TYPE', 'accepted']);
});

test('an empty array is an empty engine with port 0', () => {
  expect(desc.unpackEngineDesc(Uint8Array.of(0x90))).toEqual(desc.emptyEngineDesc());
  expect(desc.emptyEngineDesc().port).toBe(0);
});

test('a surplus element may hold anything', () => {
  const packed = [...desc.packEngineDesc(desc.emptyEngineDesc())];
  packed[0] += 1;
  expect(desc.unpackEngineDesc(Uint8Array.from([...packed, 0x81, 0xc0, 0x91, 0xc3]))).toEqual(
    desc.emptyEngineDesc(),
  );
});

test('engines differ when any one of the six fields differs', () => {
  const engine = { key: 'k', nodeId: 'n', hostname: 'h', host: '1.2.3.4', port: 9, pid: 77 };
  expect(desc.sameEngineDesc(engine, { ...engine })).toBe(true);
  for (const name of ['key', 'nodeId', 'hostname', 'host'] as const) {
    expect(desc.sameEngineDesc(engine, { ...engine, [name]: 'x' })).toBe(false);
  }
  for (const name of ['port', 'pid'] as const) {
    expect(desc.sameEngineDesc(engine, { ...engine, [name]: 0 })).toBe(false);
  }
});

/** Each field changed on its own, and whether upstream's == notices. */
const MEMORY_CHANGES: [keyof desc.MemoryDesc, unknown, boolean][] = [
  ['engineKey', 'x', true],
  ['id', 7, true],
  ['deviceId', 7, true],
  ['deviceBusId', 'x', true],
  ['data', 7n, true],
  ['size', 7n, true],
  ['loc', 2, true],
  ['ipcHandle', new Uint8Array(64).fill(7), false],
  ['numaNode', 7, true],
  ['ipcOffset', 7n, true],
  ['fabricHandle', new Uint8Array(64).fill(7), false],
  ['vpodId', 7, false],
  ['vpodPpodId', 'x', false],
  ['fabricOffset', 7n, false],
  ['fabricAllocSize', 7n, false],
];

test('memory descs differ by fields 0 to 6, 8 and 9 alone', () => {
  const memory = desc.emptyMemoryDesc();
  expect(MEMORY_CHANGES.map(([name]) => name)).toEqual(Object.keys(memory));
  expect(desc.sameMemoryDesc(memory, desc.emptyMemoryDesc())).toBe(true);
  for (const [name, value, differs] of MEMORY_CHANGES) {
    expect([name, desc.sameMemoryDesc(memory, { ...memory, [name]: value })]).toEqual([name, !differs]);
  }
});

test('two unpacked descs never share their handles, nor do they alias the input', () => {
  const packed = desc.packMemoryDesc(desc.emptyMemoryDesc());
  const first = desc.unpackMemoryDesc(packed);
  packed.fill(0xff);
  desc.unpackMemoryDesc(Uint8Array.of(0x90)).ipcHandle.fill(1);
  expect(first.ipcHandle).toEqual(new Uint8Array(64));
  expect(desc.unpackMemoryDesc(Uint8Array.of(0x90)).ipcHandle).toEqual(new Uint8Array(64));
});

test('a desc that upstream could not hold is refused when packed', () => {
  const engine = desc.emptyEngineDesc();
  const memory = desc.emptyMemoryDesc();
  expect(outcomeOf(() => desc.packEngineDesc({ ...engine, port: 2 ** 31 }))).toBe('DESC-RANGE');
  expect(outcomeOf(() => desc.packEngineDesc({ ...engine, key: '\ud800' }))).toBe('TEXT-SURROGATE');
  expect(outcomeOf(() => desc.packMemoryDesc({ ...memory, size: 2n ** 64n }))).toBe('DESC-RANGE');
  expect(outcomeOf(() => desc.packMemoryDesc({ ...memory, ipcHandle: new Uint8Array(63) }))).toBe(
    'DESC-RANGE',
  );
});

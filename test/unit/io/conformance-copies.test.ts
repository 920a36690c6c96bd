import { describe, expect, test } from 'vitest';
import { BackendType, MemoryLocationType, StatusCode } from '../../../src/io/codes.ts';
import { copyConfig, XGMI_DEFAULTS } from '../../../src/io/copy-config.ts';
import { type MemoryDesc, packMemoryDesc, unpackMemoryDesc } from '../../../src/io/descriptors.ts';
import { createBackend } from '../../../src/io/engine/backends.ts';
import {
  allocateTransferId,
  codeOf,
  type EngineOptions,
  popInboundTransferStatus,
  registerMemory,
  registerRemoteEngine,
  sessionTransfer,
  transfer,
  transferBatches,
} from '../../../src/io/engine/engine.ts';
import { isHandleEmpty, normalizeBusId } from '../../../src/io/engine/routing.ts';
import type { IOEngine } from '../../../src/io/engine/state.ts';
import type { BatchEntries } from '../../../src/io/submission.ts';
import { createStatus, type TransferStatus, updateStatus } from '../../../src/io/transfer-status.ts';
import {
  addEngine,
  addMemory,
  copyOfBytes,
  createRig,
  entriesOf,
  fillBytes,
  landCopies,
  makeSession,
  type Rig,
  type Row,
  sameBytes,
} from './rig.ts';

/** XGMI and FABRIC: upstream's tests of copies between GPUs, played with ordinary memory, in our words. */

const { SUCCESS, IN_PROGRESS, ERR_BAD_STATE, ERR_INVALID_ARGS, ERR_GPU_OP } = StatusCode;
const { CPU, GPU } = MemoryLocationType;

function twoGpus(): Rig {
  const rig = createRig();
  rig.gpuCount = 2;
  return rig;
}

function xgmiEngine(rig: Rig, key = 'xgmi', options: Partial<EngineOptions> = {}): IOEngine {
  const engine = addEngine(rig, key, options);
  createBackend(engine, BackendType.XGMI, { numStreams: 64, numEvents: 64 });
  return engine;
}

interface Form {
  readonly operation: 'read' | 'write';
  readonly overSession: boolean;
  readonly asBatch: boolean;
}

/** Starts the rows in one of the forms; the statuses, none of which has ended yet. */
function begin(
  engine: IOEngine,
  local: MemoryDesc,
  remote: MemoryDesc,
  { operation, overSession, asBatch }: Form,
  rows: readonly Row[],
): TransferStatus[] {
  const made = makeSession(engine, local, remote);
  if (made.kind !== 'session') throw made;
  return (asBatch ? [rows] : rows.map((row) => [row])).map((group) => {
    const status = createStatus();
    const transferId = allocateTransferId(engine);
    const request = { operation, entries: entriesOf(group), transferId, status, single: !asBatch } as const;
    if (overSession) sessionTransfer(engine, made.session, request);
    else if (asBatch) {
      const lists = { locals: [local], remotes: [remote], statuses: [status], ids: [transferId] };
      transferBatches(engine, operation, { ...lists, batches: [request.entries] });
    } else transfer(engine, { ...request, local, remote });
    return status;
  });
}

/** Wait: the copies end, and somebody asks. */
function wait(rig: Rig, engine: IOEngine, statuses: readonly TransferStatus[]): StatusCode[] {
  landCopies(rig);
  return statuses.map((status) => codeOf(engine, status));
}

const cases = [true, false].flatMap((overSession) =>
  [true, false].flatMap((asBatch) =>
    (['write', 'read'] as const).flatMap((operation) =>
      [1, 16].flatMap((count) =>
        [256, 16_384].map((bytes) => ({ overSession, asBatch, operation, count, bytes })),
      ),
    ),
  ),
);

describe('every way to move a buffer between two GPUs', () => {
  test('is one of 32', () => {
    expect(cases).toHaveLength(32);
  });

  test.each(cases)(
    'session $overSession, batch $asBatch: $operation of $count times $bytes bytes',
    ({ count, bytes, ...form }) => {
      const rig = twoGpus();
      const engine = xgmiEngine(rig);
      const [first, second] = [0, 1].map((gpu) => addMemory(rig, engine, count * bytes, GPU, gpu));
      const [source, target] = form.operation === 'read' ? [second, first] : [first, second];
      fillBytes(rig, source, 3);
      const rows = Array.from({ length: count }, (_, at): Row => [at * bytes, at * bytes, bytes]);
      const statuses = begin(engine, first, second, form, rows);
      expect(statuses).toHaveLength(form.asBatch ? 1 : count);
      expect(statuses.every(({ code }) => code === IN_PROGRESS)).toBe(true);
      expect(wait(rig, engine, statuses).every((code) => code === SUCCESS)).toBe(true);
      expect(sameBytes(rig, source, target)).toBe(true);
      expect(copyOfBytes(rig, target).every((byte) => byte !== 0)).toBe(true);
    },
  );
});

const WRITE = { operation: 'write', overSession: true, asBatch: true } as const;
const ENGINE_WRITE = { operation: 'write', overSession: false, asBatch: false } as const;

describe('a copy', () => {
  test('within one device moves the bytes', () => {
    const rig = twoGpus();
    const engine = xgmiEngine(rig);
    const [source, target] = [1, 2].map(() => addMemory(rig, engine, 4096, GPU, 0));
    fillBytes(rig, source, 1);
    const statuses = begin(engine, source, target, ENGINE_WRITE, [[0, 0, 4096]]);
    expect(wait(rig, engine, statuses)).toEqual([SUCCESS]);
    expect(sameBytes(rig, source, target)).toBe(true);
  });

  test('ends by polling alone, and not before somebody polls', () => {
    const rig = twoGpus();
    const engine = xgmiEngine(rig);
    const [source, target] = [0, 1].map((gpu) => addMemory(rig, engine, 4096, GPU, gpu));
    const [status] = begin(engine, source, target, ENGINE_WRITE, [[0, 0, 4096]]);
    expect(codeOf(engine, status)).toBe(IN_PROGRESS);
    landCopies(rig);
    expect(status.code).toBe(IN_PROGRESS);
    expect(codeOf(engine, status)).toBe(SUCCESS);
  });

  test('tells nobody at the target', () => {
    const rig = twoGpus();
    const engine = xgmiEngine(rig);
    const [source, target] = [0, 1].map((gpu) => addMemory(rig, engine, 64, GPU, gpu));
    const statuses = begin(engine, source, target, ENGINE_WRITE, [[0, 0, 64]]);
    expect(wait(rig, engine, statuses)).toEqual([SUCCESS]);
    expect(popInboundTransferStatus(engine, 'any key', 0, createStatus())).toBe(false);
  });

  test('is made only where both sides continue, in order of the remote offset, without what is empty', () => {
    const rig = twoGpus();
    const engine = xgmiEngine(rig);
    const memory = addMemory(rig, engine, 4096, GPU);
    const rows: Row[] = [
      [256, 256, 256],
      [0, 0, 256],
      [900, 900, 0],
      [2000, 512, 8],
    ];
    begin(engine, memory, memory, WRITE, rows);
    expect(rig.copies.map(({ runs }) => runs)).toEqual([[0, 0, 512, 2000, 512, 8]]);
  });

  test('of no bytes is under way when it is single, and over at once in a batch', () => {
    const rig = twoGpus();
    const engine = xgmiEngine(rig);
    const memory = addMemory(rig, engine, 4096, GPU);
    const single = begin(engine, memory, memory, { ...WRITE, asBatch: false }, [[5, 5, 0]]);
    const lists: Row[][] = [
      [],
      [[5, 5, 0]],
      [
        [0, 0, 0],
        [9, 9, 0],
      ],
    ];
    const batches = lists.map((rows) => begin(engine, memory, memory, WRITE, rows));
    expect([single, ...batches].map(([{ code }]) => code)).toEqual([IN_PROGRESS, SUCCESS, SUCCESS, SUCCESS]);
    expect(wait(rig, engine, single)).toEqual([SUCCESS]);
  });

  test('of nothing overwrites even the error of a status that is used again, and leaves its text', () => {
    const rig = twoGpus();
    const engine = xgmiEngine(rig);
    const memory = addMemory(rig, engine, 4096, GPU);
    const status = createStatus();
    updateStatus(status, ERR_GPU_OP, 'from before');
    const request = { operation: 'write', local: memory, remote: memory, transferId: 1, status } as const;
    transfer(engine, { ...request, entries: entriesOf([]) });
    expect(status).toEqual({ code: SUCCESS, message: 'from before' });
  });

  test.each([
    ['mori', StatusCode.INIT, ['abort: the lists of a batch differ in length']],
    ['sound', ERR_INVALID_ARGS, []],
  ] as const)('of lists that differ in length, on a session: %s', (fidelity, code, ends) => {
    const rig = twoGpus();
    const engine = xgmiEngine(rig, 'xgmi', { fidelity });
    const memory = addMemory(rig, engine, 4096, GPU);
    const made = makeSession(engine, memory, memory);
    if (made.kind !== 'session') throw made;
    const status = createStatus();
    const entries: BatchEntries = { localOffsets: [0], remoteOffsets: [0, 8], sizes: [8, 8] };
    sessionTransfer(engine, made.session, { operation: 'write', entries, transferId: 1, status });
    expect([status.code, rig.ends, rig.copies.length]).toEqual([code, ends, 0]);
  });
});

describe('buffers in many pieces', () => {
  const strided = (count: number, bytes: number, stride: number): Row[] =>
    Array.from({ length: count }, (_, at) => [at * stride, at * stride, bytes]);
  const shuffled = Array.from({ length: 32 }, (_, at): Row => {
    const place = ((at * 13) % 32) * 1024;
    return [place, place, 1024];
  });
  let cursor = 0;
  const varied = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 100, 300, 700].map((bytes): Row => {
    const row = [cursor, cursor, bytes] as const;
    cursor += bytes + 512;
    return row;
  });

  test.each([
    ['strided, written', WRITE, strided(64, 4096, 16_384), 64],
    ['strided, read', { ...WRITE, operation: 'read' }, strided(64, 4096, 16_384), 64],
    ['neighbours in any order', WRITE, shuffled, 1],
    ['of many sizes', WRITE, varied, 11],
    ['strided, over the engine', { ...WRITE, overSession: false }, strided(64, 2048, 4096), 64],
  ] as const)('%s: every piece arrives and nothing between them', (_, form, rows, copies) => {
    const rig = twoGpus();
    const engine = xgmiEngine(rig);
    const bytes = Math.max(...rows.map(([at, , size]) => at + size)) + 4096;
    const [first, second] = [0, 1].map((gpu) => addMemory(rig, engine, bytes, GPU, gpu));
    const [source, target] = form.operation === 'read' ? [second, first] : [first, second];
    fillBytes(rig, source, 5);
    const wanted = new Uint8Array(bytes);
    for (const [at, , size] of rows) wanted.set(copyOfBytes(rig, source).subarray(at, at + size), at);
    expect(wait(rig, engine, begin(engine, first, second, form, rows))).toEqual([SUCCESS]);
    expect(Buffer.compare(copyOfBytes(rig, target), wanted)).toBe(0);
    expect(rig.copies[0].runs.length / 3).toBe(copies);
  });
});

describe('between two engines', () => {
  /** Two engines that know each other; `far` is b's memory as a gets it over the wire. */
  function pairOf(options: Partial<EngineOptions> = {}) {
    const rig = twoGpus();
    const [a, b] = ['a', 'b'].map((key) => xgmiEngine(rig, key, options));
    registerRemoteEngine(a, b.desc);
    registerRemoteEngine(b, a.desc);
    const near = addMemory(rig, a, 4096, GPU, 0);
    const memory = addMemory(rig, b, 4096, GPU, 1);
    return { rig, a, b, near, memory, far: unpackMemoryDesc(packMemoryDesc(memory)) };
  }

  test('the handle of a region survives the wire', () => {
    const { near, memory, far } = pairOf();
    expect([near, memory].map(({ ipcHandle }) => isHandleEmpty(ipcHandle))).toEqual([false, false]);
    expect(far.ipcHandle).toEqual(memory.ipcHandle);
  });

  test.each(
    [true, false].flatMap((overSession) =>
      (['write', 'read'] as const).map((operation) => ({ overSession, operation })),
    ),
  )('session $overSession: $operation moves the bytes', ({ overSession, operation }) => {
    const { rig, a, near, memory, far } = pairOf();
    fillBytes(rig, operation === 'write' ? near : memory, 9);
    const rows = [0, 1, 2, 3].map((at): Row => [at * 1024, at * 1024, 1024]);
    expect(wait(rig, a, begin(a, near, far, { overSession, operation, asBatch: true }, rows))).toEqual([
      SUCCESS,
    ]);
    expect(sameBytes(rig, near, memory)).toBe(true);
  });

  test('of two processes, memory without a handle cannot be mapped', () => {
    const { rig, a, b, near, far } = pairOf();
    registerRemoteEngine(a, { ...b.desc, pid: 2 });
    const bare = { ...far, ipcHandle: new Uint8Array(64) };
    expect(makeSession(a, near, bare)).toEqual({ kind: 'none' });
    const status = createStatus();
    const entries = entriesOf([[0, 0, 8]]);
    transfer(a, { operation: 'write', local: near, remote: bare, entries, transferId: 1, status });
    expect(status).toEqual({ code: ERR_BAD_STATE, message: 'XGMI: Failed to create session' });
    expect(rig.copies).toEqual([]);
  });

  test('an engine registered before the backend is unknown to it, but not to a sound one', () => {
    const kinds = (['mori', 'sound'] as const).map((fidelity) => {
      const { rig, b, far } = pairOf();
      const late = addEngine(rig, 'late', { fidelity });
      registerRemoteEngine(late, b.desc);
      createBackend(late, BackendType.XGMI);
      return makeSession(late, addMemory(rig, late, 64, GPU), far).kind;
    });
    expect(kinds).toEqual(['none', 'session']);
  });
});

describe('beside RDMA', () => {
  const create = (rig: Rig, text: string): IOEngine => {
    const engine = addEngine(rig, 'auto', { environment: { MORI_DISABLE_AUTO_XGMI: text } });
    expect(createBackend(engine, BackendType.RDMA)).toBeNull();
    return engine;
  };

  test.each([
    ['0', false],
    ['1', true],
  ])('GPU memory has a handle only where XGMI is there: MORI_DISABLE_AUTO_XGMI=%s', (text, isEmpty) => {
    const rig = twoGpus();
    const engine = create(rig, text);
    expect(isHandleEmpty(addMemory(rig, engine, 4096, GPU).ipcHandle)).toBe(isEmpty);
    expect(isHandleEmpty(addMemory(rig, engine, 4096, CPU).ipcHandle)).toBe(true);
  });

  test('XGMI has the first call within a node', () => {
    const rig = twoGpus();
    const engine = create(rig, '0');
    const [source, target] = [0, 1].map((gpu) => addMemory(rig, engine, 16_384, GPU, gpu));
    fillBytes(rig, source, 4);
    const statuses = begin(engine, source, target, ENGINE_WRITE, [[0, 0, 16_384]]);
    expect([rig.copies.length, rig.sim.nextQpn]).toEqual([1, 0]);
    expect(wait(rig, engine, statuses)).toEqual([SUCCESS]);
    expect(sameBytes(rig, source, target)).toBe(true);
  });
});

describe('FABRIC', () => {
  const LIMIT = 4 * 2 ** 20;
  const handle = new Uint8Array(64).fill(7);

  function fabric(rows: readonly Row[]) {
    const rig = twoGpus();
    const engine = addEngine(rig, 'fabric');
    createBackend(engine, BackendType.FABRIC);
    const own = addMemory(rig, engine, 4096, GPU);
    // The machine of the rig has no such GPU, so the session is made by hand.
    const memory = { ...own, fabricHandle: handle };
    const session = { route: 'fabric', local: memory, remote: memory } as const;
    const status = createStatus();
    const entries = entriesOf(rows);
    sessionTransfer(engine, session, { operation: 'write', entries, transferId: 1, status });
    return { rig, status };
  }

  test('without its kernel refuses a copy of 4 MiB, not a batch of as much', () => {
    expect(fabric([[0, 0, LIMIT]]).status.code).toBe(ERR_GPU_OP);
    const { rig, status } = fabric([
      [0, 0, LIMIT - 1],
      [LIMIT, LIMIT + 1, LIMIT - 1],
    ]);
    expect([status.code, rig.copies.length]).toEqual([IN_PROGRESS, 1]);
  });

  test('fills the handle and the place in the allocation of what is registered with it', () => {
    const engine = addEngine(twoGpus(), 'fabric');
    const gpu = { address: 4096n, bytes: 64n, loc: GPU, deviceId: 0, offsetInAllocation: 128n };
    const before = registerMemory(engine, { ...gpu, fabricHandle: handle });
    createBackend(engine, BackendType.FABRIC);
    const after = registerMemory(engine, { ...gpu, fabricHandle: handle, ipcHandle: handle });
    expect([isHandleEmpty(before.fabricHandle), before.fabricOffset]).toEqual([true, 0n]);
    expect([after.fabricHandle, after.fabricOffset]).toEqual([handle, 128n]);
    expect([isHandleEmpty(after.ipcHandle), after.ipcOffset]).toEqual([true, 0n]);
  });

  test('has launched what stands before the copy that it refuses', () => {
    const { rig, status } = fabric([
      [0, 0, 64],
      [100, 100, LIMIT],
    ]);
    expect([status.code, rig.copies.map(({ runs }) => runs)]).toEqual([ERR_GPU_OP, [[0, 0, 64]]]);
  });
});

describe('the settings of copies', () => {
  test('are two sizes of 64, in this order, which 0 and below stand for too', () => {
    expect(Object.entries(XGMI_DEFAULTS)).toEqual([
      ['numStreams', 64],
      ['numEvents', 64],
    ]);
    expect(copyConfig({ numStreams: 0, numEvents: -1 })).toEqual(XGMI_DEFAULTS);
    expect(copyConfig({ numEvents: 3 })).toEqual({ numStreams: 64, numEvents: 3 });
    const engine = xgmiEngine(twoGpus());
    createBackend(engine, BackendType.XGMI, { numStreams: 8 });
    expect(engine.xgmi?.config).toEqual(XGMI_DEFAULTS);
  });

  test('names of devices are in lower case, and a handle of zeros is none', () => {
    expect(normalizeBusId('0000:C1:00.0')).toBe('0000:c1:00.0');
    const bytes = new Uint8Array(64);
    expect(isHandleEmpty(bytes)).toBe(true);
    bytes[63] = 1;
    expect(isHandleEmpty(bytes)).toBe(false);
  });
});

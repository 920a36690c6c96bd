import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { MemoryLocationType, StatusCode } from '../../../src/io/codes.ts';
import {
  allocateTransferId,
  popInboundTransferStatus,
  transfer,
  transferBatches,
} from '../../../src/io/engine/engine.ts';
import type { Call } from '../../../src/io/engine/state.ts';
import type { RdmaBackendConfig } from '../../../src/io/rdma-config.ts';
import { createStatus } from '../../../src/io/transfer-status.ts';
import {
  addMemory,
  addPair,
  copyOfBytes,
  createRig,
  entriesOf,
  fillBytes,
  finishCall,
  type Pair,
  pump,
  type Rig,
  type Row,
  sameBytes,
  start,
} from './rig.ts';

/** Every form of a transfer moves the bytes and tells the target: upstream's matrices and its stress test, in our words. */

const { SUCCESS } = StatusCode;
const { CPU, GPU } = MemoryLocationType;

/** Upstream's three pairs of engines. */
const PAIRS: Readonly<Record<string, Partial<RdmaBackendConfig>>> = {
  normal: { qpPerTransfer: 2 },
  workers: { qpPerTransfer: 2, numWorkerThreads: 2 },
  'no notification': { qpPerTransfer: 2, enableNotification: false },
};

interface Form {
  readonly operation: 'read' | 'write';
  readonly overSession: boolean;
  readonly asBatch: boolean;
}

/** Moves the rows in one of the forms: a batch is one call, otherwise each row is one. */
function move(rig: Rig, pair: Pair, { operation, overSession, asBatch }: Form, rows: readonly Row[]): Call[] {
  const { initiator, session, local, remote } = pair;
  const groups = asBatch ? [rows] : rows.map((row) => [row]);
  return groups.map((group) => {
    const id = allocateTransferId(initiator);
    const status = createStatus();
    let call: Call | null;
    if (overSession) {
      call = start(initiator, session, { rows: group, operation, id, status, single: !asBatch });
    } else if (asBatch) {
      const lists = { locals: [local], remotes: [remote], statuses: [status], ids: [id] };
      [call] = transferBatches(initiator, operation, { ...lists, batches: [entriesOf(group)] });
    } else {
      const request = { operation, local, remote, status, transferId: id, single: true } as const;
      call = transfer(initiator, { ...request, entries: entriesOf(group) });
    }
    finishCall(rig, call);
    return call!;
  });
}

function told({ target }: Pair, { transferId }: Call): boolean {
  const inbound = createStatus();
  return popInboundTransferStatus(target, 'initiator', transferId, inbound) && inbound.code === SUCCESS;
}

const cases = Object.keys(PAIRS).flatMap((engines) =>
  [true, false].flatMap((overSession) =>
    [true, false].flatMap((asBatch) =>
      (['write', 'read'] as const).flatMap((operation) =>
        [1, 64].flatMap((count) =>
          [8, 8192].map((bytes) => ({ engines, overSession, asBatch, operation, count, bytes })),
        ),
      ),
    ),
  ),
);

describe('every way to move a buffer between two engines', () => {
  test('is one of 96', () => {
    expect(cases).toHaveLength(96);
    expect(new Set(cases.map((each) => JSON.stringify(each))).size).toBe(96);
  });

  test.each(cases)(
    '$engines, session $overSession, batch $asBatch: $operation of $count times $bytes bytes',
    ({ engines, count, bytes, ...form }) => {
      const rig = createRig();
      rig.gpuCount = 2;
      const pair = addPair(rig, PAIRS[engines], { bytes: count * bytes, loc: GPU });
      fillBytes(rig, pair.local, 1);
      fillBytes(rig, pair.remote, 2);
      const [source, target] =
        form.operation === 'read' ? [pair.remote, pair.local] : [pair.local, pair.remote];
      const before = copyOfBytes(rig, source);
      const rows = Array.from({ length: count }, (_, at): Row => [at * bytes, at * bytes, bytes]);
      const calls = move(rig, pair, form, rows);
      expect(calls).toHaveLength(form.asBatch ? 1 : count);
      expect(calls.every(({ status }) => status.code === SUCCESS)).toBe(true);
      const notifies = engines !== 'no notification';
      expect(calls.map((call) => told(pair, call))).toEqual(calls.map(() => notifies));
      expect(sameBytes(rig, source, target)).toBe(true);
      expect(Buffer.compare(copyOfBytes(rig, source), before)).toBe(0);
    },
  );
});

describe('one batch call over three pairs of memories', () => {
  test.each(
    (['normal', 'workers'] as const).flatMap((engines) =>
      (['read', 'write'] as const).map((operation) => [engines, operation] as const),
    ),
  )('%s: %s gives one status and one notification for each pair', (engines, operation) => {
    const rig = createRig();
    const pair = addPair(rig, PAIRS[engines]);
    const { initiator, target } = pair;
    const locals = [1, 2, 3].map(() => addMemory(rig, initiator, 1024, GPU));
    const remotes = [1, 2, 3].map(() => addMemory(rig, target, 1024, GPU));
    [...locals, ...remotes].forEach((memory, seed) => {
      fillBytes(rig, memory, seed);
    });
    const wanted = (operation === 'write' ? locals : remotes).map((memory) => copyOfBytes(rig, memory));
    const rows = [0, 1, 2, 3].map((at): Row => [at * 256, at * 256, 256]);
    const calls = transferBatches(initiator, operation, {
      locals,
      remotes,
      batches: locals.map(() => entriesOf(rows)),
      statuses: locals.map(() => createStatus()),
      ids: locals.map(() => allocateTransferId(initiator)),
    });
    pump(rig);
    expect(calls.map((call) => call!.status.code)).toEqual([SUCCESS, SUCCESS, SUCCESS]);
    expect(calls.map((call) => told(pair, call!))).toEqual([true, true, true]);
    [locals, remotes].forEach((memories) => {
      memories.forEach((memory, index) => {
        expect(Buffer.compare(copyOfBytes(rig, memory), wanted[index])).toBe(0);
      });
    });
  });
});

describe('under stress', () => {
  const BYTES = 2 ** 14;
  const config = fc.record({
    qpPerTransfer: fc.constantFrom(1, 2, 4),
    numWorkerThreads: fc.constantFrom(1, 2, 4),
    enableTransferChunking: fc.boolean(),
    chunkBytes: fc.constant(4096),
    maxSendWr: fc.constantFrom(4, 64, 8192),
  });
  const step = fc.record({
    operation: fc.constantFrom('read' as const, 'write' as const),
    overSession: fc.boolean(),
    asBatch: fc.boolean(),
    power: fc.integer({ min: 3, max: 13 }),
    count: fc.integer({ min: 1, max: 16 }),
    localGap: fc.constantFrom(0, 0, 1, 24),
    remoteGap: fc.constantFrom(0, 0, 1, 40),
    backwards: fc.boolean(),
  });
  const steps = fc.array(step, { minLength: 10, maxLength: 40 });

  test('reads and writes of any form and any power of two never fail, and every byte is where it belongs', () => {
    const seen = new Set<string>();
    fc.assert(
      fc.property(config, fc.constantFrom(CPU, GPU), steps, (settings, loc, script) => {
        const rig = createRig();
        const pair = addPair(rig, settings, { bytes: BYTES, loc });
        fillBytes(rig, pair.local, 1);
        fillBytes(rig, pair.remote, 2);
        const model = { local: copyOfBytes(rig, pair.local), remote: copyOfBytes(rig, pair.remote) };
        for (const { power, count, localGap, remoteGap, backwards, ...form } of script) {
          seen.add(`${form.operation} ${form.overSession} ${form.asBatch}`);
          const bytes = 2 ** power;
          // Gaps on one side alone make scatter lists, on both they keep neighbours apart.
          const fitting = Math.min(count, Math.floor(BYTES / (bytes + 40)));
          const rows = Array.from({ length: fitting }, (_, at): Row => {
            const place = backwards ? fitting - 1 - at : at;
            return [place * (bytes + localGap), place * (bytes + remoteGap), bytes];
          });
          const calls = move(rig, pair, form, rows);
          expect(calls.filter(({ status }) => status.code !== SUCCESS)).toEqual([]);
          expect(calls.every((call) => told(pair, call))).toBe(true);
          const [from, to] =
            form.operation === 'write' ? (['local', 'remote'] as const) : (['remote', 'local'] as const);
          for (const [localAt, remoteAt] of rows) {
            const at = { local: localAt, remote: remoteAt };
            model[to].set(model[from].subarray(at[from], at[from] + bytes), at[to]);
          }
        }
        expect(Buffer.compare(copyOfBytes(rig, pair.local), model.local)).toBe(0);
        expect(Buffer.compare(copyOfBytes(rig, pair.remote), model.remote)).toBe(0);
      }),
      { seed: 20_260_821, numRuns: 60 },
    );
    expect(seen.size).toBe(8);
  });
});

describe('a sweep over sizes, as the benchmark makes it', () => {
  test.each(['read', 'write'] as const)('%s: every slot has its own bytes afterwards', (operation) => {
    const rig = createRig();
    const slots = 3;
    const pair = addPair(
      rig,
      { qpPerTransfer: 4, enableTransferChunking: true },
      { bytes: slots * (2 ** 20 + 1) },
    );
    const [source, target] = operation === 'read' ? [pair.remote, pair.local] : [pair.local, pair.remote];
    for (let power = 3; power <= 20; power += 1) {
      const bytes = 2 ** power;
      fillBytes(rig, pair.local, power);
      fillBytes(rig, pair.remote, power + 100);
      const rows = Array.from(
        { length: slots },
        (_, slot): Row => [slot * (bytes + 1), slot * (bytes + 1), bytes],
      );
      const [from, to] = [source, target].map((memory) => copyOfBytes(rig, memory));
      const [call] = move(rig, pair, { operation, overSession: true, asBatch: true }, rows);
      expect(call.status.code).toBe(SUCCESS);
      const moved = copyOfBytes(rig, target);
      for (const [at] of rows) {
        expect(Buffer.compare(moved.subarray(at, at + bytes), from.subarray(at, at + bytes))).toBe(0);
        // The byte behind a slot belongs to nobody.
        expect(moved[at + bytes]).toBe(to[at + bytes]);
      }
    }
  });
});

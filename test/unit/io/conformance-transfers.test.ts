import { describe, expect, test } from 'vitest';
import { BackendType, MemoryLocationType, StatusCode } from '../../../src/io/codes.ts';
import type { MemoryDesc } from '../../../src/io/descriptors.ts';
import { createBackend } from '../../../src/io/engine/backends.ts';
import {
  allocateTransferId,
  codeOf,
  popInboundTransferStatus,
  transfer,
} from '../../../src/io/engine/engine.ts';
import { isHandleEmpty, normalizeBusId } from '../../../src/io/engine/routing.ts';
import type { IOEngine } from '../../../src/io/engine/state.ts';
import { createStatus } from '../../../src/io/transfer-status.ts';
import {
  addEngine,
  addMemory,
  addPair,
  apart,
  createRig,
  entriesOf,
  finishCall,
  fullConfig,
  makeSession,
  pump,
  type Rig,
  start,
} from './rig.ts';

/** Upstream's behaviours of whole transfers, from test_engine and its Python tests, in our words. */

const MIB = 2 ** 20;

/** Byte by byte; `toEqual` takes minutes for a MiB. */
function sameBytes(rig: Rig, local: MemoryDesc, remote: MemoryDesc): boolean {
  return Buffer.compare(rig.buffers.get(local.data)!, rig.buffers.get(remote.data)!) === 0;
}

describe('a transfer', () => {
  test('of 1 MiB reads the bytes, and the target learns of it', () => {
    const rig = createRig();
    const { initiator, target, local, remote, session } = addPair(rig, {}, { bytes: MIB });
    rig.buffers.get(remote.data)!.forEach((_, index, bytes) => {
      bytes[index] = (index * 31) & 0xff;
    });
    const id = allocateTransferId(initiator);
    const call = start(initiator, session, { rows: [[0, 0, MIB]], id, operation: 'read', single: true });
    finishCall(rig, call);
    expect(call.status).toEqual({ code: StatusCode.SUCCESS, message: 'success' });
    expect(sameBytes(rig, local, remote)).toBe(true);
    const inbound = createStatus();
    expect(popInboundTransferStatus(target, 'initiator', id, inbound)).toBe(true);
    expect(inbound.code).toBe(StatusCode.SUCCESS);
  });

  test('into the middle of a region leaves the rest alone', () => {
    const rig = createRig();
    const { initiator, remote, session } = addPair(rig);
    finishCall(rig, start(initiator, session, { rows: [[0, 1000, 100]], id: 1, single: true }));
    const bytes = rig.buffers.get(remote.data)!;
    expect([bytes[999], bytes[1000], bytes[1099], bytes[1100]]).toEqual([0, 0x5a, 0x5a, 0]);
  });

  test.each([
    [{ enableNotification: false }, {}, false],
    [{}, { MORI_IO_ENABLE_NOTIFICATION: '0' }, false],
    [{}, { MORI_IO_ENABLE_NOTIFICATION: 'invalid' }, true],
  ])('with %o and %o notifies: %s', (config, environment, notifies) => {
    const rig = createRig();
    const { initiator, target, session } = addPair(rig, config, { environment });
    const call = start(initiator, session, { rows: apart(1), id: 3 });
    finishCall(rig, call);
    expect(call.status.code).toBe(StatusCode.SUCCESS);
    expect(popInboundTransferStatus(target, 'initiator', 3, createStatus())).toBe(notifies);
  });

  test('out of range on a session is refused', () => {
    const rig = createRig();
    const { initiator, session } = addPair(rig, {}, { bytes: 64 });
    const rows = [
      [0, 0, 32],
      [32, 32, 34],
    ] as const;
    expect(start(initiator, session, { rows, id: 1 }).status.code).toBe(StatusCode.ERR_INVALID_ARGS);
  });

  test('after twenty bad batches of workers still works and notifies', () => {
    const rig = createRig();
    const { initiator, target, session } = addPair(rig, { qpPerTransfer: 4, numWorkerThreads: 4 });
    for (let id = 0; id < 20; id += 1) {
      const bad = start(initiator, session, { rows: [...apart(7), [0, 2 ** 30, 8]], id });
      finishCall(rig, bad);
      expect(bad.status.code).toBe(StatusCode.ERR_INVALID_ARGS);
    }
    const good = start(initiator, session, { rows: apart(8), id: 20 });
    finishCall(rig, good);
    expect(good.status.code).toBe(StatusCode.SUCCESS);
    expect(popInboundTransferStatus(target, 'initiator', 20, createStatus())).toBe(true);
  });

  test('under pressure succeeds with its notification, or fails with 13 or 14', () => {
    const rig = createRig();
    const { initiator, target, session } = addPair(rig, { maxSendWr: 4 });
    const calls = Array.from({ length: 50 }, (_, id) => {
      rig.hold = id % 7 < 4;
      const call = start(initiator, session, { rows: apart(2), id });
      finishCall(rig, call);
      return call;
    });
    rig.hold = false;
    pump(rig);
    const codes = calls.map(({ status }) => status.code);
    expect(codes).toContain(StatusCode.SUCCESS);
    expect(codes).toContain(StatusCode.ERR_RDMA_OP);
    calls.forEach(({ status, transferId }) => {
      const told = popInboundTransferStatus(target, 'initiator', transferId, createStatus());
      if (status.code === StatusCode.SUCCESS) expect(told).toBe(true);
      else expect([StatusCode.ERR_RDMA_OP, StatusCode.ERR_BAD_STATE]).toContain(status.code);
    });
  });

  test('to a peer that does not answer throws, and the next finds the way', () => {
    const rig = createRig();
    const { initiator, local, target } = addPair(rig);
    const remote = addMemory(rig, target, 4096);
    rig.deaf = true;
    const lost = makeSession(initiator, local, remote);
    expect(lost).toEqual({
      kind: 'threw',
      text: expect.stringMatching(/^connect\(127.0.0.1:\d+\): Connection refused$/),
    });
    rig.deaf = false;
    expect(makeSession(initiator, local, remote).kind).toBe('session');
  });

  test('knows the largest message of its port', () => {
    const rig = createRig();
    rig.maxMessageBytes = 12_345;
    expect(addPair(rig).session.endpoints[0].maxMessageBytes).toBe(12_345);
  });
});

describe('XGMI', () => {
  function gpuEngine(): { rig: Rig; engine: IOEngine; status: ReturnType<typeof createStatus> } {
    const rig = createRig();
    const engine = addEngine(rig, 'a');
    createBackend(engine, BackendType.XGMI, fullConfig({}));
    const memory = addMemory(rig, engine, 4096, MemoryLocationType.GPU);
    const status = createStatus();
    const entries = entriesOf([
      [256, 256, 256],
      [0, 0, 256],
      [900, 900, 0],
    ]);
    transfer(engine, { operation: 'write', local: memory, remote: memory, entries, transferId: 1, status });
    return { rig, engine, status };
  }

  test('merges both sides, skips what is empty, and ends when somebody looks', () => {
    const { rig, engine, status } = gpuEngine();
    expect(rig.copies[0].runs).toEqual([0, 0, 512]);
    expect(codeOf(engine, status)).toBe(StatusCode.IN_PROGRESS);
    rig.copies[0].done = true;
    expect(status.code).toBe(StatusCode.IN_PROGRESS);
    expect(codeOf(engine, status)).toBe(StatusCode.SUCCESS);
  });

  test('knows no inbound notification', () => {
    const { engine } = gpuEngine();
    expect(popInboundTransferStatus(engine, 'a', 1, createStatus())).toBe(false);
  });

  test('spells bus ids in lower case and takes a handle of zeros for none', () => {
    expect(normalizeBusId('0000:C1:00.0')).toBe('0000:c1:00.0');
    const handle = new Uint8Array(64);
    expect(isHandleEmpty(handle)).toBe(true);
    handle[63] = 1;
    expect(isHandleEmpty(handle)).toBe(false);
  });
});

describe('sessions', () => {
  test('share queue pairs by topology, and each write over them finds its own memory', () => {
    const rig = createRig();
    const { initiator, target, local, session } = addPair(rig, { qpPerTransfer: 2 });
    const made = rig.sim.nextQpn;
    const other = addMemory(rig, target, 4096);
    const second = makeSession(initiator, local, other);
    expect([rig.sim.nextQpn, second.kind]).toEqual([made, 'session']);
    if (second.kind !== 'session') return;
    expect(second.session.endpoints).toEqual(session.endpoints);
    finishCall(rig, start(initiator, second.session, { rows: [[0, 0, 8]], id: 1 }));
    expect(rig.buffers.get(other.data)![0]).toBe(0x5a);
  });

  test('of three pairs move four times 256 requests each, both ways, with and without workers', () => {
    for (const numWorkerThreads of [1, 4]) {
      for (const operation of ['read', 'write'] as const) {
        const rig = createRig();
        const config = { qpPerTransfer: 4, numWorkerThreads };
        const { initiator, target } = addPair(rig, config);
        const pairs = [1, 2, 3].map(
          () => [addMemory(rig, initiator, MIB), addMemory(rig, target, MIB)] as const,
        );
        pairs.forEach(([local, remote], index) => {
          rig.buffers.get(operation === 'write' ? local.data : remote.data)!.fill(index + 1);
        });
        const rows = Array.from({ length: 256 }, (_, at) => [at * 4096, at * 4096, 4096] as const);
        let id = 0;
        for (const [local, remote] of pairs) {
          for (let round = 0; round < 4; round += 1) {
            const status = createStatus();
            const request = { operation, local, remote, entries: entriesOf(rows), transferId: id, status };
            finishCall(rig, transfer(initiator, request));
            expect(status.code).toBe(StatusCode.SUCCESS);
            expect(popInboundTransferStatus(target, 'initiator', id, createStatus())).toBe(true);
            id += 1;
          }
        }
        for (const [local, remote] of pairs) {
          expect(sameBytes(rig, local, remote)).toBe(true);
        }
      }
    }
  });
});

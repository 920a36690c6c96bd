import { describe, expect, test } from 'vitest';
import { StatusCode } from '../../../src/io/codes.ts';
import { allocateTransferId, popInboundTransferStatus } from '../../../src/io/engine/engine.ts';
import { createStatus } from '../../../src/io/transfer-status.ts';
import {
  addMemory,
  addPair,
  apart,
  createRig,
  finishCall,
  makeSession,
  pump,
  sameBytes,
  start,
} from './rig.ts';

/** Upstream's behaviours of whole transfers, from test_engine and its Python tests, in our words. */

const MIB = 2 ** 20;

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
    const environment = { MORI_IO_SQ_BACKOFF_TIMEOUT_US: '100' };
    const { initiator, target, session } = addPair(rig, { maxSendWr: 4 }, { environment });
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

describe('sessions', () => {
  test('share queue pairs by topology, and each write over them finds its own memory', () => {
    const rig = createRig();
    const { initiator, target, local, session } = addPair(rig, { qpPerTransfer: 2 });
    const made = rig.sim.nextQpn;
    const other = addMemory(rig, target, 4096);
    const second = makeSession(initiator, local, other);
    expect([rig.sim.nextQpn, second.kind]).toEqual([made, 'session']);
    if (second.kind !== 'session' || second.session.route !== 'rdma') throw second;
    expect(second.session.endpoints).toEqual(session.endpoints);
    finishCall(rig, start(initiator, second.session, { rows: [[0, 0, 8]], id: 1 }));
    expect(rig.buffers.get(other.data)![0]).toBe(0x5a);
  });
});

import { describe, expect, test } from 'vitest';
import { BackendType, MemoryLocationType, StatusCode } from '../../../src/io/codes.ts';
import {
  packEngineDesc,
  packMemoryDesc,
  sameEngineDesc,
  sameMemoryDesc,
  unpackEngineDesc,
  unpackMemoryDesc,
} from '../../../src/io/descriptors.ts';
import { createBackend } from '../../../src/io/engine/backends.ts';
import {
  allocateTransferId,
  popInboundTransferStatus,
  registerMemory,
  registerRemoteEngine,
  transferBatches,
} from '../../../src/io/engine/engine.ts';
import { simulateMachine } from '../../../src/io/machine-sim.ts';
import { createStatus } from '../../../src/io/transfer-status.ts';
import {
  addEngine,
  addMemory,
  addPair,
  createRig,
  entriesOf,
  fillBytes,
  finishCall,
  makeSession,
  pump,
  type Row,
  sameBytes,
  start,
} from './rig.ts';

/** Upstream's tests of descriptors, missing devices and counts, in our words. */

const { CPU, GPU } = MemoryLocationType;

describe('the descriptor of an engine', () => {
  test('names its node, process and port, and reads back equal', () => {
    const engine = addEngine(createRig(), 'engine');
    expect(createBackend(engine, BackendType.RDMA)).toBeNull();
    const { desc } = engine;
    expect([desc.key, desc.nodeId !== '', desc.pid > 0, desc.port > 0]).toEqual(['engine', true, true, true]);
    const back = unpackEngineDesc(packEngineDesc(desc));
    expect([sameEngineDesc(back, desc), sameEngineDesc({ ...back, port: 1 }, desc)]).toEqual([true, false]);
  });

  test('keeps a port that was asked for', () => {
    const engine = addEngine(createRig(), 'engine', { port: 12_345 });
    createBackend(engine, BackendType.RDMA);
    expect(engine.desc.port).toBe(12_345);
  });

  test('takes its node from MORI_NODE_ID, then from the machine, then from the name of the host', () => {
    const nodes = [{ MORI_NODE_ID: 'mine' }, { MORI_NODE_ID: '' }].map(
      (environment) => addEngine(createRig(), 'a', { environment }).desc.nodeId,
    );
    const { machine } = addEngine(createRig(), 'a');
    const nameless = addEngine(createRig(), 'a', { machine: { ...machine, nodeId: '' } });
    expect([...nodes, nameless.desc.nodeId]).toEqual(['mine', 'node', 'node-host']);
  });
});

describe('the descriptor of memory', () => {
  test('of a host has no device, no bus, perhaps a node; of a GPU a bus and no node', () => {
    const engine = addEngine(createRig(), 'engine');
    createBackend(engine, BackendType.RDMA);
    const place = { address: 0x5000n, bytes: 15_232n, numaNode: 1 };
    const host = registerMemory(engine, { ...place, loc: CPU });
    expect(host).toMatchObject({
      engineKey: 'engine',
      deviceId: -1,
      deviceBusId: '',
      data: 0x5000n,
      size: 15_232n,
      loc: CPU,
      numaNode: 1,
    });
    const gpu = registerMemory(engine, { ...place, loc: GPU, deviceId: 0 });
    expect(gpu).toMatchObject({ deviceId: 0, deviceBusId: '0000:01:00.0', loc: GPU, numaNode: -1 });
    expect(registerMemory(engine, { ...place, address: 0n, loc: CPU }).numaNode).toBe(-1);
    for (const desc of [host, gpu]) {
      expect(sameMemoryDesc(unpackMemoryDesc(packMemoryDesc(desc)), desc)).toBe(true);
    }
    expect(sameMemoryDesc(host, gpu)).toBe(false);
  });
});

describe('a machine without an active NIC', () => {
  test('is what a filter that leaves none makes of any machine: no RDMA backend comes of it', () => {
    const rig = createRig();
    const kept = (text: string) => {
      const environment = { MORI_RDMA_DEVICES: text };
      const nics = ['fake0', 'fake1'];
      const machine = simulateMachine({ name: 'node', nics, gpus: 1, peerAccess: true, environment });
      return addEngine(rig, 'b', { machine, environment });
    };
    const [all, none] = [kept('fake0,fake1'), kept('no-such-device')];
    expect(createBackend(all, BackendType.RDMA)).toBeNull();
    expect(createBackend(none, BackendType.RDMA)).toMatch(
      /^no active RDMA device .*MORI_DISABLE_AUTO_XGMI=0/,
    );
    expect([all.rdma === null, none.rdma === null]).toEqual([false, true]);
  });
});

test('without any backend a batch is refused, and there is no session', () => {
  const rig = createRig();
  const [initiator, target] = ['initiator', 'target'].map((key) => addEngine(rig, key));
  registerRemoteEngine(initiator, target.desc);
  registerRemoteEngine(target, initiator.desc);
  const [local, remote] = [addMemory(rig, initiator, 32), addMemory(rig, target, 32)];
  const status = createStatus();
  const rows: Row[] = [
    [0, 0, 16],
    [16, 16, 16],
  ];
  transferBatches(initiator, 'read', {
    locals: [local],
    remotes: [remote],
    batches: [entriesOf(rows)],
    statuses: [status],
    ids: [allocateTransferId(initiator)],
  });
  expect(status.code).toBe(StatusCode.ERR_BAD_STATE);
  expect(makeSession(initiator, local, remote)).toEqual({ kind: 'none' });
});

test('bytes of GPU memory move over RDMA, into the middle of a region too, and the rest stays', () => {
  const rig = createRig();
  const { initiator, target, local, remote, session } = addPair(rig, {}, { bytes: 2 ** 20, loc: GPU });
  fillBytes(rig, local, 1);
  const whole = start(initiator, session, { rows: [[0, 0, 2 ** 20]], id: 0, single: true });
  finishCall(rig, whole);
  expect([whole.status.code, sameBytes(rig, local, remote)]).toEqual([StatusCode.SUCCESS, true]);
  expect(popInboundTransferStatus(target, 'initiator', 0, createStatus())).toBe(true);
  rig.buffers.get(remote.data)!.fill(0);
  finishCall(rig, start(initiator, session, { rows: [[64, 4096, 512]], id: 1, single: true }));
  const [from, to] = [local, remote].map(({ data }) => rig.buffers.get(data)!);
  expect(to.findIndex((byte) => byte !== 0)).toBe(4096);
  expect(to.findLastIndex((byte) => byte !== 0)).toBe(4096 + 511);
  expect(Buffer.compare(to.subarray(4096, 4608), from.subarray(64, 576))).toBe(0);
});

test('what the Python layer passes on for no worker threads, -1, does what 1 does', () => {
  const seen = [-1, 0, 1].map((numWorkerThreads) => {
    const rig = createRig();
    const posts: string[] = [];
    rig.hooks.posted = (qpn, { first, end, tailId }) => void posts.push(`${qpn} ${first} ${end} ${tailId}`);
    const { initiator, session } = addPair(rig, { qpPerTransfer: 2, numWorkerThreads });
    const rows = [0, 1, 2, 3].map((at): Row => [at * 100, at * 200, 64]);
    finishCall(rig, start(initiator, session, { rows, id: 3 }));
    return { workers: session.workers, posts };
  });
  expect(seen[2].workers).toBe(0);
  expect(seen[2].posts).toHaveLength(2);
  expect(seen.slice(0, 2)).toEqual([seen[2], seen[2]]);
});

describe('the count that ends a transfer', () => {
  test('is of its requests, however many workers share them', () => {
    const totals = [1, 2, 4].map((numWorkerThreads) => {
      const rig = createRig();
      const { initiator, session } = addPair(rig, { qpPerTransfer: 4, numWorkerThreads });
      const rows = Array.from({ length: 7 }, (_, at): Row => [at * 64, at * 64, 64]);
      const call = start(initiator, session, { rows, id: 0 });
      const { transfer } = call.slices[0];
      expect(call.slices.every((slice) => slice.transfer === transfer)).toBe(true);
      const posted = call.slices.reduce((sum, { workRequests }) => sum + workRequests.length, 0);
      pump(rig);
      expect([transfer.finished, call.status.code]).toEqual([transfer.total, StatusCode.SUCCESS]);
      return [call.slices.length, posted, transfer.total];
    });
    expect(totals).toEqual([
      [1, 1, 7],
      [2, 2, 7],
      [4, 4, 7],
    ]);
  });

  test('is of the pieces that 4 GiB are cut into, each of which takes a slot before anything is posted', () => {
    const rig = createRig();
    const { target } = addPair(rig);
    const engine = addEngine(rig, 'chunked');
    createBackend(engine, BackendType.RDMA, { enableTransferChunking: true, enableNotification: false });
    registerRemoteEngine(engine, target.desc);
    const bytes = 4 * 2 ** 30;
    const local = registerMemory(engine, { address: 1n << 40n, bytes: BigInt(bytes), loc: CPU });
    const remote = registerMemory(target, { address: 1n << 41n, bytes: BigInt(bytes), loc: CPU });
    const made = makeSession(engine, local, remote);
    if (made.kind !== 'session' || made.session.route !== 'rdma') throw made;
    const rows: Row[] = [
      [4096, 0, bytes - 4096],
      [0, bytes - 4096, 4096],
    ];
    const call = start(engine, made.session, { rows, id: 0 });
    expect([call.slices[0].transfer.total, made.session.endpoints[0].depth]).toEqual([65, 65]);
  });
});

import { describe, expect, test } from 'vitest';
import { BackendType, MemoryLocationType, PollCqMode, StatusCode } from '../../../src/io/codes.ts';
import { createBackend, removeBackend } from '../../../src/io/engine/backends.ts';
import {
  createLedger,
  insertRecord,
  recover,
  reserveCredit,
  takeRecord,
} from '../../../src/io/engine/credit.ts';
import {
  alive,
  allocateTransferId,
  popInboundTransferStatus,
  registerMemory,
  registerRemoteEngine,
  transfer,
} from '../../../src/io/engine/engine.ts';
import {
  desiredQueuePairs,
  interleave,
  rankForHost,
  requestedNics,
  usesInlineOnly,
} from '../../../src/io/engine/nic-choice.ts';
import type { IOEngine } from '../../../src/io/engine/state.ts';
import { isNotification, notificationWrId } from '../../../src/io/engine/wr-id.ts';
import { simulateMachine } from '../../../src/io/machine-sim.ts';
import { checkConfig, overrideConfig, queuePairSizes, RDMA_DEFAULTS } from '../../../src/io/rdma-config.ts';
import { createStatus } from '../../../src/io/transfer-status.ts';
import { isTagged, tagTransferId, untagTransferId, wrIdBits } from '../../reference/wr-id-bits.ts';
import {
  addEngine,
  addMemory,
  addPair,
  apart,
  createRig,
  entriesOf,
  fireNext,
  fullConfig,
  makeSession,
  pump,
  type Rig,
  start,
} from './rig.ts';

/** The behaviours of upstream's test_engine, in our words. What needs a real GPU is played with ordinary memory. */

describe('the ledger', () => {
  test('starts at notifPerQp, gives credit back by record, and recovers orphans alone', () => {
    const endpoint = addPair(createRig()).session.endpoints[0];
    expect(createLedger(1024).nextId).toBe(1024);
    endpoint.depth = 10;
    const id = insertRecord(endpoint.ledger, { posted: 3, credits: 5, transfer: null, orphaned: [] });
    expect(id).toBe(16);
    endpoint.ledger.orphans = 4;
    endpoint.degraded = true;
    recover(endpoint);
    expect([endpoint.depth, endpoint.degraded, endpoint.ledger.records.size]).toEqual([6, false, 1]);
    expect(takeRecord(endpoint, id)).toEqual({ posted: 3, credits: 5, transfer: null, orphaned: [] });
    expect([endpoint.depth, takeRecord(endpoint, id)]).toEqual([3, undefined]);
  });
});

describe('credit of a send queue', () => {
  test('wakes who waits as soon as it comes back', () => {
    const rig = createRig();
    const { initiator, session } = addPair(rig, { maxSendWr: 1, enableNotification: false });
    rig.hold = true;
    const [first, second] = [1, 2].map((id) =>
      start(initiator, session, { rows: apart(1), id, single: true }),
    );
    pump(rig);
    expect([second.phase, session.endpoints[0].waiters.length]).toEqual(['posting', 1]);
    rig.hold = false;
    pump(rig);
    expect([first.status.code, second.status.code]).toEqual([StatusCode.SUCCESS, StatusCode.SUCCESS]);
    expect([session.endpoints[0].depth, session.endpoints[0].waiters.length]).toEqual([0, 0]);
  });

  test('wakes who waits when the queue pair is degraded, who then fails', () => {
    const rig = createRig();
    const { initiator, session } = addPair(rig, { maxSendWr: 4, enableNotification: false });
    rig.hold = true;
    start(initiator, session, { rows: apart(2), id: 1 });
    const waiting = start(initiator, session, { rows: apart(4), id: 2 });
    rig.sim.postFailure = { posted: 1, errno: 22 };
    start(initiator, session, { rows: apart(2), id: 3 });
    expect([waiting.phase, waiting.status.message]).toEqual([
      'returned',
      'EP is degraded, rejecting new submissions',
    ]);
  });

  test('mends a depth below zero', () => {
    const endpoint = addPair(createRig()).session.endpoints[0];
    endpoint.depth = -1;
    expect([reserveCredit(endpoint, 1), endpoint.depth]).toEqual(['reserved', 1]);
  });

  test('needs nobody to wake who waits: the timer alone finds the room that came back', () => {
    const rig = createRig();
    const { initiator, target, session } = addPair(rig, { maxSendWr: 2 });
    const [endpoint] = session.endpoints;
    endpoint.depth = 2;
    const [first, second] = [1, 2].map((id) =>
      start(initiator, session, { rows: apart(1), id, single: true }),
    );
    expect([first.phase, second.phase]).toEqual(['posting', 'posting']);
    // The room comes back behind the engine's back, so no event tells of it.
    endpoint.depth = 0;
    pump(rig);
    expect([first.phase, second.phase]).toEqual(['posting', 'posting']);
    while (rig.timers.length > 0) {
      fireNext(rig);
      pump(rig);
    }
    expect([first.status.code, second.status.code]).toEqual([StatusCode.SUCCESS, StatusCode.SUCCESS]);
    expect([endpoint.depth, endpoint.waiters.length]).toEqual([0, 0]);
    expect(popInboundTransferStatus(target, 'initiator', 2, createStatus())).toBe(true);
  });

  test('is given up when the time is over and there is still no room', () => {
    const rig = createRig();
    const { initiator, session } = addPair(rig, { maxSendWr: 2 });
    session.endpoints[0].depth = 2;
    const call = start(initiator, session, { rows: apart(1), id: 1, single: true });
    fireNext(rig);
    expect([call.phase, call.status.code]).toEqual(['returned', StatusCode.ERR_RDMA_OP]);
    expect(call.status.message).toContain('SQ full (batch): ep=0 depth=2 requested=1 max=2');
  });

  test('cannot be more than the queue holds', () => {
    const endpoint = addPair(createRig(), { maxSendWr: 8 }).session.endpoints[0];
    expect([reserveCredit(endpoint, 9), endpoint.depth]).toEqual(['exceeds', 0]);
  });
});

test('ids of notifications have bit 63, and ids that have it are masked', () => {
  expect(tagTransferId(7n)).toBe((1n << 63n) | 7n);
  expect([isTagged(tagTransferId(0n)), isTagged(7n)]).toEqual([true, false]);
  expect(untagTransferId(tagTransferId((1n << 63n) | 9n))).toBe(9n);
  expect([wrIdBits(notificationWrId(60)), wrIdBits(1024)]).toEqual([(1n << 63n) | 60n, 1024n]);
  expect([isNotification(notificationWrId(0)), isNotification(0)]).toEqual([true, false]);
});

describe('the choice of NICs', () => {
  const cpu = { deviceId: -1, loc: MemoryLocationType.CPU, numaNode: 0 };
  const gpu = { deviceId: 0, loc: MemoryLocationType.GPU, numaNode: 0 };
  const four = { ...RDMA_DEFAULTS, numNicsPerTransfer: 4 };

  test('is as many as asked between hosts, one with a GPU', () => {
    expect(requestedNics({ local: cpu, remote: cpu }, four)).toBe(4);
    expect([
      requestedNics({ local: gpu, remote: cpu }, four),
      requestedNics({ local: cpu, remote: gpu }, four),
    ]).toEqual([1, 1]);
  });

  test.each([
    [4, 3, [2, 1, 1]],
    [8, 1, [8]],
    [2, 4, [1, 1, 0, 0]],
    [0, 1, [0]],
  ])('spreads %d queue pairs over %d', (queuePairs, nics, wanted) => {
    expect(desiredQueuePairs(queuePairs, nics)).toEqual(wanted);
  });

  test('takes one of each in rank order, round after round', () => {
    const standing = [0, 0, 1, 1, 2];
    expect(interleave(standing, [0, 1, 2], [2, 1, 1]).map((index) => standing[index])).toEqual([0, 1, 2, 0]);
    expect(interleave(standing, [1, 0], [1, 2]).map((index) => standing[index])).toEqual([1, 0, 0]);
  });

  test('rules worker threads out only beyond one', () => {
    expect([usesInlineOnly(1), usesInlineOnly(2)]).toEqual([false, true]);
  });

  test('ranks for host memory by node, then speed, then name', () => {
    const { limits } = addEngine(createRig(), 'a').machine.nics[0];
    const nic = (name: string, gbps: number, numaNode: number) => ({ name, gbps, numaNode, limits });
    const nics = [nic('far', 800, 1), nic('b', 400, 0), nic('a', 400, 0), nic('slow', 100, 0)];
    expect(rankForHost(nics, 0).map((index) => nics[index].name)).toEqual(['a', 'b', 'slow', 'far']);
  });

  test('keeps to the device filter', () => {
    const nics = ['mlx0', 'mlx1', 'mlx2'];
    const left = (text: string): string[] =>
      simulateMachine({
        name: 'node',
        nics,
        gpus: 4,
        peerAccess: true,
        environment: { MORI_RDMA_DEVICES: text },
      }).nics.map(({ name }) => name);
    expect(left('mlx2,mlx0')).toEqual(['mlx2', 'mlx0']);
    expect(left('^mlx1')).toEqual(['mlx0', 'mlx2']);
    expect(left('none')).toEqual([]);
    expect(left('')).toHaveLength(3);
  });
});

describe('the config', () => {
  test('has the defaults and takes 4096 as the least chunk', () => {
    expect([RDMA_DEFAULTS.chunkBytes, RDMA_DEFAULTS.maxChunksPerTransfer]).toEqual([65_536, 64]);
    expect(checkConfig({ ...RDMA_DEFAULTS, enableTransferChunking: true, chunkBytes: 4096 })).toBeNull();
  });

  test("has upstream's fields in the order of its constructor, and behind them those that have no place in it", () => {
    expect(Object.entries(RDMA_DEFAULTS)).toEqual([
      ['qpPerTransfer', 1],
      ['postBatchSize', -1],
      ['numWorkerThreads', 1],
      ['pollCqMode', PollCqMode.POLLING],
      ['enableNotification', true],
      ['notifPerQp', 1024],
      ['enableTransferChunking', false],
      ['chunkBytes', 65_536],
      ['maxChunksPerTransfer', 64],
      ['numNicsPerTransfer', 1],
      ['maxSendWr', 0],
      ['maxCqeNum', 0],
      ['maxMsgSge', 0],
    ]);
  });

  test.each([
    [{ notifPerQp: 0 }, 'notifPerQp'],
    [{ maxChunksPerTransfer: 0 }, 'maxChunksPerTransfer'],
    [{ numNicsPerTransfer: 0 }, 'numNicsPerTransfer'],
    [{ enableTransferChunking: true, chunkBytes: 4095 }, 'chunkBytes'],
  ])('refuses %o, and no backend comes of it', (config, field) => {
    const engine = addEngine(createRig(), 'a');
    expect(createBackend(engine, BackendType.RDMA, config)).toContain(field);
    expect([engine.rdma, engine.desc.port]).toEqual([null, 0]);
  });

  test('takes no receives, and chunks of any size, where the switch for them is off', () => {
    const config = { enableNotification: false, notifPerQp: 0, chunkBytes: 1 };
    expect(createBackend(addEngine(createRig(), 'a'), BackendType.RDMA, config)).toBeNull();
  });

  test('may name single fields, the rest are the defaults; or nothing at all', () => {
    const [some, none] = [0, 1].map(() => addEngine(createRig(), 'a'));
    createBackend(some, BackendType.RDMA, { chunkBytes: 8192, maxChunksPerTransfer: 3 });
    createBackend(none, BackendType.RDMA);
    expect(some.rdma?.config).toEqual({ ...RDMA_DEFAULTS, chunkBytes: 8192, maxChunksPerTransfer: 3 });
    expect(none.rdma?.config).toEqual(RDMA_DEFAULTS);
  });

  test('yields to the environment where it can be read', () => {
    const environment = {
      MORI_IO_ENABLE_NOTIFICATION: 'OFF',
      MORI_IO_CHUNK_BYTES: '8192',
      MORI_IO_POST_BATCH_SIZE: '-1',
      MORI_IO_QP_PER_TRANSFER: 'many',
      MORI_IO_POLL_CQ_MODE: 'event',
      MORI_IO_MAX_CHUNKS: '',
    };
    const { config, warnings } = overrideConfig(
      { ...RDMA_DEFAULTS, postBatchSize: 5, qpPerTransfer: 3 },
      environment,
    );
    expect(config).toMatchObject({
      enableNotification: false,
      chunkBytes: 8192,
      postBatchSize: -1,
      qpPerTransfer: 3,
      pollCqMode: 1,
      maxChunksPerTransfer: 64,
    });
    expect(warnings).toHaveLength(1);
  });

  test('sizes queue pairs by device and environment', () => {
    const { limits } = addEngine(createRig(), 'a').machine.nics[0];
    expect(queuePairSizes(RDMA_DEFAULTS, limits, {})).toEqual({
      sendWr: 8192,
      recvWr: 1024,
      sge: 4,
      inlineBytes: 64,
      cqe: 16_384,
    });
    const ionic = { ...limits, vendor: 'ionic' } as const;
    expect(queuePairSizes(RDMA_DEFAULTS, ionic, {})).toMatchObject({ sge: 2 });
    const environment = {
      MORI_IO_QP_MAX_RECV_WR: '512',
      MORI_IO_QP_MAX_MSG_SGE: '2',
      MORI_IO_QP_MAX_SGE: '8',
    };
    expect(queuePairSizes(RDMA_DEFAULTS, limits, environment)).toMatchObject({ recvWr: 1024, sge: 8 });
    expect(queuePairSizes(RDMA_DEFAULTS, { ...limits, maxQpWr: 100 }, {})).toContain('notifPerQp');
  });
});

describe('making an RDMA backend', () => {
  const OPEN = { MORI_DISABLE_AUTO_XGMI: '0' };
  const noNic = (rig: Rig = createRig()): Rig => {
    rig.nicCount = 0;
    return rig;
  };
  const create = (engine: IOEngine): string | null => createBackend(engine, BackendType.RDMA, fullConfig({}));

  test('throws without a device, and says how to fall back', () => {
    const engine = addEngine(noNic(), 'a');
    expect(create(engine)).toContain('MORI_DISABLE_AUTO_XGMI=0');
    createBackend(engine, BackendType.XGMI, fullConfig({}));
    expect(create(engine)).toContain('MORI_DISABLE_AUTO_XGMI=0');
  });

  test('falls back to XGMI where that is allowed, as often as asked', () => {
    const engine = addEngine(noNic(), 'a', { environment: OPEN });
    createBackend(engine, BackendType.XGMI, fullConfig({}));
    expect([create(engine), engine.desc.port, create(engine), engine.desc.port]).toEqual([null, 1, null, 1]);
    expect([engine.rdma, engine.xgmi === null]).toEqual([null, false]);
  });

  test('throws where neither is there', () => {
    const rig = noNic();
    rig.gpuCount = 0;
    expect(create(addEngine(rig, 'a', { environment: OPEN }))).toMatch(/no usable GPU P2P/);
  });

  test('refuses the port that stands for XGMI alone', () => {
    expect(create(addEngine(createRig(), 'a', { port: 1 }))).toMatch(/reserved .*sentinel/);
  });

  test('adds XGMI beside it only where that is allowed', () => {
    const [open, shut] = [OPEN, {}].map((environment) => addEngine(createRig(), 'a', { environment }));
    expect([create(open), create(shut)]).toEqual([null, null]);
    expect([open.xgmi === null, shut.xgmi === null]).toEqual([false, true]);
  });

  test('finds no backend across nodes for XGMI alone, nor for a peer that speaks XGMI alone', () => {
    const rig = createRig();
    const { initiator, target, local, remote } = addPair(rig);
    registerRemoteEngine(initiator, { ...target.desc, port: 1 });
    const status = createStatus();
    const request = {
      operation: 'write',
      local,
      remote,
      entries: entriesOf(apart(1)),
      transferId: 1,
      status,
    } as const;
    expect(transfer(initiator, request)).toBeNull();
    expect([status.code, status.message]).toEqual([
      StatusCode.ERR_BAD_STATE,
      'No available backend found, create backend first',
    ]);
    const xgmi = addEngine(rig, 'xgmi');
    createBackend(xgmi, BackendType.XGMI, fullConfig({}));
    registerRemoteEngine(xgmi, { ...target.desc, nodeId: 'elsewhere' });
    const gpu = MemoryLocationType.GPU;
    const outcome = makeSession(xgmi, addMemory(rig, xgmi, 64, gpu), addMemory(rig, target, 64, gpu));
    expect(outcome.kind).toBe('none');
  });
});

describe('an engine', () => {
  test('describes memory by place', () => {
    const engine = addEngine(createRig(), 'a');
    const cpu = registerMemory(engine, { address: 4096n, bytes: 0n, loc: MemoryLocationType.CPU });
    const gpu = registerMemory(engine, { address: 0n, bytes: 8n, loc: MemoryLocationType.GPU, deviceId: 0 });
    expect([cpu.id, cpu.deviceId, cpu.deviceBusId, gpu.id, gpu.deviceBusId]).toEqual([
      0,
      -1,
      '',
      1,
      '0000:01:00.0',
    ]);
  });

  test('takes its node from the environment first, and its port from the listener', () => {
    const engine = addEngine(createRig(), 'a', { environment: { MORI_NODE_ID: 'mine' } });
    createBackend(engine, BackendType.RDMA, fullConfig({}));
    expect([engine.desc.nodeId, engine.desc.port > 0]).toEqual(['mine', true]);
  });

  test('wraps transfer ids at 32 bits, and says that it is alive', () => {
    const engine = addEngine(createRig(), 'a');
    engine.nextTransferId = 2 ** 32 - 1;
    expect([allocateTransferId(engine), allocateTransferId(engine)]).toEqual([2 ** 32 - 1, 0]);
    expect(alive()).toBe(true);
  });

  test('does not mind removing what is not there', () => {
    const engine = addEngine(createRig(), 'a');
    removeBackend(engine, BackendType.FABRIC);
    removeBackend(engine, BackendType.RDMA);
    expect(engine.rdma).toBeNull();
  });
});

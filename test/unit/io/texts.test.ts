import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { BackendType, MemoryLocationType, StatusCode } from '../../../src/io/codes.ts';
import { encodeMessage, MessageType } from '../../../src/io/control-frames.ts';
import { createBackend } from '../../../src/io/engine/backends.ts';
import { createSession, registerRemoteEngine, sessionTransfer } from '../../../src/io/engine/engine.ts';
import { errnoText } from '../../../src/io/engine/errno.ts';
import type { WorkStatus } from '../../../src/io/engine/host.ts';
import { answered, complete } from '../../../src/io/engine/inputs.ts';
import { batchExceedsCapacity, notifyExceedsCapacity } from '../../../src/io/engine/texts.ts';
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
  start,
} from './rig.ts';

/** What a status says, word for word as the library (624002c8), libibverbs and glibc say it. */

const ERRNOS = JSON.parse(
  readFileSync(new URL('../../golden/errno-linux.json', import.meta.url), 'utf8'),
) as { readonly texts: readonly (readonly [errno: number, text: string])[] };

describe('an errno', () => {
  test('has the text of the C library, whatever it is', () => {
    expect(ERRNOS.texts.length).toBeGreaterThan(140);
    expect(ERRNOS.texts.map(([errno]) => [errno, errnoText(errno)])).toEqual(ERRNOS.texts);
  });

  test.each([1, 4, 5, 9, 11, 14, 16, 41, 105, 110, 121, 133, 134])('%d is told so of a post', (errno) => {
    const [, text] = ERRNOS.texts.find(([number]) => number === errno)!;
    expect(messageAfterPost(errno)).toBe(`ibv_post_send failed with ${errno}: ${text} (posted 1/3 WRs)`);
    expect(messageAfterNotify(errno)).toBe(`ibv_post_send (notify) failed with ${errno}: ${text}`);
  });
});

function messageAfterPost(errno: number): string {
  const rig = createRig();
  const { initiator, session } = addPair(rig);
  rig.sim.postFailure = { posted: 1, errno };
  return start(initiator, session, { rows: apart(3), id: 1 }).status.message;
}

function messageAfterNotify(errno: number): string {
  const rig = createRig();
  const { initiator, session } = addPair(rig);
  rig.hooks.failNotification = errno;
  return start(initiator, session, { rows: apart(1), id: 1 }).status.message;
}

function messageOf(status: WorkStatus): string {
  const rig = createRig();
  const { initiator, session } = addPair(rig);
  const call = start(initiator, session, { rows: apart(1), id: 1 });
  const [{ local, ledger }] = session.endpoints;
  const [wrId] = ledger.records.keys();
  complete(initiator, { qpn: local.qpn, opcode: 'data', wrId, status });
  return call.status.message;
}

const STATUSES: readonly (readonly [WorkStatus, string])[] = [
  [
    'LOC_LEN_ERR',
    'local length error Hint: local length error; verify SGE lengths and transfer offsets stay within the registered ' +
      'local MR bounds.',
  ],
  ['LOC_QP_OP_ERR', 'local QP operation error'],
  ['LOC_EEC_OP_ERR', 'local EE context operation error'],
  [
    'LOC_PROT_ERR',
    'local protection error Hint: local protection error; verify the local buffer is still registered with MORI, ' +
      'lkey matches the posted WR, and transfer offsets/lengths stay within the registered range.',
  ],
  ['WR_FLUSH_ERR', 'Work Request Flushed Error'],
  ['MW_BIND_ERR', 'memory management operation error'],
  ['BAD_RESP_ERR', 'bad response error'],
  ['LOC_ACCESS_ERR', 'local access error'],
  ['REM_INV_REQ_ERR', 'remote invalid request error'],
  [
    'REM_ACCESS_ERR',
    'remote access error Hint: remote access error; verify the remote buffer is still registered, rkey/permissions ' +
      'allow this operation, and remote offsets/lengths stay within the registered range.',
  ],
  [
    'REM_OP_ERR',
    'remote operation error Hint: remote operation error; verify both peers use compatible verbs/QP state and the ' +
      'remote endpoint supports the requested RDMA operation.',
  ],
  [
    'RETRY_EXC_ERR',
    'transport retry counter exceeded Hint: transport retry limit exceeded; check peer liveness/connectivity, verify ' +
      'GID selection (unset or correct MORI_IB_GID_INDEX), and if running RoCE verify QoS settings such as ' +
      'MORI_IO_SL/MORI_IO_TC or MORI_RDMA_SL/MORI_RDMA_TC.',
  ],
  [
    'RNR_RETRY_EXC_ERR',
    'RNR retry counter exceeded Hint: receiver not ready; check the peer receive path. If this is related to MORI ' +
      'notifications, increase notifPerQp / MORI_IO_QP_MAX_RECV_WR or disable MORI_IO_ENABLE_NOTIFICATION when ' +
      'inbound notification is not required.',
  ],
  ['LOC_RDD_VIOL_ERR', 'local RDD violation error'],
  ['REM_INV_RD_REQ_ERR', 'remote invalid RD request'],
  ['REM_ABORT_ERR', 'aborted error'],
  ['INV_EECN_ERR', 'invalid EE context number'],
  ['INV_EEC_STATE_ERR', 'invalid EE context state'],
  ['FATAL_ERR', 'fatal error'],
  ['RESP_TIMEOUT_ERR', 'response timeout error'],
  ['GENERAL_ERR', 'general error'],
];

test.each(STATUSES)('a completion of %s', (status, text) => {
  expect(messageOf(status)).toBe(text);
});

test('a notification without a receive is told to the log alone, with a hint of its own', () => {
  const rig = createRig();
  const { initiator, session } = addPair(rig);
  const call = start(initiator, session, { rows: apart(1), id: 1 });
  complete(initiator, {
    qpn: session.endpoints[0].local.qpn,
    opcode: 'send',
    wrId: -2,
    status: 'RNR_RETRY_EXC_ERR',
  });
  expect(call.status.code).toBe(StatusCode.IN_PROGRESS);
  expect(rig.logs.at(-1)).toContain(
    'receiver not ready for SEND completions; if notifications are enabled, ensure the peer pre-posts enough RECV ' +
      'WRs. Try increasing notifPerQp / MORI_IO_QP_MAX_RECV_WR (current notifPerQp=16), or set ' +
      'MORI_IO_ENABLE_NOTIFICATION=0 if inbound notification is not required.',
  );
});

describe('a post that is refused', () => {
  test('for its arguments, of data and of a notification', () => {
    expect(messageAfterPost(22)).toBe(
      'ibv_post_send failed with 22: Invalid argument (posted 1/3 WRs) Hint: provider rejected the WR as invalid; ' +
        'verify WR flags/opcode, lkey/rkey, and scatter/gather layout (failing WR num_sge=1).',
    );
    expect(messageAfterNotify(22)).toBe(
      'ibv_post_send (notify) failed with 22: Invalid argument Hint: provider rejected the notification SEND as ' +
        'invalid; verify notification is enabled on both peers and the endpoint/QP is still healthy, or disable ' +
        'MORI_IO_ENABLE_NOTIFICATION if inbound notification is not required.',
    );
  });

  test('for its scatter-gather entries, which are counted by the first queue pair', () => {
    const rig = createRig();
    const { initiator, session } = addPair(rig, { enableNotification: false });
    const narrow = { ...session.endpoints[0], sizes: { ...session.endpoints[0].sizes, sge: 1 } };
    rig.sim.postFailure = { posted: 0, errno: 22 };
    const rows = [
      [0, 0, 50],
      [200, 50, 50],
    ] as const;
    const { status } = start(initiator, { ...session, endpoints: [narrow] }, { rows, id: 1 });
    expect(status.message).toBe(
      'ibv_post_send failed with 22: Invalid argument (posted 0/1 WRs) Hint: the failing WR uses num_sge=2, which ' +
        'exceeds endpoint max_send_sge=1; reduce scatter/gather fan-out or, if the device supports it, increase ' +
        'MORI_IO_QP_MAX_MSG_SGE / MORI_IO_QP_MAX_SGE.',
    );
  });

  test('for want of memory, of data and of a notification', () => {
    expect(messageAfterPost(12)).toBe(
      'ibv_post_send failed with 12: Cannot allocate memory (posted 1/3 WRs) Hint: provider reported ENOMEM while ' +
        'posting WRs; try increasing MORI_IO_QP_MAX_SEND_WR and MORI_IO_QP_MAX_CQE, reducing ' +
        'RdmaBackendConfig::postBatchSize (current effective value 3), or increasing ' +
        'RdmaBackendConfig::qpPerTransfer (current transfer uses 1 QP(s)) if additional QPs are available.',
    );
    expect(messageAfterNotify(12)).toBe(
      'ibv_post_send (notify) failed with 12: Cannot allocate memory Hint: provider reported ENOMEM while posting ' +
        'notification SENDs; try increasing MORI_IO_QP_MAX_SEND_WR and MORI_IO_QP_MAX_CQE, and consider increasing ' +
        'notifPerQp / MORI_IO_QP_MAX_RECV_WR, or setting MORI_IO_ENABLE_NOTIFICATION=0 if inbound notification is ' +
        'not required.',
    );
  });

  test('for more than its queue holds', () => {
    const credit = { endpoint: 1, depth: 0, requested: 9, max: 8, backoffMicros: 1 };
    expect(batchExceedsCapacity(credit, { batchSize: 9, queuePairs: 2 })).toBe(
      'SQ request exceeds capacity (batch): ep=1 requested=9 max=8 Hint: try increasing MORI_IO_QP_MAX_SEND_WR, ' +
        'reducing RdmaBackendConfig::postBatchSize (current effective value 9), or increasing ' +
        'RdmaBackendConfig::qpPerTransfer (current transfer uses 2 QP(s)) if additional QPs are available. Current ' +
        'per-QP send WR limit is 8.',
    );
    expect(notifyExceedsCapacity(credit)).toBe(
      'SQ request exceeds capacity (notify): ep=1 requested=9 max=8 Hint: try increasing MORI_IO_QP_MAX_SEND_WR, and ' +
        'consider increasing notifPerQp / MORI_IO_QP_MAX_RECV_WR, or setting MORI_IO_ENABLE_NOTIFICATION=0 if inbound ' +
        'notification is not required.',
    );
  });
});

describe('a batch with worker threads and chunking', () => {
  test('is refused as a whole, and nothing is posted, when one request has 4 GiB', () => {
    const rig = createRig();
    const config = { qpPerTransfer: 2, numWorkerThreads: 2, enableTransferChunking: true };
    const { initiator, session } = addPair(rig, config, { loc: MemoryLocationType.GPU });
    let posts = 0;
    rig.hooks.posted = () => {
      posts += 1;
    };
    const { status } = start(initiator, session, { rows: [...apart(1), [0, 0, 2 ** 32]], id: 1 });
    expect([status.code, status.message, posts]).toEqual([
      StatusCode.ERR_INVALID_ARGS,
      'single request size exceeds UINT32_MAX; split it before submitting',
      0,
    ]);
  });
});

test('a NIC that reports no largest message', () => {
  const rig = createRig();
  rig.maxMessageBytes = 0;
  const { initiator, session } = addPair(rig);
  const { status } = start(initiator, session, { rows: apart(1), id: 1 });
  expect([status.code, status.message]).toEqual([
    StatusCode.ERR_BAD_STATE,
    'RDMA endpoint local max_msg_sz is unavailable for ep 0',
  ]);
});

test('a device with too few receives for notifPerQp', () => {
  const rig = createRig();
  const [initiator, target] = ['initiator', 'target'].map((key) => addEngine(rig, key));
  for (const engine of [initiator, target])
    createBackend(engine, BackendType.RDMA, fullConfig({ notifPerQp: 20_000 }));
  registerRemoteEngine(initiator, target.desc);
  const [local, remote] = [addMemory(rig, initiator, 64), addMemory(rig, target, 64)];
  let text = '';
  createSession(initiator, local, remote, (outcome) => {
    text = outcome.kind === 'threw' ? outcome.text : outcome.kind;
  });
  expect(text).toBe('Device RQ capacity insufficient for configured notifPerQp');
});

test('an answer of the wrong type', () => {
  const rig = createRig();
  const { initiator, target, local } = addPair(rig);
  const remote = addMemory(rig, target, 64);
  const reply = encodeMessage({
    type: MessageType.RegEndpoint,
    endpoint: {
      ekey: 'target',
      topo: { local: { deviceId: -1, loc: 1, numaNode: -1 }, remote: { deviceId: -1, loc: 1, numaNode: -1 } },
      devId: 0,
      eph: { ...addPair(createRig()).session.endpoints[0].local },
      nicRank: 0,
      railId: 0,
    },
  });
  let text = '';
  const request = initiator.host.request;
  Object.assign(initiator.host, { request: (exchange: number) => answered(initiator, exchange, reply) });
  createSession(initiator, local, remote, (outcome) => {
    text = outcome.kind === 'threw' ? outcome.text : outcome.kind;
  });
  Object.assign(initiator.host, { request });
  expect(text).toBe(
    'unexpected control-plane message (AskRemoteMemoryRegion reply from target): expected AskMemoryRegion(1), ' +
      `observed RegEndpoint(0), len=${reply.length - 5}`,
  );
});

describe('a copy between GPUs that cannot start', () => {
  function messageOfCopy(
    type: typeof BackendType.XGMI | typeof BackendType.FABRIC,
    rows: number,
    bytes: number,
  ): string {
    const rig = createRig();
    const engine = addEngine(rig, 'a');
    createBackend(engine, type, fullConfig({}));
    const local = addMemory(rig, engine, 64, MemoryLocationType.GPU);
    const remote = { ...local, deviceId: rows };
    const route = type === BackendType.XGMI ? 'xgmi' : 'fabric';
    if (route === 'xgmi') Object.assign(engine.host, { startCopy: () => 'out of memory' });
    const status = createStatus();
    const entries = entriesOf(
      Array.from({ length: Math.max(rows, 1) }, (_, at) => [at * bytes, at * bytes, bytes]),
    );
    const request = { operation: 'write', entries, transferId: 1, status, single: rows < 2 } as const;
    finishCall(rig, sessionTransfer(engine, { route, local, remote }, request));
    return status.message;
  }

  test('is told with the call that failed', () => {
    expect(messageOfCopy(BackendType.XGMI, 0, 8)).toBe('XGMI: hipMemcpyAsync failed: out of memory');
    expect(messageOfCopy(BackendType.XGMI, 1, 8)).toBe('XGMI: hipMemcpyPeerAsync failed: out of memory');
    expect(messageOfCopy(BackendType.XGMI, 2, 8)).toBe('XGMI: memcpy failed: out of memory');
    const large = 4 * 1024 * 1024;
    expect(messageOfCopy(BackendType.FABRIC, 1, large)).toBe(
      'FABRIC: copy launch failed: operation not supported',
    );
    expect(messageOfCopy(BackendType.FABRIC, 2, large)).toBe(
      'FABRIC: batch copy launch failed: operation not supported',
    );
  });
});

import { BackendType, MemoryLocationType, StatusCode } from '../../../src/io/codes.ts';
import {
  type AskMemoryRegion,
  emptyRdmaMemoryRegion,
  encodeFrame,
  MessageType,
  packAskMemoryRegion,
} from '../../../src/io/control-frames.ts';
import { createBackend, removeBackend } from '../../../src/io/engine/backends.ts';
import { createControlServer, expireControl, receiveControl } from '../../../src/io/engine/control-server.ts';
import {
  deregisterMemory,
  popInboundTransferStatus,
  registerMemory,
  registerRemoteEngine,
  transfer,
  transferBatches,
} from '../../../src/io/engine/engine.ts';
import { complete } from '../../../src/io/engine/inputs.ts';
import type { QuirkName } from '../../../src/io/engine/quirks.ts';
import type { RdmaBackendConfig } from '../../../src/io/rdma-config.ts';
import { createStatus } from '../../../src/io/transfer-status.ts';
import { landNext } from '../../../src/io/verbs-land.ts';
import { ONE, POST_SHOWINGS, run } from './quirk-showings-posts.ts';
import {
  addEngine,
  addMemory,
  apart,
  entriesOf,
  finishCall,
  fullConfig,
  makeSession,
  type Pair,
  type PairOptions,
  pump,
  type Rig,
  start,
} from './rig.ts';

/**
 * Each switch of QUIRKS by itself: everything else is as in the sound engine, or as in the library, and the one switch
 * makes the difference that its sentence says.
 */

export interface Scene {
  readonly rig: Rig;
  readonly pair: (config?: Partial<RdmaBackendConfig>, options?: PairOptions) => Pair;
  readonly options: PairOptions;
}

/** What was seen, in any form that equality can compare. */
type Seen = unknown;

export interface Showing {
  readonly see: (scene: Scene) => Seen;
  readonly mori: Seen;
  readonly sound: Seen;
}

function pop({ target }: Pair, id: number): boolean {
  return popInboundTransferStatus(target, 'initiator', id, createStatus());
}

const SHARED_GPU = { loc: MemoryLocationType.GPU } as const;

function unknownRegion(): AskMemoryRegion {
  return { ekey: 'target', devId: 0, id: 99, mr: emptyRdmaMemoryRegion() };
}

export const SHOWINGS: Readonly<Record<QuirkName, Showing>> = {
  ...POST_SHOWINGS,
  popKeeps: {
    see: ({ rig, pair }) => {
      const made = pair();
      run(rig, made, 7, ONE);
      const first = [pop(made, 7), pop(made, 7)];
      run(rig, made, 7, ONE);
      return [...first, pop(made, 7)];
    },
    mori: [true, true, false],
    sound: [true, false, true],
  },
  emptyBatchNotifies: {
    see: ({ rig, pair }) => {
      const made = pair();
      return [run(rig, made, 1, []).status.code, pop(made, 1)];
    },
    mori: [StatusCode.SUCCESS, true],
    sound: [StatusCode.SUCCESS, false],
  },
  assertsAbort: {
    see: ({ rig, pair }) => {
      const { initiator, local, remote } = pair();
      const status = createStatus();
      const lists = { locals: [local], remotes: [remote, remote], batches: [], statuses: [status], ids: [1] };
      transferBatches(initiator, 'write', lists);
      const tcp = createBackend(
        addEngine(rig, 'fresh', { quirks: initiator.quirks }),
        BackendType.TCP,
        fullConfig({}),
      );
      return [status.code, rig.ends.length, tcp !== null];
    },
    mori: [StatusCode.INIT, 2, true],
    sound: [StatusCode.ERR_INVALID_ARGS, 0, true],
  },
  environmentExits: {
    see: ({ rig, options }) => {
      rig.gpuCount = 0;
      const text = createBackend(addEngine(rig, 'a', options), BackendType.RDMA, fullConfig({}));
      rig.gpuCount = 1;
      rig.portsInUse = true;
      const port = createBackend(addEngine(rig, 'b', options), BackendType.RDMA, fullConfig({}));
      return [text, port !== null, rig.ends.map((end) => end.split(':')[0])];
    },
    mori: ['rocm-smi reports no GPU', true, ['exit 255', 'exit 255']],
    sound: ['rocm-smi reports no GPU', true, []],
  },
  creationThrows: {
    see: ({ rig, pair }) => {
      const { initiator, local, remote } = pair();
      const status = createStatus();
      const call = transfer(initiator, {
        operation: 'write',
        local,
        remote: { ...remote, id: 99 },
        entries: entriesOf(ONE),
        transferId: 1,
        status,
      });
      finishCall(rig, call);
      return [status.code, call?.threw?.includes('size mismatch')];
    },
    mori: [StatusCode.INIT, true],
    sound: [StatusCode.ERR_BAD_STATE, true],
  },
  batchStopsEarly: {
    see: ({ rig, pair }) => {
      const { initiator, local, remote } = pair();
      const statuses = [createStatus(), createStatus()];
      const calls = transferBatches(initiator, 'write', {
        locals: [local, local],
        remotes: [{ ...remote, engineKey: 'nobody' }, remote],
        batches: [entriesOf(ONE), entriesOf(ONE)],
        statuses,
        ids: [1, 2],
      });
      for (const call of calls) finishCall(rig, call);
      return statuses.map(({ code }) => code);
    },
    mori: [StatusCode.ERR_BAD_STATE, StatusCode.INIT],
    sound: [StatusCode.ERR_BAD_STATE, StatusCode.SUCCESS],
  },
  successFlips: {
    see: ({ rig, pair }) => {
      const { initiator, session } = pair({ maxSendWr: 1 });
      const seen: StatusCode[] = [];
      const call = start(initiator, session, { rows: ONE, id: 1 });
      // The notification waits for the slot of the data; its completion gives way to a post that fails.
      rig.hooks.failNotification = 12;
      rig.hooks.notified = () => {
        seen.push(call.status.code);
      };
      finishCall(rig, call);
      return [...seen, call.status.code];
    },
    mori: [StatusCode.SUCCESS, StatusCode.ERR_RDMA_OP],
    sound: [StatusCode.IN_PROGRESS, StatusCode.ERR_RDMA_OP],
  },
  innerFailureHides: {
    see: ({ rig, pair }) => {
      const made = pair();
      rig.sim.failing.set(made.session.endpoints[0].local.qpn, 'REM_ACCESS_ERR');
      return run(rig, made, 1, apart(3)).status.message.split(' Hint')[0];
    },
    mori: 'Work Request Flushed Error',
    sound: 'remote access error',
  },
  lastChainSignals: {
    see: ({ rig, pair }) => {
      const made = pair({ maxSendWr: 8, postBatchSize: 5 });
      return run(rig, made, 1, apart(10)).status.code;
    },
    mori: StatusCode.ERR_RDMA_OP,
    sound: StatusCode.SUCCESS,
  },
  creditLeaks: {
    see: ({ rig, pair }) => {
      // The last chain's post fails; with the library's signals the first two chains had none.
      const made = pair({ maxSendWr: 64, postBatchSize: 2 }, { quirks: { lastChainSignals: true } });
      let posts = 0;
      rig.hooks.posted = () => {
        posts += 1;
        if (posts === 2) rig.sim.postFailure = { posted: 0, errno: 12 };
      };
      run(rig, made, 1, apart(6));
      pump(rig);
      return made.session.endpoints[0].depth;
    },
    mori: 4,
    sound: 0,
  },
  degradedSticks: {
    see: ({ rig, pair }) => {
      const made = pair();
      rig.sim.postFailure = { posted: 2, errno: 22 };
      const codes = [run(rig, made, 1, apart(4)).status.code, run(rig, made, 2, apart(1)).status.code];
      return [...codes, made.session.endpoints[0].depth];
    },
    mori: [StatusCode.ERR_RDMA_OP, StatusCode.ERR_RDMA_OP, 2],
    sound: [StatusCode.ERR_RDMA_OP, StatusCode.SUCCESS, 0],
  },
  sliceValidation: {
    see: ({ rig, pair }) => {
      const made = pair({ qpPerTransfer: 2, numWorkerThreads: 2 });
      const { status } = run(rig, made, 1, [...ONE, [2 ** 30, 2 ** 30, 64]]);
      return [status.code, rig.buffers.get(made.remote.data)![0]];
    },
    mori: [StatusCode.ERR_INVALID_ARGS, 0x5a],
    sound: [StatusCode.ERR_INVALID_ARGS, 0],
  },
  workersUseFirstKeys: {
    see: ({ rig, pair }) => {
      rig.nicCount = 2;
      const made = pair({ qpPerTransfer: 2, numWorkerThreads: 2 });
      return run(rig, made, 1, apart(2)).status.message.split(' Hint')[0];
    },
    mori: 'local protection error',
    sound: 'success',
  },
  rangeWraps: {
    see: ({ rig, pair }) => run(rig, pair(), 1, [[0, -1, 2]], true).status.message.split(' Hint')[0],
    mori: 'remote access error',
    sound: 'length out of range',
  },
  copiesUnchecked: {
    see: ({ rig, options }) => {
      const engine = addEngine(rig, 'a', options);
      createBackend(engine, BackendType.XGMI, fullConfig({}));
      const memory = addMemory(rig, engine, 4096, SHARED_GPU.loc);
      const status = createStatus();
      const entries = entriesOf([[0, 4000, 200]]);
      transfer(engine, { operation: 'write', local: memory, remote: memory, entries, transferId: 1, status });
      return [status.code, rig.copies.length];
    },
    mori: [StatusCode.IN_PROGRESS, 1],
    sound: [StatusCode.ERR_INVALID_ARGS, 0],
  },
  lateBackendForgets: {
    see: ({ rig, options, pair }) => {
      const { target, remote } = pair();
      const late = addEngine(rig, 'late', options);
      registerRemoteEngine(late, target.desc);
      const local = addMemory(rig, late, 4096);
      createBackend(late, BackendType.RDMA, fullConfig({}));
      return makeSession(late, local, remote).kind;
    },
    mori: 'none',
    sound: 'session',
  },
  pointerSharesSlot: {
    see: ({ rig, pair }) => {
      const made = pair();
      const { data: address, size: bytes, loc } = made.local;
      const again = registerMemory(made.initiator, { address, bytes, loc });
      makeSession(made.initiator, again, made.remote);
      deregisterMemory(made.initiator, again);
      return run(rig, made, 1, ONE).status.code;
    },
    mori: StatusCode.ERR_RDMA_OP,
    sound: StatusCode.SUCCESS,
  },
  receivesOnlyIfNotified: {
    see: ({ rig, pair }) => {
      const made = pair({}, { targetConfig: { enableNotification: false } });
      return [run(rig, made, 1, ONE).status.code, run(rig, made, 2, ONE).status.code, pop(made, 1)];
    },
    mori: [StatusCode.SUCCESS, StatusCode.IN_PROGRESS, false],
    sound: [StatusCode.SUCCESS, StatusCode.SUCCESS, false],
  },
  clientStallsControl: {
    see: ({ pair }) => {
      const { target } = pair();
      const server = createControlServer(target);
      const whole = encodeFrame(MessageType.AskMemoryRegion, packAskMemoryRegion(unknownRegion()));
      receiveControl(target, server, 1, whole.subarray(0, 3), 0);
      const answered = receiveControl(target, server, 2, whole, 1000).map(({ connection }) => connection);
      return [answered, expireControl(target, server, 5_000_000).map(({ connection }) => connection)];
    },
    mori: [[], [1, 2]],
    sound: [[2], [1]],
  },
  brokenForGood: {
    see: ({ rig, pair }) => {
      const made = pair();
      rig.sim.failing.set(made.session.endpoints[0].local.qpn, 'RETRY_EXC_ERR');
      const codes = [1, 2].map((id) => run(rig, made, id, ONE).status.code);
      return [...codes, pop(made, 2)];
    },
    mori: [StatusCode.ERR_RDMA_OP, StatusCode.ERR_RDMA_OP, false],
    sound: [StatusCode.ERR_RDMA_OP, StatusCode.SUCCESS, true],
  },
  endsWhileMoving: {
    see: ({ rig, pair }) => {
      const { initiator, session } = pair({ qpPerTransfer: 2, enableNotification: false });
      rig.sim.failing.set(session.endpoints[0].local.qpn, 'RETRY_EXC_ERR');
      const { status } = start(initiator, session, { rows: apart(2), id: 0 });
      landNext(rig.sim);
      complete(initiator, rig.sim.completions.pop()!.completion);
      const code = status.code;
      pump(rig);
      return [code, status.code];
    },
    mori: [StatusCode.ERR_RDMA_OP, StatusCode.ERR_RDMA_OP],
    sound: [StatusCode.IN_PROGRESS, StatusCode.ERR_RDMA_OP],
  },
  deadKeysStay: {
    see: ({ rig, pair }) => {
      const made = pair();
      deregisterMemory(made.initiator, made.local);
      return run(rig, made, 1, ONE).status.code;
    },
    mori: StatusCode.ERR_RDMA_OP,
    sound: StatusCode.ERR_BAD_STATE,
  },
  deregisterTrustsId: {
    see: ({ rig, pair }) => {
      const made = pair();
      deregisterMemory(made.initiator, { ...made.remote, id: made.local.id });
      return run(rig, made, 1, ONE).status.code === StatusCode.SUCCESS;
    },
    mori: false,
    sound: true,
  },
  emptyHidesUnknown: {
    see: ({ pair }) => {
      const { initiator, local, remote } = pair();
      return makeSession(initiator, local, { ...remote, id: 99, size: 0n }).kind;
    },
    mori: 'session',
    sound: 'threw',
  },
  removeStrands: {
    see: ({ pair }) => {
      const { initiator, session } = pair();
      const { status } = start(initiator, session, { rows: ONE, id: 1 });
      removeBackend(initiator, BackendType.RDMA);
      return status.code;
    },
    mori: StatusCode.IN_PROGRESS,
    sound: StatusCode.ERR_BAD_STATE,
  },
  restartKeepsQueuePairs: {
    see: ({ pair, rig }) => {
      const { initiator, target, local, remote } = pair();
      const made = rig.sim.nextQpn;
      registerRemoteEngine(initiator, { ...target.desc, pid: 2 });
      makeSession(initiator, local, remote);
      return rig.sim.nextQpn - made;
    },
    mori: 0,
    sound: 2,
  },
  configUnchecked: {
    see: ({ rig, options }) =>
      [{ qpPerTransfer: 0 }, { postBatchSize: 0 }].map(
        (config) =>
          createBackend(addEngine(rig, 'a', options), BackendType.RDMA, fullConfig(config)) === null,
      ),
    mori: [true, true],
    sound: [false, false],
  },
  readNotifiesEarly: {
    see: ({ rig, pair }) => {
      const { initiator, session } = pair();
      let sent = 0;
      rig.hooks.notified = () => {
        sent += 1;
      };
      const call = start(initiator, session, { rows: ONE, id: 1, operation: 'read' });
      const before = sent;
      finishCall(rig, call);
      return [before, sent, call.status.code];
    },
    mori: [1, 1, StatusCode.SUCCESS],
    sound: [0, 1, StatusCode.SUCCESS],
  },
};

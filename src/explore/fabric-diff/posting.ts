import { believe } from '../../base/failure.ts';
import { BackendType, StatusCode } from '../../io/codes.ts';
import { createBackend } from '../../io/engine/backends.ts';
import {
  createSession,
  popInboundTransferStatus,
  registerRemoteEngine,
  sessionTransfer,
} from '../../io/engine/engine.ts';
import type { RdmaSession } from '../../io/engine/state.ts';
import { addEngine, addMemory, advance, createLoopback, type Loopback } from '../../io/loopback.ts';
import { RDMA_DEFAULTS } from '../../io/rdma-config.ts';
import type { BatchEntries } from '../../io/submission.ts';
import { createStatus } from '../../io/transfer-status.ts';
import type { VerbsSim } from '../../io/verbs-sim.ts';
import type { DrawnTransfer } from './drawing.ts';

/** What the MoRI-IO engine makes of a transfer: the chains that it posts, each a batch of the fabric. */

export interface Chain {
  readonly transfer: DrawnTransfer;
  readonly operation: 'read' | 'write';
  readonly queuePair: number;
  /** Triples of local offset, remote offset and bytes: one for each entry of each work request. */
  readonly runs: readonly number[];
  /** Entries of the scatter-gather list of each work request. */
  readonly lists: readonly number[];
}

export interface PostedTransfer {
  readonly transfer: DrawnTransfer;
  /** In the order in which they landed on an even NIC. */
  readonly chains: readonly Chain[];
  /** Notifications that the target has counted. */
  readonly notifications: number;
  /** Whether the engine has cut a request into chunks. */
  readonly isCut: boolean;
}

/** A chain is never cut in two for its length. */
const CHAIN_MAX = 4096;

/** Two engines with a session, over verbs that note down what they land. `near` and `far` stand for the regions. */
export function postTransfer(transfer: DrawnTransfer, near: Uint8Array, far: Uint8Array): PostedTransfer {
  const chains: Chain[] = [];
  let session: RdmaSession | null = null;
  const note = (sim: VerbsSim): boolean => {
    chains.push(chainOf(sim, transfer, session!));
    return true;
  };
  const loopback = createLoopback({ nics: transfer.nics, move: note });
  const [ours, theirs] = ['initiator', 'target'].map((key) =>
    addEngine(loopback, key, { fidelity: 'sound' }),
  );
  for (const engine of [ours!, theirs!]) {
    const refusal = createBackend(engine, BackendType.RDMA, configOf(transfer));
    believe(refusal === null, 'INV-DIFF-1', `an engine of the workload has no backend: ${refusal}`);
  }
  registerRemoteEngine(ours!, theirs!.desc);
  registerRemoteEngine(theirs!, ours!.desc);
  const [local, remote] = [addMemory(loopback, ours!, near), addMemory(loopback, theirs!, far)];
  createSession(ours!, local, remote, (outcome) => {
    if (outcome.kind === 'session' && outcome.session.route === 'rdma') session = outcome.session;
  });
  believe(session !== null, 'INV-DIFF-1', 'two engines of the workload have no session');
  const status = createStatus();
  // The id chooses the queue pair at which the chains begin.
  const transferId = transfer.queuePairs + transfer.queuePair;
  const { operation } = transfer;
  sessionTransfer(ours!, session, { operation, entries: entriesOf(transfer), transferId, status });
  runDry(loopback);
  believe(
    status.code === StatusCode.SUCCESS,
    'INV-DIFF-1',
    `a transfer of the workload ends with ${status.code}: ${status.message}`,
  );
  const told = createStatus();
  const isTold = popInboundTransferStatus(theirs!, 'initiator', transferId, told);
  believe(isTold || !transfer.notifies, 'INV-DIFF-1', 'a transfer of the workload was not notified');
  const runs = chains.reduce((sum, chain) => sum + chain.runs.length / 3, 0);
  const isCut = runs > transfer.pieces.length;
  return { transfer, chains, notifications: transfer.notifies ? transfer.queuePairs : 0, isCut };
}

function configOf(transfer: DrawnTransfer): typeof RDMA_DEFAULTS {
  return {
    ...RDMA_DEFAULTS,
    qpPerTransfer: transfer.queuePairs,
    postBatchSize: transfer.spreads ? -1 : CHAIN_MAX,
    enableNotification: transfer.notifies,
    notifPerQp: 4,
    enableTransferChunking: transfer.chunkBytes !== null,
    chunkBytes: transfer.chunkBytes ?? RDMA_DEFAULTS.chunkBytes,
    maxChunksPerTransfer: transfer.maxChunks,
    numNicsPerTransfer: transfer.nics,
    maxMsgSge: transfer.maxSge,
  };
}

function entriesOf({ pieces }: DrawnTransfer): BatchEntries {
  return {
    localOffsets: pieces.map(({ local }) => local),
    remoteOffsets: pieces.map(({ remote }) => remote),
    sizes: pieces.map(({ bytes }) => bytes),
  };
}

function runDry(loopback: Loopback): void {
  while (advance(loopback));
}

function chainOf(sim: VerbsSim, transfer: DrawnTransfer, { endpoints }: RdmaSession): Chain {
  const { qpn, queue, head } = sim.landing!;
  const { chain } = queue[head]!;
  const { operation, workRequests, first, end } = chain!;
  const isWrite = operation === 'write';
  const runs: number[] = [];
  for (let at = 0; at < sim.runCount * 3; at += 3)
    runs.push(sim.runs[isWrite ? at : at + 1]!, sim.runs[isWrite ? at + 1 : at]!, sim.runs[at + 2]!);
  const posted = workRequests.slice(first, end);
  return {
    transfer,
    operation,
    queuePair: endpoints.findIndex(({ local }) => local.qpn === qpn),
    runs,
    lists: posted.map(({ sges }) => sges.length),
  };
}

import { move } from '../../base/moves.ts';
import { SmallMap } from '../../base/small-map.ts';
import { MemoryLocationType, StatusCode } from '../codes.ts';
import {
  type EngineDesc,
  emptyMemoryDesc,
  type MemoryDesc,
  sameEngineDesc,
  sameMemoryDesc,
} from '../descriptors.ts';
import type { Environment } from '../rdma-config.ts';
import type { BatchEntries } from '../submission.ts';
import { setStatusCode, type TransferStatus, updateStatus } from '../transfer-status.ts';
import { endOrThrow } from './backends.ts';
import { CALL_MOVES } from './call-moves.ts';
import { createCall, startCall } from './calls.ts';
import { createCopySession, pollCopies, startCopies } from './copies.ts';
import type { Host, Machine } from './host.ts';
import { popInbound } from './notify.ts';
import { type Fidelity, type Quirks, quirksOf } from './quirks.ts';
import { dropRegions } from './regions.ts';
import { startRepair } from './repair.ts';
import { normalizeBusId, routeOf } from './routing.ts';
import { createRdmaSession, remoteOf } from './sessions.ts';
import type { Call, CopyBackend, CreationOutcome, IOEngine, RdmaBackend, Session } from './state.ts';
import { NO_BACKEND } from './texts.ts';

/** MoRI-IO's IOEngine and its session (mori-io.md A4, A6): functions over plain state. Nothing blocks; see Host. */

export interface EngineOptions {
  readonly key: string;
  /** Dotted IPv4 address of the control plane; nothing by default. */
  readonly host?: string;
  /** 0, the default, lets CreateBackend choose; 1 is reserved. */
  readonly port?: number;
  readonly machine: Machine;
  readonly hostPort: Host;
  /** MORI_ variables; the real environment is never read. */
  readonly environment?: Environment;
  /** `mori`, the default, does all that the library does; `sound` none of its quirks. */
  readonly fidelity?: Fidelity;
  /** Single switches that differ from the fidelity's. */
  readonly quirks?: Partial<Quirks>;
}

/** IOEngine's constructor: opens nothing and never fails (A4). */
export function createEngine(options: EngineOptions): IOEngine {
  const { key, machine, hostPort, environment = {}, fidelity = 'mori' } = options;
  const nodeId = environment['MORI_NODE_ID'] || machine.nodeId || machine.hostname;
  const { hostname, pid } = machine;
  return {
    desc: { key, nodeId, hostname, host: options.host ?? '', port: options.port ?? 0, pid },
    environment,
    machine,
    host: hostPort,
    quirks: options.quirks === undefined ? quirksOf(fidelity) : { ...quirksOf(fidelity), ...options.quirks },
    nowMicros: 0,
    nextMemoryId: 0,
    nextTransferId: 0,
    memories: new SmallMap(),
    remoteEngines: new SmallMap(),
    rdma: null,
    xgmi: null,
    fabric: null,
    ended: null,
  };
}

/**
 * RegisterRemoteEngine: the last registration of a key wins. Upstream tells only the backends that exist, so backends come
 * first (A4, 0.15).
 */
export function registerRemoteEngine(engine: IOEngine, peer: EngineDesc): void {
  const before = engine.rdma?.remoteEngines.get(peer.key) ?? engine.remoteEngines.get(peer.key);
  engine.remoteEngines.set(peer.key, peer);
  for (const backend of backendsOf(engine)) backend.remoteEngines.set(peer.key, peer);
  const isAnother = before !== undefined && !sameEngineDesc(before, peer);
  if (isAnother && !engine.quirks.restartKeepsQueuePairs) forgetPeer(engine, peer.key);
}

/** Sound engine: another process answers to the key now, so nothing of the old one is of use. */
function forgetPeer(engine: IOEngine, key: string): void {
  const { rdma } = engine;
  rdma?.remotes.delete(key);
  for (const [name, session] of rdma?.cached ?? []) if (session.remoteKey === key) rdma!.cached.delete(name);
}

/** DeregisterRemoteEngine: removes the address only; queue pairs, keys and sessions live on and work (A4). */
export function deregisterRemoteEngine(engine: IOEngine, key: string): void {
  engine.remoteEngines.delete(key);
  for (const backend of backendsOf(engine)) backend.remoteEngines.delete(key);
}

function backendsOf({ rdma, xgmi, fabric }: IOEngine): (RdmaBackend | CopyBackend)[] {
  return [rdma, xgmi, fabric].filter((backend) => backend !== null);
}

export interface Memory {
  readonly address: bigint;
  readonly bytes: bigint;
  /** Index of a GPU; -1 by default, as for host memory. */
  readonly deviceId?: number;
  /** A MemoryLocationType. */
  readonly loc: number;
  /** Of host memory; -1, unknown, by default. */
  readonly numaNode?: number;
  /** What the GPU's runtime gives for its allocation: HANDLE_BYTES bytes each. */
  readonly ipcHandle?: Uint8Array;
  readonly fabricHandle?: Uint8Array;
  /** Bytes from the start of the GPU's allocation. */
  readonly offsetInAllocation?: bigint;
}

/** Where nothing lets a peer map the memory. Handles are read, never written. */
const NO_EXPORT = emptyMemoryDesc();

/**
 * RegisterMemory: no check at all, and never a failure; NICs hear of the memory when a session needs it (A4, A14).
 * @returns the descriptor to give to peers, by way of packMemoryDesc
 */
export function registerMemory(engine: IOEngine, memory: Memory): MemoryDesc {
  const { address, bytes, deviceId = -1, loc } = memory;
  const isGpu = loc === MemoryLocationType.GPU;
  const busId = isGpu ? (engine.machine.gpus[deviceId]?.busId ?? '') : '';
  const isHost = loc === MemoryLocationType.CPU && address !== 0n;
  const numaNode = isHost ? (memory.numaNode ?? -1) : -1;
  const desc: MemoryDesc = {
    ...NO_EXPORT,
    ...(isGpu && exportedParts(engine, memory)),
    engineKey: engine.desc.key,
    id: engine.nextMemoryId,
    deviceId,
    deviceBusId: normalizeBusId(busId),
    data: address,
    size: bytes,
    loc,
    numaNode,
  };
  engine.nextMemoryId = (engine.nextMemoryId + 1) % 2 ** 32;
  engine.memories.set(desc.id, desc);
  engine.rdma?.memories.set(desc.id, desc);
  return desc;
}

/** What lets a peer map GPU memory; only the backends that exist by now fill it in. */
function exportedParts(engine: IOEngine, memory: Memory): Partial<MemoryDesc> {
  const { ipcHandle, fabricHandle, offsetInAllocation = 0n } = memory;
  return {
    ...(engine.xgmi !== null && ipcHandle && { ipcHandle, ipcOffset: offsetInAllocation }),
    ...(engine.fabric !== null && fabricHandle && { fabricHandle, fabricOffset: offsetInAllocation }),
  };
}

/**
 * DeregisterMemory: drops the NICs' regions and every cached session with that id on either side, whatever its engine. It
 * goes by the id alone; sessions in a user's hand keep dead keys (A14).
 */
export function deregisterMemory(engine: IOEngine, memory: MemoryDesc): void {
  const known = engine.memories.get(memory.id);
  const isOurs = known !== undefined && sameMemoryDesc(known, memory);
  if (!isOurs && !engine.quirks.deregisterTrustsId) return;
  const { id } = memory;
  engine.memories.delete(id);
  const { rdma } = engine;
  if (rdma === null) return;
  rdma.memories.delete(id);
  rdma.dead.add(id);
  dropRegions(engine, rdma, id);
  for (const [name, { local, remote }] of rdma.cached) {
    if (local.id === id || remote.id === id) rdma.cached.delete(name);
  }
}

/** AllocateTransferUniqueId: a u32 counter, shared by all sessions; nobody checks ids (A4). */
export function allocateTransferId(engine: IOEngine): number {
  const id = engine.nextTransferId;
  engine.nextTransferId = (id + 1) % 2 ** 32;
  return id;
}

export interface TransferRequest {
  readonly operation: 'read' | 'write';
  readonly local: MemoryDesc;
  readonly remote: MemoryDesc;
  /** Offsets and sizes in bytes, relative to the two memories. */
  readonly entries: BatchEntries;
  /** What the target pops; never to be used twice towards one peer (0.2). */
  readonly transferId: number;
  /** Starts again at IN_PROGRESS, whatever it was. */
  readonly status: TransferStatus;
  /** Read or Write of one range, not a batch of one: no workers, and its chain is one work request long (A7). */
  readonly single?: boolean;
}

/**
 * Read, Write, and one entry of BatchRead or BatchWrite, over a session that is made if need be (A4, A7). All that goes
 * wrong is in the status: ERR_INVALID_ARGS for lengths, ranges and sizes, ERR_BAD_STATE where no backend takes the pair,
 * ERR_RDMA_OP for work requests and a full send queue, ERR_GPU_OP for copies; but a session that cannot be made is
 * upstream's exception: `threw` of the call has its text and the status stays INIT (0.5).
 * @returns the call, or null where there is none to follow: no backend, or a copy
 */
export function transfer(engine: IOEngine, request: TransferRequest): Call | null {
  const { local, remote, status, operation, entries } = request;
  const route = engine.ended === null ? routeOf(engine, local, remote) : null;
  if (route === null) {
    updateStatus(status, StatusCode.ERR_BAD_STATE, NO_BACKEND);
    return null;
  }
  if (route !== 'rdma') {
    copy(engine, route, request);
    return null;
  }
  const call = createCall(operation, request.transferId, status);
  if (entries.sizes.length === 0) {
    // No session is made and nobody is told (0.3).
    setStatusCode(status, StatusCode.IN_PROGRESS);
    updateStatus(status, StatusCode.SUCCESS, '');
    move(CALL_MOVES, call, 'Returned');
    return call;
  }
  runWithSession(engine, request, call);
  return call;
}

function copy(engine: IOEngine, route: CopyBackend['kind'], request: TransferRequest): void {
  const { local, remote, status, operation, entries, single = false } = request;
  const session = createCopySession(engine, route, local, remote);
  if (session !== null) startCopies(engine, session, operation, entries, status, single);
  else updateStatus(status, StatusCode.ERR_BAD_STATE, `${route.toUpperCase()}: Failed to create session`);
}

function runWithSession(engine: IOEngine, request: TransferRequest, call: Call): void {
  const { local, remote, entries, single = false } = request;
  const backend = engine.rdma!;
  const name = `${local.id} ${remote.id} ${remote.engineKey}`;
  const cached = backend.cached.get(name);
  if (cached !== undefined) {
    startCall(engine, backend, cached, call, entries, single);
    return;
  }
  createRdmaSession(engine, backend, local, remote, (outcome) => {
    if (outcome.kind === 'session') {
      backend.cached.set(name, outcome.session);
      startCall(engine, backend, outcome.session, call, entries, single);
      return;
    }
    move(CALL_MOVES, call, 'Returned');
    call.threw = outcome.kind === 'threw' ? outcome.text : NO_BACKEND;
    if (!engine.quirks.creationThrows) updateStatus(call.status, StatusCode.ERR_BAD_STATE, call.threw);
  });
}

/**
 * BatchRead and BatchWrite: one batch for each entry of the lists, in order, with the errors of `transfer`. Lists of
 * different lengths end the process (0.4); the first entry without a backend is the last one looked at (0.6).
 */
export function transferBatches(
  engine: IOEngine,
  operation: 'read' | 'write',
  lists: {
    readonly locals: readonly MemoryDesc[];
    readonly remotes: readonly MemoryDesc[];
    readonly batches: readonly BatchEntries[];
    readonly statuses: readonly TransferStatus[];
    readonly ids: readonly number[];
  },
): (Call | null)[] {
  const { locals, remotes, batches, statuses, ids } = lists;
  const counts = [locals, remotes, batches, statuses, ids].map((list) => list.length);
  if (counts.some((count) => count !== counts[0])) {
    const text = endOrThrow(
      engine,
      engine.quirks.assertsAbort,
      'abort',
      'the lists of a batch differ in length',
    );
    if (engine.ended === null)
      for (const status of statuses) updateStatus(status, StatusCode.ERR_INVALID_ARGS, text);
    return [];
  }
  const calls: (Call | null)[] = [];
  for (let index = 0; index < locals.length; index += 1) {
    const [local, remote, status] = [locals[index], remotes[index], statuses[index]];
    const hasRoute = routeOf(engine, local, remote) !== null;
    calls.push(
      transfer(engine, { operation, local, remote, status, entries: batches[index], transferId: ids[index] }),
    );
    if (!hasRoute && engine.quirks.batchStopsEarly) break;
  }
  return calls;
}

/**
 * CreateSession: a session for the user's own keeping, made afresh over queue pairs that all sessions of such a pair of
 * memories share (A6). `done` hears of it at once or when peers have answered: `none` where no backend takes the pair or
 * GPU memory cannot be mapped, `threw` with the text of upstream's exception.
 */
export function createSession(
  engine: IOEngine,
  local: MemoryDesc,
  remote: MemoryDesc,
  done: (outcome: CreationOutcome) => void,
): void {
  const route = engine.ended === null ? routeOf(engine, local, remote) : null;
  if (route === 'rdma') {
    createRdmaSession(engine, engine.rdma!, local, remote, done);
    return;
  }
  const session = route === null ? null : createCopySession(engine, route, local, remote);
  done(session === null ? { kind: 'none' } : { kind: 'session', session });
}

/**
 * Read, Write, BatchRead and BatchWrite of a session, with the errors of `transfer` (A7). An empty batch is a success of
 * which the target is told (0.3).
 */
export function sessionTransfer(
  engine: IOEngine,
  session: Session,
  request: Pick<TransferRequest, 'operation' | 'entries' | 'transferId' | 'status' | 'single'>,
): Call {
  const { operation, entries, status, single = false } = request;
  const call = createCall(operation, request.transferId, status);
  if (session.route === 'rdma' && engine.rdma !== null && engine.ended === null) {
    startCall(engine, engine.rdma, session, call, entries, single);
    return call;
  }
  move(CALL_MOVES, call, 'Returned');
  if (session.route !== 'rdma' && engine[session.route] !== null && engine.ended === null) {
    startCopies(engine, session, operation, entries, status, single);
  } else updateStatus(status, StatusCode.ERR_BAD_STATE, NO_BACKEND);
  return call;
}

/**
 * PopInboundTransferStatus: whether all of a transfer's notifications have come in from that peer, and then SUCCESS for
 * the status. Only RDMA ever knows, and nothing is taken away (A10, 0.2).
 */
export function popInboundTransferStatus(
  engine: IOEngine,
  remoteKey: string,
  transferId: number,
  status: TransferStatus,
): boolean {
  if (engine.rdma === null) return false;
  return popInbound(engine, remoteOf(engine.rdma, remoteKey), transferId, status);
}

/** The status's Code(), after one look at what only a look can end: copies between GPUs (A3, A16). */
export function codeOf(engine: IOEngine, status: TransferStatus): StatusCode {
  pollCopies(engine, status);
  return status.code;
}

/** Alive(): always true upstream, in every backend, whatever has broken (A4). */
export function alive(): boolean {
  return true;
}

/**
 * Takes down every queue pair towards a peer: what is on them ends with an error and moves nothing any more. For a caller
 * that has waited too long for a completion. The library has nothing of the kind: there it does nothing.
 */
export function resetQueuePairs(engine: IOEngine, remoteKey: string): void {
  const { rdma, quirks } = engine;
  if (rdma === null || engine.ended !== null || quirks.brokenForGood) return;
  for (const table of rdma.remotes.get(remoteKey)?.tables.values() ?? [])
    for (const endpoint of table) if (endpoint.health === 'up') startRepair(engine, rdma, endpoint);
}

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
import { createCall, expire, startCall } from './calls.ts';
import { completeWork } from './complete.ts';
import { frameAnswered, frameFailed, serveFrame } from './control-plane.ts';
import { createCopySession, pollCopies, startCopies } from './copies.ts';
import type { Host, Machine, WorkCompletion } from './host.ts';
import { popInbound } from './notify.ts';
import { dropRegions } from './regions.ts';
import { normalizeBusId, routeOf } from './routing.ts';
import { createRdmaSession, remoteOf } from './sessions.ts';
import type { Call, CopyBackend, CreationOutcome, IOEngine, RdmaBackend, Session } from './state.ts';
import { type Fidelity, type Surprises, surprisesOf } from './surprises.ts';
import { NO_BACKEND } from './texts.ts';

/** MoRI-IO's IOEngine and its session (mori-io.md A4, A6): functions over plain state. Nothing blocks; see Host. */

export interface EngineOptions {
  readonly key: string;
  readonly host?: string;
  readonly port?: number;
  readonly machine: Machine;
  readonly hostPort: Host;
  readonly environment?: Environment;
  readonly fidelity?: Fidelity;
  /** Single switches that differ from the fidelity's. */
  readonly surprises?: Partial<Surprises>;
}

/** Opens nothing and never fails. */
export function createEngine(options: EngineOptions): IOEngine {
  const { key, machine, hostPort, environment = {}, fidelity = 'mori' } = options;
  const nodeId = environment['MORI_NODE_ID'] || machine.nodeId || machine.hostname;
  const { hostname, pid } = machine;
  return {
    desc: { key, nodeId, hostname, host: options.host ?? '', port: options.port ?? 0, pid },
    environment,
    machine,
    host: hostPort,
    surprises: { ...surprisesOf(fidelity), ...options.surprises },
    nowMicros: 0,
    nextMemoryId: 0,
    nextTransferId: 0,
    memories: new Map(),
    remoteEngines: new Map(),
    rdma: null,
    xgmi: null,
    fabric: null,
    ended: null,
  };
}

/** The last registration of a key wins. Upstream tells only the backends that exist. */
export function registerRemoteEngine(engine: IOEngine, peer: EngineDesc): void {
  const before = engine.rdma?.remoteEngines.get(peer.key) ?? engine.remoteEngines.get(peer.key);
  engine.remoteEngines.set(peer.key, peer);
  for (const backend of backendsOf(engine)) backend.remoteEngines.set(peer.key, peer);
  const isAnother = before !== undefined && !sameEngineDesc(before, peer);
  if (isAnother && !engine.surprises.restartKeepsQueuePairs) forgetPeer(engine, peer.key);
}

/** Sound engine: another process answers to the key now, so nothing of the old one is of use. */
function forgetPeer(engine: IOEngine, key: string): void {
  const { rdma } = engine;
  rdma?.remotes.delete(key);
  for (const [name, session] of rdma?.cached ?? []) if (session.remoteKey === key) rdma!.cached.delete(name);
}

/** Removes the address only: queue pairs, keys and sessions live on and work. */
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
  readonly deviceId?: number;
  readonly loc: number;
  readonly numaNode?: number;
  /** What the GPU's runtime gives for its allocation: HANDLE_BYTES bytes each. */
  readonly ipcHandle?: Uint8Array;
  readonly fabricHandle?: Uint8Array;
  /** Bytes from the start of the GPU's allocation. */
  readonly offsetInAllocation?: bigint;
}

/** No check at all, and never a failure: NICs hear of the memory when a session needs it. */
export function registerMemory(engine: IOEngine, memory: Memory): MemoryDesc {
  const { address, bytes, deviceId = -1, loc } = memory;
  const isGpu = loc === MemoryLocationType.GPU;
  const busId = isGpu ? (engine.machine.gpus[deviceId]?.busId ?? '') : '';
  const isHost = loc === MemoryLocationType.CPU && address !== 0n;
  const numaNode = isHost ? (memory.numaNode ?? -1) : -1;
  const desc: MemoryDesc = {
    ...emptyMemoryDesc(),
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

/** Drops the NICs' regions and every cached session with that id on either side, whatever its engine (A14). */
export function deregisterMemory(engine: IOEngine, memory: MemoryDesc): void {
  const known = engine.memories.get(memory.id);
  const isOurs = known !== undefined && sameMemoryDesc(known, memory);
  if (!isOurs && !engine.surprises.deregisterTrustsId) return;
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

/** A u32 counter, shared by all sessions; nobody checks ids. */
export function allocateTransferId(engine: IOEngine): number {
  const id = engine.nextTransferId;
  engine.nextTransferId = (id + 1) % 2 ** 32;
  return id;
}

export interface TransferRequest {
  readonly operation: 'read' | 'write';
  readonly local: MemoryDesc;
  readonly remote: MemoryDesc;
  readonly entries: BatchEntries;
  readonly transferId: number;
  readonly status: TransferStatus;
  /** Read or Write of one range. */
  readonly single?: boolean;
}

/** An engine-level call; its session is made if need be, and null comes back where there is no call to wait for. */
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
    call.phase = 'returned';
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
    call.phase = 'returned';
    call.threw = outcome.kind === 'threw' ? outcome.text : NO_BACKEND;
    if (!engine.surprises.creationThrows) updateStatus(call.status, StatusCode.ERR_BAD_STATE, call.threw);
  });
}

/** BatchRead and BatchWrite: one batch for each entry, in order. `statuses` and `ids` stand beside them. */
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
      engine.surprises.assertsAbort,
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
    if (!hasRoute && engine.surprises.batchStopsEarly) break;
  }
  return calls;
}

/** A session for the user's own keeping; made afresh, over shared queue pairs. */
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

/** Read, Write, BatchRead and BatchWrite of a session. */
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
  call.phase = 'returned';
  if (session.route !== 'rdma' && engine[session.route] !== null && engine.ended === null) {
    startCopies(engine, session, operation, entries, status, single);
  } else updateStatus(status, StatusCode.ERR_BAD_STATE, NO_BACKEND);
  return call;
}

/** Whether all of a transfer's notifications have come in from that peer. Only RDMA ever knows. */
export function popInboundTransferStatus(
  engine: IOEngine,
  remoteKey: string,
  transferId: number,
  status: TransferStatus,
): boolean {
  if (engine.rdma === null) return false;
  return popInbound(engine, remoteOf(engine.rdma, remoteKey), transferId, status);
}

/** The status's code, after one look at what only a look can end. */
export function codeOf(engine: IOEngine, status: TransferStatus): StatusCode {
  pollCopies(engine, status);
  return status.code;
}

/** Always true upstream, in every backend, whatever has broken. */
export function alive(): boolean {
  return true;
}

/** Input: the time goes on; every call and every other input happens at the last time told. */
export function atTime(engine: IOEngine, atMicros: number): void {
  engine.nowMicros = atMicros;
}

/** Input: one entry of a completion queue. */
export function complete(engine: IOEngine, completion: WorkCompletion): void {
  if (engine.rdma !== null && engine.ended === null) completeWork(engine, engine.rdma, completion);
}

/** Input: a timer that the engine armed. */
export function timerFired(engine: IOEngine, timer: number, atMicros: number): void {
  engine.nowMicros = atMicros;
  const waiter = engine.rdma?.waiters.get(timer);
  if (waiter !== undefined) expire(engine, engine.rdma!, waiter);
}

/** Input: a peer's frame; the answer, or null for a connection that closes without one. */
export function serve(engine: IOEngine, frame: Uint8Array): Uint8Array | null {
  return engine.rdma === null || engine.ended !== null ? null : serveFrame(engine, engine.rdma, frame);
}

/** Input: the answer to a request of the engine's. */
export function answered(engine: IOEngine, exchange: number, frame: Uint8Array): void {
  if (engine.rdma !== null) frameAnswered(engine, engine.rdma, exchange, frame);
}

/** Input: no answer came. */
export function unanswered(engine: IOEngine, exchange: number, text: string): void {
  if (engine.rdma !== null) frameFailed(engine, engine.rdma, exchange, text);
}

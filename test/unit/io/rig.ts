import { BackendType, MemoryLocationType } from '../../../src/io/codes.ts';
import { encodeFrame, encodeMessage, MessageType } from '../../../src/io/control-frames.ts';
import { type EngineDesc, HANDLE_BYTES, type MemoryDesc } from '../../../src/io/descriptors.ts';
import { createBackend } from '../../../src/io/engine/backends.ts';
import {
  createEngine,
  createSession,
  type EngineOptions,
  registerMemory,
  registerRemoteEngine,
  sessionTransfer,
} from '../../../src/io/engine/engine.ts';
import type { GpuCopy, Host, Machine } from '../../../src/io/engine/host.ts';
import { answered, complete, serve, timerFired, unanswered } from '../../../src/io/engine/inputs.ts';
import type { Call, CreationOutcome, IOEngine, RdmaSession, Session } from '../../../src/io/engine/state.ts';
import { simulateMachine } from '../../../src/io/machine-sim.ts';
import { INSTANT } from '../../../src/io/profiles.ts';
import type { QueuePairSizes, RdmaBackendConfig } from '../../../src/io/rdma-config.ts';
import { RDMA_DEFAULTS } from '../../../src/io/rdma-config.ts';
import type { BatchEntries } from '../../../src/io/submission.ts';
import { createStatus, type TransferStatus } from '../../../src/io/transfer-status.ts';
import { landNext } from '../../../src/io/verbs-land.ts';
import { createVerbs, type VerbsSim, verbsOf } from '../../../src/io/verbs-sim.ts';

/** Engines over software verbs, with a control plane that answers at once: everything moves when a test says so. */

export interface Rig {
  readonly sim: VerbsSim;
  readonly engines: Map<string, IOEngine>;
  readonly buffers: Map<bigint, Uint8Array>;
  timers: { readonly engine: () => IOEngine; readonly timer: number; readonly at: number }[];
  readonly logs: string[];
  readonly ends: string[];
  readonly hooks: RigHooks;
  /** Completions land, but nobody is told. */
  hold: boolean;
  /** Peers do not answer. */
  deaf: boolean;
  nicCount: number;
  maxMessageBytes: number;
  gpuCount: number;
  portsInUse: boolean;
  nextPort: number;
  nextAddress: bigint;
  copies: RigCopy[];
}

/** A copy between GPUs; `landCopies` moves its bytes. */
export interface RigCopy extends GpuCopy {
  done: boolean;
}

export interface RigHooks {
  queuePairMade?: (qpn: number, nic: string, sizes: QueuePairSizes) => void;
  posted?: (qpn: number, chain: Parameters<Host['postSend']>[1], posted: number, errno: number) => void;
  notified?: (qpn: number, wrId: number, errno: number) => void;
  /** Runs of source offset, target offset, bytes that have just been copied. */
  moved?: (runs: Float64Array, count: number) => void;
  /** Before each post but the first: puts a failure in when its time has come. */
  armNow?: () => void;
  /** An errno for the next notification. */
  failNotification?: number;
}

export function createRig(hooks: RigHooks = {}): Rig {
  const buffers = new Map<bigint, Uint8Array>();
  const sim = createVerbs(INSTANT, (source, target, runs, count) => {
    const [from, to] = [buffers.get(source.address)!, buffers.get(target.address)!];
    for (let at = 0; at < count * 3; at += 3) {
      to.set(from.subarray(runs[at], runs[at] + runs[at + 2]), runs[at + 1]);
    }
    hooks.moved?.(runs, count);
    return true;
  });
  return {
    sim,
    engines: new Map(),
    buffers,
    timers: [],
    logs: [],
    ends: [],
    hooks,
    hold: false,
    deaf: false,
    nicCount: 1,
    maxMessageBytes: 2_147_483_648,
    gpuCount: 1,
    portsInUse: false,
    nextPort: 9000,
    nextAddress: 0x10_0000n,
    copies: [],
  };
}

function machineOf({ nicCount, gpuCount, maxMessageBytes }: Rig): Machine {
  const nics = Array.from({ length: nicCount }, (_, nic) => `fake${nic}`);
  return simulateMachine({ name: 'node', nics, gpus: gpuCount, peerAccess: true, maxMessageBytes });
}

export function addEngine(rig: Rig, key: string, options: Partial<EngineOptions> = {}): IOEngine {
  const id = `${key}#${rig.engines.size}`;
  const engine: IOEngine = createEngine({
    key,
    host: '127.0.0.1',
    machine: machineOf(rig),
    hostPort: hostOf(rig, id, () => engine),
    environment: { MORI_IO_SQ_BACKOFF_TIMEOUT_US: '200000' },
    ...options,
  });
  rig.engines.set(id, engine);
  return engine;
}

function hostOf(rig: Rig, id: string, self: () => IOEngine): Host {
  const nicName = (nic: number): string => `fake${nic}`;
  const verbs = verbsOf(rig.sim, id, nicName);
  return {
    ...verbs,
    createQueuePair: (nic, sizes) => {
      const handle = verbs.createQueuePair(nic, sizes);
      rig.hooks.queuePairMade?.(handle.qpn, nicName(nic), sizes);
      return handle;
    },
    postSend: (qpn, chain) => {
      const outcome = verbs.postSend(qpn, chain);
      rig.hooks.posted?.(qpn, chain, outcome.posted, outcome.errno);
      return outcome;
    },
    postNotification: (qpn, wrId, message) => {
      const told = rig.hooks.failNotification;
      if (told !== undefined) delete rig.hooks.failNotification;
      const errno = told ?? verbs.postNotification(qpn, wrId, message);
      rig.hooks.notified?.(qpn, wrId, errno);
      return errno;
    },
    listen: (_, port) => {
      if (rig.portsInUse) return null;
      rig.nextPort += 1;
      return port === 0 ? rig.nextPort : port;
    },
    request: (exchange, peer, message) => ask(rig, self(), exchange, peer, encodeMessage(message)),
    disarm: (timer) => {
      rig.timers = rig.timers.filter((other) => other.timer !== timer || other.engine() !== self());
    },
    arm: (timer, at) => {
      rig.timers.push({ engine: self, timer, at });
    },
    startCopy: (copy) => rig.copies.push({ done: false, ...copy }) - 1,
    copyDone: (event) => rig.copies[event].done,
    log: (level, text) => {
      rig.logs.push(`${level}: ${text}`);
    },
    processEnds: (how, text) => {
      rig.ends.push(`${how}: ${text}`);
    },
  };
}

function ask(rig: Rig, from: IOEngine, exchange: number, peer: EngineDesc, frame: Uint8Array): void {
  const answerer = [...rig.engines.values()].find(({ desc }) => desc.port === peer.port);
  const reply = answerer === undefined || rig.deaf ? null : serve(answerer, frame);
  if (reply === null) unanswered(from, exchange, `connect(${peer.host}:${peer.port}): Connection refused`);
  else answered(from, exchange, reply);
}

/** A frame of any type, for peers that misbehave. */
export function strangeFrame(body: Uint8Array): Uint8Array {
  return encodeFrame(MessageType.RegEndpoint, body);
}

/** Lands everything that can land and tells it, until nothing moves. `only` tells one engine alone. */
export function pump(rig: Rig, only?: IOEngine): void {
  for (let moved = true; moved; ) {
    moved = false;
    while (landNext(rig.sim)) moved = true;
    if (rig.hold) return;
    const due = rig.sim.completions.splice(0);
    for (const entry of due) {
      const engine = rig.engines.get(entry.processId)!;
      if (only !== undefined && engine !== only) rig.sim.completions.push(entry);
      else {
        moved = true;
        complete(engine, entry.completion);
      }
    }
    if (only !== undefined && due.every(({ processId }) => rig.engines.get(processId) !== only)) return;
  }
}

/** The GPUs finish all their copies; no status learns of it before somebody asks. */
export function landCopies(rig: Rig): void {
  for (const copy of rig.copies) {
    if (copy.done) continue;
    copy.done = true;
    const [local, remote] = [copy.local, copy.remote].map(({ data }) => rig.buffers.get(data)!);
    for (let at = 0; at < copy.runs.length; at += 3) {
      const [localAt, remoteAt, bytes] = copy.runs.slice(at, at + 3);
      if (copy.operation === 'write') remote.set(local.subarray(localAt, localAt + bytes), remoteAt);
      else local.set(remote.subarray(remoteAt, remoteAt + bytes), localAt);
    }
  }
}

/** Lets a call go on until upstream's caller would be back, timers included. */
export function finishCall(rig: Rig, call: Call | null, only?: IOEngine): void {
  pump(rig, only);
  while (call !== null && call.phase !== 'returned' && rig.timers.length > 0) {
    fireNext(rig);
    pump(rig, only);
  }
}

export function fireNext(rig: Rig): void {
  rig.timers.sort((left, right) => left.at - right.at);
  const { engine, timer, at } = rig.timers.shift()!;
  timerFired(engine(), timer, at);
}

export function addMemory(
  rig: Rig,
  engine: IOEngine,
  bytes: number,
  loc: number = MemoryLocationType.CPU,
  gpu = 0,
): MemoryDesc {
  const address = rig.nextAddress;
  rig.nextAddress += BigInt(bytes) + 0x10_0000n;
  rig.buffers.set(address, new Uint8Array(bytes));
  const isGpu = loc === MemoryLocationType.GPU;
  const ipcHandle = new Uint8Array(HANDLE_BYTES).fill(Number(address >> 20n) & 0xff || 1);
  const place = isGpu ? { deviceId: gpu, ipcHandle } : { deviceId: -1 };
  return registerMemory(engine, { address, bytes: BigInt(bytes), loc, ...place });
}

/** Bytes that differ from seed to seed and from place to place; none is 0. */
export function fillBytes(rig: Rig, memory: MemoryDesc, seed: number): void {
  const bytes = rig.buffers.get(memory.data)!;
  let mixed = seed + 1;
  for (let at = 0; at < bytes.length; at += 1) {
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0x5bd1e995) + at;
    bytes[at] = ((mixed >>> 8) % 255) + 1;
  }
}

export function copyOfBytes(rig: Rig, memory: MemoryDesc): Uint8Array {
  return rig.buffers.get(memory.data)!.slice();
}

/** Byte by byte; `toEqual` takes minutes for a MiB. */
export function sameBytes(rig: Rig, left: MemoryDesc, right: MemoryDesc): boolean {
  return Buffer.compare(rig.buffers.get(left.data)!, rig.buffers.get(right.data)!) === 0;
}

export interface Pair {
  readonly initiator: IOEngine;
  readonly target: IOEngine;
  readonly local: MemoryDesc;
  readonly remote: MemoryDesc;
  readonly session: RdmaSession;
}

export type PairOptions = Partial<EngineOptions> & {
  readonly bytes?: number;
  readonly loc?: number;
  readonly targetConfig?: Partial<RdmaBackendConfig>;
};

export function fullConfig(config: Partial<RdmaBackendConfig>): RdmaBackendConfig {
  return { ...RDMA_DEFAULTS, notifPerQp: 16, ...config };
}

/** Two engines that know each other, one buffer each, and a session. */
export function addPair(rig: Rig, config: Partial<RdmaBackendConfig> = {}, options: PairOptions = {}): Pair {
  const { bytes = 65_536, loc, targetConfig = config, ...engineOptions } = options;
  const initiator = addEngine(rig, 'initiator', engineOptions);
  const target = addEngine(rig, 'target', engineOptions);
  createBackend(initiator, BackendType.RDMA, fullConfig(config));
  createBackend(target, BackendType.RDMA, fullConfig(targetConfig));
  registerRemoteEngine(initiator, target.desc);
  registerRemoteEngine(target, initiator.desc);
  const local = addMemory(rig, initiator, bytes, loc);
  const remote = addMemory(rig, target, bytes, loc);
  rig.buffers.get(local.data)!.fill(0x5a, 0, Math.min(bytes, 4096));
  const { session } = makeSession(initiator, local, remote) as { session: RdmaSession };
  return { initiator, target, local, remote, session };
}

export function makeSession(engine: IOEngine, local: MemoryDesc, remote: MemoryDesc): CreationOutcome {
  let outcome: CreationOutcome = { kind: 'none' };
  createSession(engine, local, remote, (made) => {
    outcome = made;
  });
  return outcome;
}

export type Row = readonly [local: number, remote: number, bytes: number];

export function entriesOf(rows: readonly Row[]): BatchEntries {
  return {
    localOffsets: rows.map(([local]) => local),
    remoteOffsets: rows.map(([, remote]) => remote),
    sizes: rows.map(([, , bytes]) => bytes),
  };
}

/** Requests of 50 bytes that never join: local at 100 apart, remote at 1000. */
export function apart(count: number): Row[] {
  return Array.from({ length: count }, (_, index) => [index * 100, index * 1000, 50] as const);
}

export interface Send {
  readonly rows: readonly Row[];
  readonly operation?: 'read' | 'write';
  readonly id: number;
  readonly single?: boolean;
  readonly status?: TransferStatus;
}

/** Starts a call on a session; nothing lands yet. */
export function start(
  engine: IOEngine,
  session: Session,
  { rows, operation = 'write', id, single = false, status = createStatus() }: Send,
): Call {
  return sessionTransfer(engine, session, {
    operation,
    entries: entriesOf(rows),
    transferId: id,
    status,
    single,
  });
}

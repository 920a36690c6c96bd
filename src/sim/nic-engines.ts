import { believe, UsageError } from '../base/failure.ts';
import { SmallMap } from '../base/small-map.ts';
import type { ActorId } from '../base/topology.ts';
import { BackendType, MemoryLocationType } from '../io/codes.ts';
import {
  type MemoryDesc,
  packEngineDesc,
  packMemoryDesc,
  unpackEngineDesc,
  unpackMemoryDesc,
} from '../io/descriptors.ts';
import { createBackend } from '../io/engine/backends.ts';
import {
  createEngine,
  createSession,
  deregisterMemory,
  registerMemory,
  registerRemoteEngine,
} from '../io/engine/engine.ts';
import type { Host, Machine } from '../io/engine/host.ts';
import { answeredInProcess, serveInProcess, unanswered } from '../io/engine/inputs.ts';
import type { Fidelity } from '../io/engine/quirks.ts';
import type { IOEngine, Session } from '../io/engine/state.ts';
import { simulateMachine } from '../io/machine-sim.ts';
import type { VerbsPart } from '../io/verbs-sim.ts';
import type { Description } from '../wire/machine.ts';
import type { Setup } from './draws.ts';
import { hasEnded, isPosting, type OpenBatch } from './nic-batches.ts';

/** The MoRI-IO engine of one rank: its memory, and what it has lent to each peer. */
export interface RankEngine {
  readonly actor: ActorId;
  readonly engine: IOEngine;
  /** Its cache, as it names it in its own work requests. */
  readonly memory: MemoryDesc;
  /** Sessions towards peers; null where none could be made. */
  readonly sessions: SmallMap<ActorId, Session | null>;
  /** Its cache, registered once more for each peer, so that each has a key of its own. */
  readonly loans: SmallMap<ActorId, Loan>;
  /** Its engine's descriptor, once somebody has asked. */
  packed: Uint8Array | null;
  /** Batches whose end its connector has not been told, in the order of their posts. */
  readonly open: OpenBatch[];
  nextTransfer: number;
}

interface Loan {
  readonly memory: MemoryDesc;
  packed: Uint8Array | null;
}

export interface EngineSpec {
  readonly actor: ActorId;
  readonly name: string;
  readonly setup: Setup;
  readonly fidelity: Fidelity;
  readonly regionStart: number;
  readonly regionEnd: number;
  readonly verbs: VerbsPart;
  readonly arm: Host['arm'];
  readonly disarm: Host['disarm'];
  /** The engine that listens at a port, or null when nobody does. All hosts are one. */
  readonly engineAt: (port: number) => IOEngine | null;
}

/** Of actor 0. */
export const LISTEN_PORT = 4000;
/** Few, so that a target that is slow to look leaves a sender without a receive. */
const RECEIVES = 2;

/** The same machine under a name in every run: nobody changes one. */
const MACHINES = new Map<string, Machine>();
const MACHINES_MAX = 1_024;

function machineOf(name: string): Machine {
  let machine = MACHINES.get(name);
  if (machine === undefined) {
    machine = simulateMachine({ name, nics: [name], gpus: 1, peerAccess: false });
    if (MACHINES.size === MACHINES_MAX) MACHINES.clear();
    MACHINES.set(name, machine);
  }
  return machine;
}

export function createRankEngine(spec: EngineSpec): RankEngine {
  const { actor, name, setup, fidelity, regionStart, regionEnd } = spec;
  const engine: IOEngine = createEngine({
    key: name,
    host: '127.0.0.1',
    port: LISTEN_PORT + actor,
    machine: machineOf(name),
    hostPort: hostOf(spec, () => engine),
    fidelity,
  });
  const refusal = createBackend(engine, BackendType.RDMA, {
    qpPerTransfer: setup.queuePairs,
    // One chain stays on the queue pair that its poster chose; -1 makes one for each queue pair.
    postBatchSize: setup.spreads ? -1 : setup.sendQueueDepth,
    maxSendWr: setup.sendQueueDepth,
    enableNotification: setup.notifies,
    notifPerQp: RECEIVES,
  });
  believe(refusal === null, 'INV-NIC-2', `rank ${name} has no RDMA backend: ${refusal}`);
  const memory = register(engine, regionStart, regionEnd);
  return {
    actor,
    engine,
    memory,
    sessions: new SmallMap(),
    loans: new SmallMap(),
    packed: null,
    open: [],
    nextTransfer: 0,
  };
}

/** The control plane answers at once: what a handshake may meet is the connector's own messages' matter. */
function hostOf({ verbs, arm, disarm, engineAt }: EngineSpec, self: () => IOEngine): Host {
  const { createQueuePair, connectQueuePair, destroyQueuePair, postReceives } = verbs;
  const { postSend, postNotification, registerRegion, deregisterRegion } = verbs;
  return {
    createQueuePair,
    connectQueuePair,
    destroyQueuePair,
    postReceives,
    postSend,
    postNotification,
    registerRegion,
    deregisterRegion,
    listen: (_, port) => port,
    request: (exchange, peer, message) => {
      const other = engineAt(peer.port);
      const reply = other === null ? null : serveInProcess(other, message);
      if (reply === null)
        unanswered(self(), exchange, `connect(${peer.host}:${peer.port}): Connection refused`);
      else answeredInProcess(self(), exchange, reply);
    },
    arm,
    disarm,
    startCopy: () => 'no copies between GPUs here',
    copyDone: () => false,
    log: () => undefined,
    processEnds: (how, text) => believe(false, 'INV-NIC-2', `the engine ends the process: ${how}, ${text}`),
  };
}

function register(engine: IOEngine, start: number, end: number): MemoryDesc {
  return registerMemory(engine, {
    address: BigInt(start),
    bytes: BigInt(end - start),
    deviceId: 0,
    loc: MemoryLocationType.GPU,
  });
}

/** What is lent to a peer, whether or not it has asked yet. */
function loanTo(target: RankEngine, peer: ActorId): Loan {
  let loan = target.loans.get(peer);
  if (loan === undefined) {
    loan = lend(target);
    target.loans.set(peer, loan);
  }
  return loan;
}

function lend({ engine, memory: { data, size } }: RankEngine): Loan {
  return { memory: register(engine, Number(data), Number(data + size)), packed: null };
}

/** Takes back what was lent to a peer, and lends it under a new key. Who holds the old one is refused. */
export function lendAnew(target: RankEngine, peer: ActorId): void {
  deregisterMemory(target.engine, loanTo(target, peer).memory);
  target.loans.set(peer, lend(target));
}

/** What a rank's engine says of itself and of what it lends to a peer. */
export function describeTo(rank: RankEngine, peer: ActorId): Description {
  rank.packed ??= packEngineDesc(rank.engine.desc);
  const loan = loanTo(rank, peer);
  loan.packed ??= packMemoryDesc(loan.memory);
  return { engineDesc: rank.packed, memoryDesc: loan.packed };
}

/** Makes the session towards a peer from what it said of itself; there may be none. Gives the code of bytes that say nothing, or ''. */
export function openSession(initiator: RankEngine, peer: ActorId, said: Description): string {
  const { engine, sessions, memory } = initiator;
  try {
    const memoryDesc = unpackMemoryDesc(said.memoryDesc);
    registerRemoteEngine(engine, unpackEngineDesc(said.engineDesc));
    sessions.set(peer, null);
    createSession(engine, memory, memoryDesc, (outcome) => {
      if (outcome.kind === 'session') sessions.set(peer, outcome.session);
    });
    return '';
  } catch (error) {
    if (error instanceof UsageError) return error.code;
    throw error;
  }
}

/** Send-queue slots that are taken, over all queue pairs. */
export function slotsTaken({ engine }: RankEngine): number {
  let taken = 0;
  for (const { depth } of engine.rdma?.byQpn.values() ?? []) taken += depth;
  return taken;
}

/**
 * The batches of a rank that have ended and whose poster does not know; in order of their posts. One stays open as long as
 * chains of it wait for room: the library tells its first error before they are posted, and they are its own all the same.
 */
export function takeUntold({ open: batches }: RankEngine): readonly OpenBatch[] {
  let untold: OpenBatch[] | null = null;
  let kept = 0;
  for (const open of batches) {
    const ended = hasEnded(open);
    if (ended && !open.told) {
      untold ??= [];
      untold.push(open);
      open.told = true;
    }
    if (!ended || isPosting(open)) batches[kept++] = open;
  }
  batches.length = kept;
  return untold ?? NONE;
}

const NONE: readonly OpenBatch[] = [];

/** The batch of a transfer id; null when its end is told. */
export function openOf({ open }: RankEngine, transferId: number): OpenBatch | null {
  for (let at = open.length - 1; at >= 0; at--) if (open[at]!.transferId === transferId) return open[at]!;
  return null;
}

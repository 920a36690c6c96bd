import { believe } from '../../base/failure.ts';
import { BackendType, MemoryLocationType, StatusCode } from '../../io/codes.ts';
import { createBackend } from '../../io/engine/backends.ts';
import {
  createEngine,
  createSession,
  registerMemory,
  registerRemoteEngine,
  sessionTransfer,
} from '../../io/engine/engine.ts';
import type { Host } from '../../io/engine/host.ts';
import { answeredInProcess, complete, serveInProcess } from '../../io/engine/inputs.ts';
import type { IOEngine, Session } from '../../io/engine/state.ts';
import { simulateMachine } from '../../io/machine-sim.ts';
import type { NicTimes } from '../../io/profiles.ts';
import { RDMA_DEFAULTS, type RdmaBackendConfig } from '../../io/rdma-config.ts';
import type { BatchEntries } from '../../io/submission.ts';
import { createStatus } from '../../io/transfer-status.ts';
import { landNext } from '../../io/verbs-land.ts';
import { createVerbs, type Mover, type VerbsSim, verbsOf } from '../../io/verbs-sim.ts';

/** Two engines over simulated verbs, to be timed. */
export interface NicRig {
  readonly sim: VerbsSim;
  readonly engines: ReadonlyMap<string, IOEngine>;
  readonly session: Session;
  nextId: number;
}

const MACHINE = simulateMachine({ name: 'bench', nics: ['nic0'], gpus: 1, peerAccess: false });

const PORTS = { initiator: 9001, target: 9002 };

export function createNicRig(
  times: NicTimes,
  config: Partial<RdmaBackendConfig>,
  bytes: number,
  move: Mover = () => true,
): NicRig {
  const engines = new Map<string, IOEngine>();
  const sim = createVerbs(times, move);
  for (const [key, port] of Object.entries(PORTS)) {
    const engine = createEngine({ key, port, machine: MACHINE, hostPort: hostOf(sim, engines, key) });
    engines.set(key, engine);
    createBackend(engine, BackendType.RDMA, { ...RDMA_DEFAULTS, ...config });
  }
  const [initiator, target] = [...engines.values()];
  registerRemoteEngine(initiator, target.desc);
  registerRemoteEngine(target, initiator.desc);
  const [local, remote] = [initiator, target].map((engine, index) => {
    const address = BigInt(index + 1) << 40n;
    return registerMemory(engine, { address, bytes: BigInt(bytes), loc: MemoryLocationType.CPU });
  });
  let session: Session | undefined;
  createSession(initiator, local, remote, (outcome) => {
    if (outcome.kind === 'session') session = outcome.session;
  });
  believe(session !== undefined, 'INV-VERBS-1', 'no session to bench');
  return { sim, engines, session, nextId: 0 };
}

function hostOf(sim: VerbsSim, engines: ReadonlyMap<string, IOEngine>, key: string): Host {
  return {
    ...verbsOf(sim, key, (nic) => `${key}/${nic}`),
    listen: (_, port) => port,
    request: (exchange, peer, message) => {
      const reply = serveInProcess(engines.get(peer.key)!, message);
      answeredInProcess(engines.get(key)!, exchange, reply!);
    },
    arm: () => undefined,
    disarm: () => undefined,
    startCopy: () => 'no copies here',
    copyDone: () => false,
    log: () => undefined,
    processEnds: () => undefined,
  };
}

/** One batch from its call to its success. @returns nanoseconds of the simulated clock */
export function runBatch(rig: NicRig, operation: 'read' | 'write', entries: BatchEntries): number {
  const { sim, engines, session } = rig;
  const started = sim.nowNanos;
  const status = createStatus();
  const initiator = engines.get('initiator')!;
  sessionTransfer(initiator, session, { operation, entries, transferId: rig.nextId, status });
  rig.nextId += 1;
  let took = 0;
  while (landNext(sim)) {
    for (const { processId, completion } of sim.completions) complete(engines.get(processId)!, completion);
    sim.completions.length = 0;
    if (took === 0 && status.code === StatusCode.SUCCESS) took = sim.nowNanos - started;
  }
  believe(status.code === StatusCode.SUCCESS, 'INV-VERBS-1', `a bench batch ended with ${status.message}`);
  return took;
}

/** Requests with a byte between them, as upstream's script lays them, so that nothing merges. */
export function strided(batch: number, bytes: number): BatchEntries {
  const offsets = Array.from({ length: batch }, (_, index) => index * (bytes + 1));
  return { localOffsets: offsets, remoteOffsets: offsets, sizes: offsets.map(() => bytes) };
}

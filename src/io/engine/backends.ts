import { SmallMap } from '../../base/small-map.ts';
import { BackendType, StatusCode } from '../codes.ts';
import { type BackendConfig, copyConfig } from '../copy-config.ts';
import type { EngineDesc } from '../descriptors.ts';
import {
  autoXgmiEnabled,
  checkConfig,
  overrideConfig,
  RDMA_DEFAULTS,
  type RdmaBackendConfig,
  sendQueueBackoffMicros,
} from '../rdma-config.ts';
import { updateStatus } from '../transfer-status.ts';
import { XGMI_ONLY_PORT } from './routing.ts';
import type { CopyBackend, IOEngine, RdmaBackend } from './state.ts';

/** Making and removing backends (mori-io.md A4, A5). Each rule gives null, or the text of upstream's exception. */

/**
 * CreateBackend; a type that is there already is left as it is. Settings that are absent have their defaults, and the
 * environment wins over them. RDMA binds the control plane's port and writes it into the engine's descriptor.
 * @returns null, or the text of upstream's exception: a setting out of range, no active NIC, the reserved port 1. TCP and
 * Unknown end the process, as do a port in use and a machine without GPU (0.4, 0.20).
 */
export function createBackend(engine: IOEngine, type: number, config: BackendConfig = {}): string | null {
  if (engine.ended !== null) return engine.ended;
  if (type === BackendType.RDMA) return createRdma(engine, { ...RDMA_DEFAULTS, ...config });
  if (type === BackendType.XGMI) addCopyBackend(engine, 'xgmi', config);
  else if (type === BackendType.FABRIC) addCopyBackend(engine, 'fabric', config);
  else return endOrThrow(engine, engine.quirks.assertsAbort, 'abort', `backend type ${type} does not exist`);
  return null;
}

function addCopyBackend(engine: IOEngine, kind: CopyBackend['kind'], config: BackendConfig = {}): void {
  const remoteEngines = new SmallMap<string, EngineDesc>();
  if (!engine.quirks.lateBackendForgets)
    for (const [key, peer] of engine.remoteEngines) remoteEngines.set(key, peer);
  engine[kind] ??= {
    kind,
    config: copyConfig(config),
    hasCopyKernel: false,
    remoteEngines,
    events: new SmallMap(),
  };
}

/** The process ends, as upstream's does, or the caller hears of it. */
export function endOrThrow(engine: IOEngine, ends: boolean, how: 'abort' | 'exit 255', text: string): string {
  if (ends) {
    engine.ended = text;
    engine.host.processEnds(how, text);
  }
  return text;
}

function createRdma(engine: IOEngine, config: RdmaBackendConfig): string | null {
  if (engine.rdma !== null) {
    engine.host.log('warn', 'the RDMA backend is there already');
    return null;
  }
  if (engine.machine.nics.length === 0) return fallBackToXgmi(engine);
  if (engine.desc.port === XGMI_ONLY_PORT) {
    return 'IOEngineConfig.port=1 is reserved as XGMI-only fallback sentinel';
  }
  const refusal = buildRdma(engine, config);
  if (refusal !== null) return refusal;
  if (autoXgmiEnabled(engine.environment)) addCopyBackend(engine, 'xgmi');
  return null;
}

/** Without a NIC, XGMI may stand in if the environment allows it and a GPU is there. */
function fallBackToXgmi(engine: IOEngine): string | null {
  if (!autoXgmiEnabled(engine.environment)) {
    return 'no active RDMA device on this host; set MORI_DISABLE_AUTO_XGMI=0 to enable XGMI-only fallback';
  }
  if (engine.machine.gpus.length === 0) {
    return 'no active RDMA device and no usable GPU P2P; cannot create any backend';
  }
  engine.desc.port = XGMI_ONLY_PORT;
  addCopyBackend(engine, 'xgmi');
  return null;
}

function buildRdma(engine: IOEngine, wanted: RdmaBackendConfig): string | null {
  const { environment, machine, quirks, desc, host } = engine;
  const { config, warnings } = overrideConfig(wanted, environment);
  for (const warning of warnings) host.log('warn', warning);
  const complaint = checkConfig(config, !quirks.configUnchecked);
  if (complaint !== null) return complaint;
  const exits = quirks.environmentExits;
  if (machine.gpus.length === 0) return endOrThrow(engine, exits, 'exit 255', 'rocm-smi reports no GPU');
  const port = host.listen(desc.host, desc.port);
  if (port === null) return endOrThrow(engine, exits, 'exit 255', `port ${desc.port} is in use`);
  desc.port = port;
  engine.rdma = emptyRdma(config, sendQueueBackoffMicros(environment));
  if (quirks.lateBackendForgets) return null;
  for (const [id, memory] of engine.memories) engine.rdma.memories.set(id, memory);
  for (const [key, peer] of engine.remoteEngines) engine.rdma.remoteEngines.set(key, peer);
  return null;
}

function emptyRdma(config: RdmaBackendConfig, backoffMicros: number): RdmaBackend {
  return {
    config,
    backoffMicros,
    memories: new SmallMap(),
    remoteEngines: new SmallMap(),
    remotes: new SmallMap(),
    byQpn: new SmallMap(),
    regions: new SmallMap(),
    pool: new SmallMap(),
    cached: new SmallMap(),
    exchanges: new SmallMap(),
    queues: new SmallMap(),
    waiters: new SmallMap(),
    dead: new Set(),
    transfers: new Set(),
    nextEndpointId: 1,
    nextExchange: 1,
    nextWaiter: 1,
    nicTurn: 0,
  };
}

/** RemoveBackend: a type that is not there is no matter. What was under way stays so for ever; sessions dangle (A4). */
export function removeBackend(engine: IOEngine, type: number): void {
  if (type === BackendType.XGMI) engine.xgmi = null;
  if (type === BackendType.FABRIC) engine.fabric = null;
  if (type !== BackendType.RDMA || engine.rdma === null) return;
  const { transfers, waiters, byQpn } = engine.rdma;
  engine.rdma = null;
  if (engine.quirks.removeStrands) return;
  for (const qpn of byQpn.keys()) engine.host.destroyQueuePair(qpn);
  const statuses = [
    ...[...transfers].map(({ status }) => status),
    ...[...waiters.values()].map(({ call }) => call.status),
  ];
  for (const status of statuses) {
    if (status !== null) updateStatus(status, StatusCode.ERR_BAD_STATE, 'the backend was removed');
  }
}

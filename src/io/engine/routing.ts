import { MemoryLocationType } from '../codes.ts';
import { HANDLE_BYTES, type MemoryDesc } from '../descriptors.ts';
import type { Gpu } from './host.ts';
import type { CopyBackend, IOEngine } from './state.ts';

/**
 * Which backend takes a pair of memories (mori-io.md A4): XGMI, then FABRIC, then RDMA. Upstream caches the choice, but
 * drops the cache whenever an answer could change, so there is none here.
 */

export type Route = 'xgmi' | 'fabric' | 'rdma';

export const XGMI_ONLY_PORT = 1;

export function routeOf(engine: IOEngine, local: MemoryDesc, remote: MemoryDesc): Route | null {
  if (engine.xgmi !== null && xgmiCanHandle(engine, engine.xgmi, local, remote)) return 'xgmi';
  if (engine.fabric !== null && fabricCanHandle(engine, local, remote)) return 'fabric';
  return rdmaCanHandle(engine, remote) ? 'rdma' : null;
}

/** The remote engine is registered with the backend and is not one that speaks XGMI alone. Memory is not looked at. */
function rdmaCanHandle(engine: IOEngine, remote: MemoryDesc): boolean {
  const peer = engine.rdma?.remoteEngines.get(remote.engineKey);
  return peer !== undefined && peer.port !== XGMI_ONLY_PORT;
}

function xgmiCanHandle(engine: IOEngine, xgmi: CopyBackend, local: MemoryDesc, remote: MemoryDesc): boolean {
  if (!areBothGpu(local, remote) || remote.deviceBusId === '') return false;
  if (!isSameNode(engine, xgmi, remote.engineKey)) return false;
  const here = busIdOf(engine, local);
  const isVisible = engine.machine.gpus.some(({ busId }) => busId === remote.deviceBusId);
  if (!isVisible && isHandleEmpty(remote.ipcHandle)) return false;
  return here === remote.deviceBusId || engine.machine.peerAccess(here, remote.deviceBusId);
}

function busIdOf(engine: IOEngine, memory: MemoryDesc): string {
  return memory.deviceBusId || (gpuOf(engine, memory)?.busId ?? '');
}

function gpuOf(engine: IOEngine, memory: MemoryDesc): Gpu | undefined {
  return engine.machine.gpus[memory.deviceId];
}

/** By node id where both have one, else by host name. */
function isSameNode(engine: IOEngine, xgmi: CopyBackend, key: string): boolean {
  if (key === engine.desc.key) return true;
  const peer = xgmi.remoteEngines.get(key);
  if (peer === undefined) return false;
  const { nodeId, hostname } = engine.desc;
  return peer.nodeId !== '' && nodeId !== '' ? peer.nodeId === nodeId : peer.hostname === hostname;
}

function fabricCanHandle(engine: IOEngine, local: MemoryDesc, remote: MemoryDesc): boolean {
  if (!areBothGpu(local, remote) || isHandleEmpty(remote.fabricHandle)) return false;
  const isCapable = gpuOf(engine, local)?.fabricCapable ?? false;
  return isCapable && local.vpodId === remote.vpodId && local.vpodPpodId === remote.vpodPpodId;
}

function areBothGpu(local: MemoryDesc, remote: MemoryDesc): boolean {
  return local.loc === MemoryLocationType.GPU && remote.loc === MemoryLocationType.GPU;
}

export function isHandleEmpty(handle: Uint8Array): boolean {
  for (let index = 0; index < HANDLE_BYTES; index += 1) if (handle[index] !== 0) return false;
  return true;
}

/** As upstream writes bus ids. */
export function normalizeBusId(busId: string): string {
  return busId.toLowerCase();
}

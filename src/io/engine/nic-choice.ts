import { greatest } from '../../base/lists.ts';
import { MemoryLocationType } from '../codes.ts';
import type { TopoKey, TopoKeyPair } from '../control-frames.ts';
import type { RdmaBackendConfig } from '../rdma-config.ts';
import type { Gpu, NicPort } from './host.ts';
import type { Endpoint, IOEngine, RdmaBackend } from './state.ts';

/** Which NICs carry a session, and how many queue pairs each (mori-io.md A6). */

/** NICs a pair of memories asks for: a GPU on either side has one. */
export function requestedNics(pair: TopoKeyPair, config: RdmaBackendConfig): number {
  const { GPU } = MemoryLocationType;
  return pair.local.loc === GPU || pair.remote.loc === GPU ? 1 : Math.max(1, config.numNicsPerTransfer);
}

/** Queue pairs by NIC rank: an even split, the first ranks take what is left over. */
export function desiredQueuePairs(queuePairs: number, nics: number): number[] {
  const base = Math.floor(queuePairs / nics);
  return Array.from({ length: nics }, (_, rank) => base + (rank < queuePairs % nics ? 1 : 0));
}

/** One of each NIC in rank order, round after round; `nicOf` says where each stands. Indices. */
export function interleave(
  nicOf: readonly number[],
  nicsByRank: readonly number[],
  counts: readonly number[],
): number[] {
  const byRank = nicsByRank.map((nic, rank) =>
    nicOf.flatMap((other, index) => (other === nic ? [index] : [])).slice(0, counts[rank]),
  );
  const rounds = greatest(counts, 0);
  return Array.from({ length: rounds }, (_, round) =>
    byRank.flatMap((list) => list.slice(round, round + 1)),
  ).flat();
}

/** Worker threads are out of the question only with more than one NIC (A9). */
export function usesInlineOnly(numNics: number): boolean {
  return numNics > 1;
}

/** The responder takes the sender's rail if it is told to and has such a NIC. */
export function takesRail(enabled: boolean, rail: number, nicCount: number): boolean {
  return enabled && rail >= 0 && rail < nicCount;
}

/** NICs for host memory, best first: its own NUMA node, then the faster, then by name. */
export function rankForHost(nics: readonly NicPort[], numaNode: number): number[] {
  return nics
    .map((_, index) => index)
    .sort((left, right) => {
      const [a, b] = [nics[left], nics[right]];
      const near = Number(b.numaNode === numaNode) - Number(a.numaNode === numaNode);
      return near || b.gbps - a.gbps || (a.name < b.name ? -1 : 1);
    });
}

/** One NIC for a queue pair: a GPU's own, or for host memory the next in turn (one counter for both sides). */
export function takeNic(engine: IOEngine, backend: RdmaBackend, key: TopoKey): number {
  const { nics } = engine.machine;
  if (key.loc === MemoryLocationType.GPU) return gpuOf(engine, key)?.nics[0] ?? 0;
  const pinned = Number(engine.environment['MORI_IO_RDMA_NIC_IDX'] || Number.NaN);
  if (pinned >= 0 && pinned < nics.length) return pinned;
  const nic = backend.nicTurn % nics.length;
  backend.nicTurn += 1;
  return nic;
}

/** Several NICs for a memory, best first. */
export function searchNics(engine: IOEngine, key: TopoKey): readonly number[] {
  if (key.loc === MemoryLocationType.GPU) return gpuOf(engine, key)?.nics ?? [0];
  return rankForHost(engine.machine.nics, key.numaNode);
}

function gpuOf(engine: IOEngine, key: TopoKey): Gpu | undefined {
  return engine.machine.gpus[key.deviceId];
}

/** The endpoints a session uses, in order. */
export function chooseEndpoints(
  table: readonly Endpoint[],
  nics: readonly number[] | null,
  counts: readonly number[],
): Endpoint[] {
  if (nics === null) return table.slice(0, counts[0]);
  const nicOf = table.map((endpoint) => endpoint.nic);
  return interleave(nicOf, nics, counts).map((index) => table[index]);
}

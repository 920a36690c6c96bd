import type { Machine } from './engine/host.ts';
import type { Environment, NicLimits } from './rdma-config.ts';

/** What a usual NIC port can do. */
const LIMITS: NicLimits = {
  maxQpWr: 16_384,
  maxSge: 30,
  maxCqe: 65_536,
  maxMessageBytes: 2 ** 31,
  vendor: 'mellanox',
};

export interface SimulatedMachine {
  /** Node id; with `-host` the name of the host. */
  readonly name: string;
  /** Names of its NICs, one port each. */
  readonly nics: readonly string[];
  readonly gpus: number;
  readonly peerAccess: boolean;
  /** Bytes of one message; 2 GiB where nothing is said. */
  readonly maxMessageBytes?: number;
  /** MORI_ variables of the process that looks; MORI_RDMA_DEVICES leaves NICs out or puts them in order. */
  readonly environment?: Environment;
}

/** A machine as CreateBackend would find it: NICs of 400 Gb/s, and GPUs that have one of them each, in turn. */
export function simulateMachine(machine: SimulatedMachine): Machine {
  const { name, gpus, peerAccess, maxMessageBytes = LIMITS.maxMessageBytes } = machine;
  const nics = seenNics(machine.nics, machine.environment ?? {});
  const limits = { ...LIMITS, maxMessageBytes };
  return {
    nodeId: name,
    hostname: `${name}-host`,
    pid: 1,
    nics: nics.map((nic) => ({ name: nic, gbps: 400, numaNode: 0, limits })),
    gpus: Array.from({ length: gpus }, (_, gpu) => ({
      busId: `0000:${(gpu + 1).toString(16).padStart(2, '0')}:00.0`,
      numaNode: 0,
      nics: [gpu % Math.max(nics.length, 1)],
      fabricCapable: false,
    })),
    peerAccess: () => peerAccess,
  };
}

/** NICs by MORI_RDMA_DEVICES (mori-io.md A5): a list that chooses and orders, or with ^ one that leaves out. */
function seenNics(nics: readonly string[], environment: Environment): readonly string[] {
  const text = environment['MORI_RDMA_DEVICES'] ?? '';
  if (text === '') return nics;
  const names = text.replace('^', '').split(',');
  if (text.startsWith('^')) return nics.filter((name) => !names.includes(name));
  return names.flatMap((wanted) => nics.filter((name) => name === wanted));
}

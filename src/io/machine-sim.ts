import type { Machine } from './engine/host.ts';
import type { NicLimits } from './rdma-config.ts';

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
}

/** A machine as CreateBackend would find it: NICs of 400 Gb/s, and GPUs that have one of them each, in turn. */
export function simulateMachine(machine: SimulatedMachine): Machine {
  const { name, nics, gpus, peerAccess, maxMessageBytes = LIMITS.maxMessageBytes } = machine;
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

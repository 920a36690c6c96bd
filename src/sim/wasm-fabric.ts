import { UsageError } from '../base/failure.ts';
import { StatusCode } from '../io/codes.ts';
import { type Completion, connectRegions, type Fabric, type MemoryRegion } from '../io/fabric.ts';
import { createStatus, setStatusCode, updateStatus } from '../io/transfer-status.ts';
import { ALL_FINE } from '../kv/kernels.ts';
import type { WorldMemory } from './memory.ts';

/** The fabric of a simulated run: bytes move at once, by the copy kernel, between regions of the one memory. */
export function createWasmFabric(memory: WorldMemory): Fabric {
  const live = new Set<number>();
  let nextKey = 1;
  let completions: Completion[] = [];

  const isLive = (region: MemoryRegion): boolean => live.has(region.key);

  const copy = (
    source: MemoryRegion,
    target: MemoryRegion,
    runs: readonly number[],
    isWrite: boolean,
  ): boolean => {
    const base = memory.runsAddress >>> 2;
    // A word would cut a longer number to something that fits.
    for (const value of runs) if (value >>> 0 !== value) return false;
    // The kernel wants (source, target, bytes); the runs say (local, remote, bytes).
    for (let i = 0; i < runs.length; i += 3) {
      memory.words[base + i] = runs[isWrite ? i : i + 1]!;
      memory.words[base + i + 1] = runs[isWrite ? i + 1 : i]!;
      memory.words[base + i + 2] = runs[i + 2]!;
    }
    return (
      memory.kernels.copyRuns(
        memory.runsAddress,
        runs.length / 3,
        source.start,
        source.end,
        target.start,
        target.end,
      ) === ALL_FINE
    );
  };

  return {
    name: 'wasm',
    registerMemory(owner, start, end) {
      if (!(start >= 0 && start <= end && end <= memory.bytes.length)) {
        throw new UsageError(
          'FABRIC-REGION',
          `region [${start}, ${end}) of actor ${owner} does not lie in the memory of ${memory.bytes.length} bytes`,
        );
      }
      live.add(nextKey);
      return { owner, start, end, key: nextKey++ };
    },
    deregisterMemory: (region) => {
      live.delete(region.key);
    },
    connect: connectRegions,
    post({ initiator, target }, operation, runs, id) {
      const status = createStatus();
      setStatusCode(status, StatusCode.IN_PROGRESS);
      const isWrite = operation === 'write';
      if (runs.length > memory.runsMax * 3)
        updateStatus(
          status,
          StatusCode.ERR_INVALID_ARGS,
          `a batch of ${runs.length / 3} work requests is longer than ${memory.runsMax}`,
        );
      else if (!isLive(initiator) || !isLive(target))
        updateStatus(status, StatusCode.ERR_RDMA_OP, 'remote access error');
      else if (copy(isWrite ? initiator : target, isWrite ? target : initiator, runs, isWrite))
        updateStatus(status, StatusCode.SUCCESS, 'success');
      else updateStatus(status, StatusCode.ERR_INVALID_ARGS, 'length out of range');
      completions.push({ id, code: status.code, message: status.message });
    },
    poll() {
      const ended = completions;
      completions = [];
      return ended;
    },
  };
}

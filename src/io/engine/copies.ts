import { StatusCode } from '../codes.ts';
import type { MemoryDesc } from '../descriptors.ts';
import { type BatchEntries, isInside } from '../submission.ts';
import { setStatusCode, type TransferStatus, updateStatus } from '../transfer-status.ts';
import type { CopyBackend, IOEngine } from './state.ts';

/** XGMI and FABRIC in brief (mori-io.md A16): copies between GPUs, which only a poll of the status sees end. */

/** FABRIC without its kernel takes less than this. */
const FABRIC_BYTES_MAX = 4 * 1024 * 1024;

export function startCopies(
  engine: IOEngine,
  backend: CopyBackend,
  operation: 'read' | 'write',
  local: MemoryDesc,
  remote: MemoryDesc,
  entries: BatchEntries,
  status: TransferStatus,
): void {
  const refusal = refusalOf(engine, backend, local, remote, entries);
  if (refusal !== null) {
    updateStatus(status, refusal.code, refusal.message);
    return;
  }
  const runs = mergeBothSides(entries);
  if (runs.length === 0 && entries.sizes.length !== 1) {
    updateStatus(status, StatusCode.SUCCESS, '');
    return;
  }
  const event = engine.host.startCopy({
    operation,
    localDevice: local.deviceId,
    remoteDevice: remote.deviceId,
    runs,
  });
  if (typeof event === 'string') updateStatus(status, StatusCode.ERR_GPU_OP, event);
  else {
    setStatusCode(status, StatusCode.IN_PROGRESS);
    backend.events.set(status, event);
  }
}

interface Refusal {
  readonly code: StatusCode;
  readonly message: string;
}

/** Upstream looks at no range (0.14). */
function refusalOf(
  engine: IOEngine,
  backend: CopyBackend,
  local: MemoryDesc,
  remote: MemoryDesc,
  entries: BatchEntries,
): Refusal | null {
  const { localOffsets, remoteOffsets, sizes } = entries;
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  if (backend.kind === 'fabric' && !backend.hasCopyKernel && bytes >= FABRIC_BYTES_MAX) {
    return { code: StatusCode.ERR_GPU_OP, message: 'FABRIC without its copy kernel takes less than 4 MiB' };
  }
  if (engine.surprises.copiesUnchecked) return null;
  const isFine = sizes.every(
    (size, index) =>
      isInside(localOffsets[index], size, Number(local.size), false) &&
      isInside(remoteOffsets[index], size, Number(remote.size), false),
  );
  return isFine ? null : { code: StatusCode.ERR_INVALID_ARGS, message: 'length out of range' };
}

/** In order of the remote offset; joined only where both sides continue; nothing of size 0. Triples. */
export function mergeBothSides({ localOffsets, remoteOffsets, sizes }: BatchEntries): number[] {
  const order = sizes.map((_, index) => index).filter((index) => sizes[index] > 0);
  order.sort((left, right) => remoteOffsets[left] - remoteOffsets[right]);
  const runs: number[] = [];
  for (const index of order) {
    const last = runs.length - 3;
    const joins =
      last >= 0 &&
      runs[last] + runs[last + 2] === localOffsets[index] &&
      runs[last + 1] + runs[last + 2] === remoteOffsets[index];
    if (joins) runs[last + 2] += sizes[index];
    else runs.push(localOffsets[index], remoteOffsets[index], sizes[index]);
  }
  return runs;
}

/** What `Code()` does first on a status that is under way: asks for the event. */
export function pollCopies(engine: IOEngine, status: TransferStatus): void {
  if (status.code !== StatusCode.IN_PROGRESS) return;
  for (const backend of [engine.xgmi, engine.fabric]) {
    const event = backend?.events.get(status);
    if (event === undefined || !engine.host.copyDone(event)) continue;
    backend!.events.delete(status);
    setStatusCode(status, StatusCode.SUCCESS);
  }
}

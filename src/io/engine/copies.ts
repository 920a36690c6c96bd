import { StatusCode } from '../codes.ts';
import type { MemoryDesc } from '../descriptors.ts';
import { type BatchEntries, isInside, orderByRemote } from '../submission.ts';
import { setStatusCode, type TransferStatus, updateStatus } from '../transfer-status.ts';
import { endOrThrow } from './backends.ts';
import { isHandleEmpty } from './routing.ts';
import type { CopyBackend, CopySession, IOEngine } from './state.ts';
import { copyFailed } from './texts.ts';

/** XGMI and FABRIC in brief (mori-io.md A16): copies between GPUs, which only a poll of the status sees end. */

/** FABRIC without its kernel takes less than this in one copy, and says of more what HIP does. */
const FABRIC_BYTES_MAX = 4 * 1024 * 1024;
const NOT_SUPPORTED = 'operation not supported';

/** A session over copies, or null where the remote memory cannot be mapped. */
export function createCopySession(
  engine: IOEngine,
  route: CopyBackend['kind'],
  local: MemoryDesc,
  remote: MemoryDesc,
): CopySession | null {
  return isMappable(engine, engine[route]!, remote) ? { route, local, remote } : null;
}

/** Own memory as it is; a peer's by its handle; without one, XGMI still reaches into its own process. */
function isMappable({ desc }: IOEngine, { kind, remoteEngines }: CopyBackend, remote: MemoryDesc): boolean {
  if (remote.engineKey === desc.key) return true;
  if (kind === 'fabric') return !isHandleEmpty(remote.fabricHandle);
  return !isHandleEmpty(remote.ipcHandle) || remoteEngines.get(remote.engineKey)?.pid === desc.pid;
}

/** One call over a session; `single` is Read or Write of one range, which is copied even when it is empty. */
export function startCopies(
  engine: IOEngine,
  session: CopySession,
  operation: 'read' | 'write',
  entries: BatchEntries,
  status: TransferStatus,
  single: boolean,
): void {
  const backend = engine[session.route]!;
  if (!areAligned(engine, entries, status)) return;
  if (!isInRange(engine, session, entries)) {
    updateStatus(status, StatusCode.ERR_INVALID_ARGS, 'length out of range');
    return;
  }
  const runs = single ? runsInOrder(entries) : mergeBothSides(entries, engine.quirks.tiesShuffle);
  if (runs.length === 0) {
    setStatusCode(status, StatusCode.SUCCESS);
    return;
  }
  const refused = firstRefused(backend, runs);
  // What stands before a refused copy has been launched, though nobody will ask for its end.
  const launched = refused < 0 ? runs : runs.slice(0, refused);
  const { local, remote } = session;
  const event =
    launched.length === 0 ? -1 : engine.host.startCopy({ operation, local, remote, runs: launched });
  if (typeof event === 'number' && refused < 0) {
    setStatusCode(status, StatusCode.IN_PROGRESS);
    backend.events.set(status, event);
    return;
  }
  const sameDevice = local.deviceId === remote.deviceId;
  const why = typeof event === 'string' ? event : NOT_SUPPORTED;
  updateStatus(status, StatusCode.ERR_GPU_OP, copyFailed(session.route, single, sameDevice, why));
}

/** Lists of different lengths are an assert upstream, on a session too (A15). */
function areAligned(engine: IOEngine, entries: BatchEntries, status: TransferStatus): boolean {
  const { localOffsets, remoteOffsets, sizes } = entries;
  if (localOffsets.length === sizes.length && remoteOffsets.length === sizes.length) return true;
  const text = 'the lists of a batch differ in length';
  endOrThrow(engine, engine.quirks.assertsAbort, 'abort', text);
  if (engine.ended === null) updateStatus(status, StatusCode.ERR_INVALID_ARGS, text);
  return false;
}

/** Upstream looks at no range (0.14). */
function isInRange(engine: IOEngine, { local, remote }: CopySession, entries: BatchEntries): boolean {
  if (engine.quirks.copiesUnchecked) return true;
  const { localOffsets, remoteOffsets, sizes } = entries;
  return sizes.every(
    (size, index) =>
      isInside(localOffsets[index], size, Number(local.size), false) &&
      isInside(remoteOffsets[index], size, Number(remote.size), false),
  );
}

/** Where the first copy that FABRIC refuses stands in the list of triples, or -1. */
function firstRefused(backend: CopyBackend, runs: readonly number[]): number {
  if (backend.kind !== 'fabric' || backend.hasCopyKernel) return -1;
  for (let at = 0; at < runs.length; at += 3) if (runs[at + 2] >= FABRIC_BYTES_MAX) return at;
  return -1;
}

function runsInOrder({ localOffsets, remoteOffsets, sizes }: BatchEntries): number[] {
  return sizes.flatMap((size, index) => [localOffsets[index], remoteOffsets[index], size]);
}

/** In order of the remote offset; joined only where both sides continue; nothing of size 0. Triples. */
export function mergeBothSides(
  { localOffsets, remoteOffsets, sizes }: BatchEntries,
  tiesShuffle = false,
): number[] {
  const order = orderByRemote(remoteOffsets, tiesShuffle) ?? sizes.map((_, index) => index);
  const runs: number[] = [];
  for (const index of order) {
    if (sizes[index] === 0) continue;
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

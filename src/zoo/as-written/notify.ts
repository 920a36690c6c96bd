import type { ActorId, RequestId, TransferId } from '../../base/topology.ts';
import { decodeUtf8 } from '../../base/utf8.ts';
import { refuse } from '../../wire/notes.ts';
import { assigned } from './faults.ts';
import { log, nameOf, type WorkerState } from './state.ts';
import { type Routine, raise } from './threads.ts';
import { type Notification, type RemoteBlocks, readMap, readText } from './wire.ts';

/** The notify listener: block lists and releases for P, completions for D. */

const THREAD_NAME = 'notify listener';

export function* notifyListener(state: WorkerState): Routine {
  for (;;) {
    const received = state.notifications.shift();
    if (received === undefined) yield state.notified;
    else handle(state, received.from, readNotification(state, received.bytes));
  }
}

/** F1: the message of the error path names the text, which only a good decode has set. */
function readNotification(state: WorkerState, bytes: Uint8Array): Notification {
  const map = readMap(bytes);
  if (map !== null) return map;
  const text = decodeUtf8(bytes);
  if (text !== undefined) return readText(text);
  log(state, 'bytes-are-no-text', { thread: THREAD_NAME, bytes: bytes.length });
  if (!state.faults.has('F1')) return { kind: 'unknown', cause: `${bytes.length} bytes are not UTF-8` };
  const shown = assigned<string>(
    text,
    THREAD_NAME,
    'in the error path for bytes that are not UTF-8, the decoded text',
  );
  return { kind: 'unknown', cause: shown };
}

function handle(state: WorkerState, from: ActorId, message: Notification): void {
  if (message.kind === 'remoteBlocks') onRemoteBlocks(state, message);
  else if (message.kind === 'completion') onCompletion(state, message.transfer, from);
  else if (message.kind === 'release') markSent(state, message.request);
  else refuse(state.emit, 'unknown-message', { cause: message.cause });
}

/** WRITE, P: tasks of the transfer need not be put off any longer. */
function onRemoteBlocks(state: WorkerState, { transfer, blocks, decodeRank }: RemoteBlocks): void {
  state.remoteBlocks.set(transfer, { blocks, decodeRank });
  raise(state.workArrived, state.emit);
}

/** WRITE, D: one rank of P has written its share. It may be quicker than our own scheduler's word of the transfer. */
function onCompletion(state: WorkerState, transfer: TransferId, from: ActorId): void {
  const completedBy = state.completedBy.get(transfer);
  if (completedBy === undefined) state.completedBy.set(transfer, [from]);
  else completedBy.push(from);
  endIfComplete(state, transfer);
}

export function endIfComplete(state: WorkerState, transfer: TransferId): void {
  const awaited = state.awaited.get(transfer);
  const completedBy = state.completedBy.get(transfer) ?? [];
  if (awaited === undefined || completedBy.length < awaited.sources.length) return;
  log(state, 'transfer-complete', { transfer, ranks: [...completedBy] });
  state.awaited.delete(transfer);
  state.completedBy.delete(transfer);
  state.received.push(awaited.request);
}

/** P: nothing reads the request's blocks any more. */
export function markSent(state: WorkerState, request: RequestId): void {
  state.sent.push(request);
}

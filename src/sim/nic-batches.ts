import type { ActorId } from '../base/topology.ts';
import { failed, StatusCode } from '../io/codes.ts';
import type { Call } from '../io/engine/state.ts';
import type { BatchEntries } from '../io/submission.ts';
import { createStatus, type TransferStatus } from '../io/transfer-status.ts';
import type { PostedBatch } from '../wire/machine.ts';

/** A batch from its post until its poster has been told its end and nothing more of it will be posted. */
export interface OpenBatch {
  readonly initiator: ActorId;
  /** The engine's number for it. */
  readonly transferId: number;
  readonly batch: PostedBatch;
  readonly status: TransferStatus;
  /** The engine's call; null where there was no session to call. */
  call: Call | null;
  /** Its end is known to its poster, or on the way to it. */
  told: boolean;
  /** What the judges gave for its post. */
  passed: number;
}

export function openBatch(initiator: ActorId, batch: PostedBatch, transferId: number): OpenBatch {
  return { initiator, transferId, batch, status: createStatus(), call: null, told: false, passed: -1 };
}

/** Whether its status has come to its end. */
export function hasEnded({ status }: OpenBatch): boolean {
  return status.code === StatusCode.SUCCESS || failed(status.code);
}

/** Whether the engine may still post more of it: it has no room for the rest yet. */
export function isPosting({ call }: OpenBatch): boolean {
  return call?.phase === 'posting';
}

/** Triples of local offset, remote offset and bytes, as the engine takes them. */
export function entriesOf(runs: readonly number[]): BatchEntries {
  const count = runs.length / 3;
  const localOffsets = new Array<number>(count);
  const remoteOffsets = new Array<number>(count);
  const sizes = new Array<number>(count);
  for (let at = 0; at < count; at++) {
    localOffsets[at] = runs[at * 3]!;
    remoteOffsets[at] = runs[at * 3 + 1]!;
    sizes[at] = runs[at * 3 + 2]!;
  }
  return { localOffsets, remoteOffsets, sizes };
}

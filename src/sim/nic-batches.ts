import type { ActorId } from '../base/topology.ts';
import { failed, StatusCode } from '../io/codes.ts';
import type { Call } from '../io/engine/state.ts';
import { createStatus, type TransferStatus } from '../io/transfer-status.ts';
import type { PostedBatch } from '../wire/machine.ts';
import type { Core } from './core.ts';

/** A batch from its post until its poster knows its end and nothing of it can touch memory. */
export interface OpenBatch {
  readonly initiator: ActorId;
  readonly batch: PostedBatch;
  readonly status: TransferStatus;
  /** The engine's call; null where there was no session to call. */
  call: Call | null;
  /** Chains on the wire. */
  moving: number;
  /** The judge counts the blocks at the target, and those at the initiator, as in danger. */
  endangersRemote: boolean;
  endangersLocal: boolean;
  /** The poster has seen its end. */
  seen: boolean;
}

export function openBatch(initiator: ActorId, batch: PostedBatch): OpenBatch {
  return {
    initiator,
    batch,
    status: createStatus(),
    call: null,
    moving: 0,
    endangersRemote: false,
    endangersLocal: false,
    seen: false,
  };
}

/** A chain of it is on the wire; `isFutile` when it cannot land, and so endangers no block. */
export function chainPosted(core: Core, open: OpenBatch, isFutile: boolean): void {
  open.moving++;
  if (isFutile || open.endangersLocal) return;
  open.endangersRemote = open.endangersLocal = true;
  core.judge.posted(open.initiator, open.batch);
}

export function chainEnded(core: Core, open: OpenBatch): void {
  open.moving--;
  settle(core, open);
}

/** It can touch nothing at the target from here on. */
export function targetIsSafe(core: Core, open: OpenBatch): void {
  if (!open.endangersRemote) return;
  open.endangersRemote = false;
  core.judge.remoteDone(open.batch);
}

/** The poster sees the end. */
export function endSeen(core: Core, open: OpenBatch): void {
  open.seen = true;
  settle(core, open);
}

function settle(core: Core, open: OpenBatch): void {
  if (open.moving > 0 || open.call?.phase === 'posting') return;
  targetIsSafe(core, open);
  if (!open.endangersLocal || !(open.seen || core.isDead(open.initiator))) return;
  open.endangersLocal = false;
  core.judge.localDone(open.initiator, open.batch);
}

/** Whether its status has come to its end. */
export function hasEnded({ status }: OpenBatch): boolean {
  return status.code === StatusCode.SUCCESS || failed(status.code);
}

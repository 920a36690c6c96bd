import type { TransferId } from '../../base/topology.ts';
import type { Emit } from '../../wire/machine.ts';
import { refuse } from '../../wire/notes.ts';
import { LIMITS } from './limits.ts';
import type { Early, WorkerState } from './state.ts';
import { arm, TIMER } from './timers.ts';

/** Grants and claims that came before this rank heard of their request: kept, bounded in number and time. */

/** The table entry for a transfer this rank has not heard of; undefined when the table is full. */
export function holdEarly(
  state: WorkerState,
  transfer: TransferId,
  at: number,
  emit: Emit,
): Early | undefined {
  let early = state.early.get(transfer);
  if (early === undefined) {
    if (state.early.size >= LIMITS.earlyMax) {
      refuse(emit, 'too many messages for requests not heard of');
      return undefined;
    }
    early = { grants: [], claims: [], revoked: [] };
    state.early.set(transfer, early);
    arm(emit, TIMER.early, transfer, at + LIMITS.earlyMicros);
  }
  return early;
}

export function takeEarly(state: WorkerState, transfer: TransferId, emit: Emit): Early | undefined {
  const early = state.early.get(transfer);
  if (early === undefined) return undefined;
  emit({ kind: 'stop', timer: TIMER.early, object: transfer });
  state.early.delete(transfer);
  return early;
}

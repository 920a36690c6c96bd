import type { Emit, Goal } from './machine.ts';

/** Counts one more time that a campaign reached something. */
export function goal(emit: Emit, name: Goal): void {
  emit({ kind: 'note', note: { kind: 'goal', name } });
}

/** Says that a message or completion was turned away, and why. */
export function refuse(emit: Emit, cause: string): void {
  emit({ kind: 'note', note: { kind: 'refused', cause } });
}

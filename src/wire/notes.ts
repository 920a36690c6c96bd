import type { Emit } from './machine.ts';

/** Says that a message or completion was turned away, and why. */
export function refuse(emit: Emit, cause: string): void {
  emit({ kind: 'note', note: { kind: 'refused', cause } });
}

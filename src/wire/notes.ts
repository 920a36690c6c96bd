import type { Emit, Fields } from './machine.ts';

const NOTHING: Fields = {};

/** Says that a message or completion was turned away: why, as a name, and what it was about. */
export function refuse(emit: Emit, reason: string, fields: Fields = NOTHING): void {
  emit({ kind: 'note', note: { kind: 'refused', reason, fields } });
}

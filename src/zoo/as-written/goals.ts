import type { Emit } from '../../wire/machine.ts';

/** What a campaign against this connector hopes to reach, besides what the engines around it do. */
export const AS_WRITTEN_GOALS = ['handshake-shared', 'empty-save-step', 'write-deferred'] as const;

export function goal(emit: Emit, name: (typeof AS_WRITTEN_GOALS)[number]): void {
  emit({ kind: 'note', note: { kind: 'goal', name } });
}

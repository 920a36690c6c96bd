import type { RunRecord } from '../record/record.ts';

/** What a record has to name things by. */
export type Names = Pick<RunRecord, 'actorNames' | 'messageWords'>;

export function nameOf({ actorNames }: Names, actor: number): string {
  return actorNames[actor] ?? 'a stranger';
}

/**
 * The life of one kind of record as data: its legal moves, and their words. docs/PROTOCOL.md is written from these tables
 * (scripts/generate-protocol.mjs), and no code sets a phase past them (test/tidy/moves.test.ts).
 */
export interface MoveTable<Phase extends string, Trigger extends string> {
  /** What the record is, and whose. */
  readonly title: string;
  /** What has happened, in a clause. */
  readonly triggers: { readonly [T in Trigger]: string };
  /** For each phase, where each trigger leads. A pair that is absent is refused. */
  readonly moves: { readonly [P in Phase]: { readonly [T in Trigger]?: Phase } };
}

/** Moves `record` if the table allows it; says whether it did. */
export function move<Phase extends string, Trigger extends string>(
  table: MoveTable<Phase, Trigger>,
  record: { phase: Phase },
  trigger: Trigger,
): boolean {
  const next = table.moves[record.phase][trigger];
  if (next === undefined) return false;
  record.phase = next;
  return true;
}

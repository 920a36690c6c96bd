/** The legal moves of a machine as data: for each phase, where each trigger leads. A pair that is absent is refused. */
export type MoveTable<Phase extends string, Trigger extends string> = {
  readonly [P in Phase]: { readonly [T in Trigger]?: Phase };
};

/** Moves `record` if the table allows it; says whether it did. */
export function move<Phase extends string, Trigger extends string>(
  table: MoveTable<Phase, Trigger>,
  record: { phase: Phase },
  trigger: Trigger,
): boolean {
  const next = table[record.phase][trigger];
  if (next === undefined) return false;
  record.phase = next;
  return true;
}

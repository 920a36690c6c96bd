/** How people see the actors, by their number. */
export type Names = readonly string[];

export function nameOf(names: Names, actor: number): string {
  return names[actor] ?? 'a stranger';
}

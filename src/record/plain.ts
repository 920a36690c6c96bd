/**
 * What a row may hold: numbers, names, and lists of numbers. Rows are copies: what a machine does with its own objects later
 * changes no row.
 */
export type Plain = number | string | boolean | readonly number[];

/** The fields of an object that a row keeps as they are. */
export type PlainOf<T> = T extends unknown
  ? { readonly [K in keyof T as Exclude<T[K], Plain> extends never ? K : never]: T[K] }
  : never;

/** Numbers of one list, and characters of one text, that a row keeps; `cut` of the row says that there were more. */
export const LIST_KEPT = 256;
export const TEXT_KEPT = 1_000;

/** The plain fields of an object, whatever else it has. */
export function plainFields<T extends object>(of: T): PlainOf<T> {
  const row: Record<string, Plain> = {};
  let cut = 0;
  for (const [name, value] of Object.entries(of)) {
    const kept = plainOf(value);
    if (kept === undefined) continue;
    row[name] = kept;
    if (typeof kept === 'string' || Array.isArray(kept))
      cut += (value as { readonly length: number }).length - kept.length;
  }
  return (cut > 0 ? { ...row, cut } : row) as PlainOf<T>;
}

function plainOf(value: unknown): Plain | undefined {
  if (typeof value === 'number' || typeof value === 'boolean') return value;
  if (typeof value === 'string') return value.slice(0, TEXT_KEPT);
  if (!Array.isArray(value) || !value.every((entry) => typeof entry === 'number')) return undefined;
  return value.slice(0, LIST_KEPT);
}

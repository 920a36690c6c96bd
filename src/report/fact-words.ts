import type { Fields } from '../wire/machine.ts';

/** The names of facts are written with hyphens. */
export function spaced(name: string): string {
  return name.replaceAll('-', ' ');
}

export function fieldInWords(value: Fields[string]): string {
  return Array.isArray(value) ? value.join(' ') : String(value);
}

/** A fact that a machine tells of itself: its name and what it is about. */
export function factInWords(name: string, fields: Fields): string {
  const shown = Object.entries(fields).map(([field, value]) => `${field} ${fieldInWords(value)}`);
  return shown.length === 0 ? spaced(name) : `${spaced(name)} (${shown.join(', ')})`;
}

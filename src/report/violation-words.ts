import { breachByName, invariantById } from '../oracle/registry.ts';
import type { FailureKey, Violation } from '../oracle/verdict.ts';
import type { RunRecord } from '../record/record.ts';
import type { Fields, Wait } from '../wire/machine.ts';
import { factInWords, fieldInWords, spaced } from './fact-words.ts';

/** How people see the actors, by their numbers. */
type Names = RunRecord['actorNames'];

function nameOf(names: Names, actor: number): string {
  return names[actor] ?? `actor ${actor}`;
}

/** The promise that an invariant makes. */
export function sentenceOf({ invariant }: Pick<Violation, 'invariant'>): string {
  return invariantById(invariant)?.sentence ?? '';
}

/** The part of the system at which it shows, without numbers that differ from run to run. */
export function placeInWords({ invariant, site, role, machine, part }: FailureKey): string {
  const owner = [role, machine].filter((word) => word !== 'none').join(' ');
  const template = invariantById(invariant)?.sites[site] ?? site;
  return template.replace('{owner}', owner).replace('{part}', site === 'wait' ? spaced(part) : part);
}

type Format = (value: Fields[string], names: Names) => string;

const actor: Format = (value, names) => (typeof value === 'number' ? nameOf(names, value) : String(value));
const hex: Format = (value) => `0x${Number(value).toString(16).padStart(8, '0')}`;

/** How the ids of a violation are shown that are not shown as they are. */
const FORMATS: { readonly [name: string]: Format } = {
  actor,
  from: actor,
  to: actor,
  peer: actor,
  expected: hex,
  actual: hex,
  counts: (value) => (Array.isArray(value) ? value.join(' and ') : String(value)),
  holder: (value) => (value === -1 ? 'nobody' : `request ${fieldInWords(value)}`),
  tokens: (value) => (Array.isArray(value) && value.length === 2 ? tokenRange(value) : fieldInWords(value)),
  deed: (value) => spaced(String(value)),
  waitsFor: (value) => spaced(String(value)),
};

function tokenRange([from, to]: readonly number[]): string {
  return from! < to! ? `tokens ${from} to ${to! - 1}` : 'no tokens';
}

/** What exactly is at fault, with names and numbers, and where a guest's code stood. */
export function detailInWords({ invariant, breach, ids, stack }: Violation, names: Names): string {
  const template = breachByName(invariant, breach)?.says ?? breach;
  const text = template.replace(/\{(\w+)\}/g, (_, id: string) =>
    ids[id] === undefined ? '?' : (FORMATS[id] ?? fieldInWords)(ids[id], names),
  );
  const { hook, guest } = ids;
  const isToldBy = hook !== undefined && !template.includes('{hook}') && !template.includes('{thread}');
  const by = isToldBy ? ` (in ${hook} of ${guest})` : '';
  return `${text}${by}${stack === undefined ? '' : `, at ${stack[0]}`}`;
}

export function waitInWords({ who, what, fields, whom }: Wait, names: Names): string {
  const from = whom < 0 ? '' : ` from ${nameOf(names, whom)}`;
  return `${nameOf(names, who)} waits for ${factInWords(what, fields)}${from}`;
}

/** A violation in two lines: the promise, and what broke it. */
export function violationInWords(violation: Violation, names: Names): string {
  const { invariant } = violation;
  const place = placeInWords(violation);
  return `${invariant} broken: ${sentenceOf(violation)}\n  at ${place}: ${detailInWords(violation, names)}`;
}

/** A violation as a JSON document: the data, and its words beside it. */
export function violationAsJson(violation: Violation, names: Names): object {
  return { ...violation, place: placeInWords(violation), detail: detailInWords(violation, names) };
}

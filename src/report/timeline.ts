import type { RunRecord, StepRow } from '../record/record.ts';
import { effectInWords, isShown, isTelling } from './effect-words.ts';
import { eventInWords } from './event-words.ts';
import type { Names } from './names.ts';

/**
 * A failed run on one page. Of all steps it shows the failing one, the chain of steps that caused it, what the adversary
 * did, and as much of the rest of the same request as fits.
 */

export interface TimelineOptions {
  readonly linesMax: number;
  readonly widthMax: number;
}

export const PAGE: TimelineOptions = { linesMax: 22, widthMax: 150 };
export const EVERYTHING: TimelineOptions = { linesMax: Number.MAX_SAFE_INTEGER, widthMax: 1000 };

export function timeline(record: RunRecord, options: TimelineOptions): string[] {
  const { chosen, left } = pageOf(record.steps, options.linesMax);
  const lines = chosen.map((row) => rowInWords(row, record, options.widthMax));
  if (left > 0) lines.push(`      (${left} more steps; replay --full shows them)`);
  return lines;
}

/** A step on the page, and how often it came in a row. */
export interface PageRow {
  readonly step: StepRow;
  readonly repeats: number;
}

/** The steps that matter, in order; `left` counts those that are not among them, equal ones as one. */
export function pageOf(steps: readonly StepRow[], linesMax: number): { chosen: PageRow[]; left: number } {
  const rows = collapse(steps);
  const chosen = choose(rows, linesMax).sort((a, b) => a.step.step - b.step.step);
  return { chosen, left: rows.length - chosen.length };
}

interface Row extends PageRow {
  /** Equal steps in a row that this one stands for. */
  repeats: number;
}

/** One row for each run of steps that look the same: a polling loop is one line. */
function collapse(steps: readonly StepRow[]): Row[] {
  const rows: Row[] = [];
  const lastOf = new Map<number, { readonly row: Row; readonly look: string }>();
  for (const step of steps) {
    const last = lastOf.get(step.actor);
    const look = lookOf(step);
    if (last?.look === look && !step.fault && step.heldMicros === 0) last.row.repeats++;
    else {
      const row = { step, repeats: 1 };
      rows.push(row);
      lastOf.set(step.actor, { row, look });
    }
  }
  return rows;
}

/** Fields that no line shows: they tell apart pieces of one batch, repetitions of one message, phases of one pass. */
const TOLD_APART = new Set([
  'attempt',
  'queuePair',
  'part',
  'tag',
  'phase',
  'tpRank',
  'localBlocks',
  'remoteBlocks',
]);

/** Steps of one actor with equal looks differ in nothing that a reader sees. */
function lookOf({ event, effects }: StepRow): string {
  return JSON.stringify([event, effects.filter(isShown)], (name, value) =>
    TOLD_APART.has(name) || (name === 'bytes' && typeof value === 'number') ? undefined : value,
  );
}

function choose(rows: readonly Row[], linesMax: number): Row[] {
  const last = rows.at(-1);
  if (last === undefined) return [];
  const causes = causesOf(rows, last.step);
  const transfers = new Set(
    rows.filter(({ step }) => causes.has(step.step)).map(({ step }) => step.transfer),
  );
  transfers.delete(-1);
  const weight = (row: Row): number => {
    const { step } = row;
    const isCause = causes.has(step.step);
    const shown = step.effects.filter(isShown);
    if (row === last || step.fault) return 0;
    if (step.heldMicros > 0 && isCause) return 1;
    if (shown.length === 0 && step.heldMicros === 0 && isTurn(step)) return NOTHING_CAME_OF_IT;
    if (step.heldMicros === 0 && isPolling(shown)) return 8;
    if (step.effects.some(isTelling)) return 2;
    if (isCause) return 3;
    if (step.heldMicros > 0) return 4;
    if (transfers.has(step.transfer)) return 5;
    return shown.length > 0 ? 6 : 7;
  };
  // Later steps first among equals: they are nearer to the failure.
  const ranked = rows
    .map((row, index) => ({ row, index, weight: weight(row) }))
    .filter((entry) => entry.weight < NOTHING_CAME_OF_IT);
  ranked.sort((a, b) => a.weight - b.weight || b.index - a.index);
  return ranked.slice(0, linesMax).map((entry) => entry.row);
}

/** The weight of a turn that nobody wants to see. */
const NOTHING_CAME_OF_IT = 9;

function isPolling(shown: StepRow['effects']): boolean {
  const [only] = shown;
  return shown.length === 1 && only!.kind === 'note' && only!.note.kind === 'spin';
}

/** A turn is only the occasion; what the actor did in it is the news. */
function isTurn({ event }: StepRow): boolean {
  return event.kind === 'turn' || event.kind === 'joined';
}

function causesOf(rows: readonly Row[], last: StepRow): Set<number> {
  const byStep = new Map(rows.map(({ step }) => [step.step, step]));
  const causes = new Set<number>();
  for (let step = last.step; step >= 0 && !causes.has(step); ) {
    causes.add(step);
    step = byStep.get(step)?.cause ?? -1;
  }
  return causes;
}

function rowInWords({ step, repeats }: PageRow, names: Names, widthMax: number): string {
  const head = `${String(step.step).padStart(5)} ${String(step.atMicros).padStart(8)}us ${(names.actorNames[step.actor] ?? '?').padEnd(8)}`;
  const held = step.heldMicros > 0 ? ` [held back ${step.heldMicros} us]` : '';
  const times = repeats > 1 ? ` (${repeats} times)` : '';
  const text = `${head} ${newsOf(step, names)}${held}${times}`;
  return text.length > widthMax ? `${text.slice(0, widthMax - 3)}...${held}${times}` : text;
}

/** What happened and what came of it; what the actor itself says comes first, the latest of it before the earlier. */
function newsOf(step: StepRow, names: Names): string {
  const shown = step.effects.filter(isShown);
  const effects = [...shown.filter(isTelling).reverse(), ...shown.filter((effect) => !isTelling(effect))].map(
    (effect) => effectInWords(effect, names),
  );
  if (step.effectsLeftOut > 0) effects.push(`and ${step.effectsLeftOut} more effects`);
  if (effects.length > 0 && isTurn(step)) return effects.join('; ');
  const event = eventInWords(step.event, names);
  return effects.length === 0 ? event : `${event} -> ${effects.join('; ')}`;
}

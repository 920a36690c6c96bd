import type { RunRecord, StepRecord } from '../trace/record.ts';

/**
 * A failed run on one page. Of all steps it shows the failing one, the chain of steps that caused it, what the adversary
 * did, and as much of the rest of the same request as fits.
 */

export interface TimelineOptions {
  readonly linesMax: number;
  readonly widthMax: number;
}

export const PAGE: TimelineOptions = { linesMax: 22, widthMax: 150 };

export function timeline(record: RunRecord, options: TimelineOptions): string[] {
  const rows = collapse(record.steps);
  const chosen = choose(rows, options.linesMax);
  const lines = [...chosen]
    .sort((a, b) => a.record.step - b.record.step)
    .map((row) => showRow(row, record.actorNames, options.widthMax));
  const left = rows.length - chosen.length;
  if (left > 0) lines.push(`      (${left} more steps; replay --full shows them)`);
  return lines;
}

interface Row {
  readonly record: StepRecord;
  /** Equal steps in a row that this one stands for. */
  repeats: number;
}

/** One row for each run of steps that look the same: a polling loop is one line. */
function collapse(steps: readonly StepRecord[]): Row[] {
  const rows: Row[] = [];
  const lastOf = new Map<number, Row>();
  for (const record of steps) {
    const last = lastOf.get(record.actor);
    if (last !== undefined && sameLook(last.record, record)) last.repeats++;
    else {
      const row = { record, repeats: 1 };
      rows.push(row);
      lastOf.set(record.actor, row);
    }
  }
  return rows;
}

function sameLook(left: StepRecord, right: StepRecord): boolean {
  return (
    left.what === right.what &&
    left.effects.join('\n') === right.effects.join('\n') &&
    !right.fault &&
    right.heldMicros === 0
  );
}

function choose(rows: readonly Row[], linesMax: number): Row[] {
  const last = rows.at(-1);
  if (last === undefined) return [];
  const causes = causesOf(
    rows.map((row) => row.record),
    last.record,
  );
  const transfers = new Set(
    rows.filter((row) => causes.has(row.record.step)).map((row) => row.record.transfer),
  );
  transfers.delete(-1);
  const weight = (row: Row): number => {
    const { record } = row;
    if (row === last || record.fault) return 0;
    if (record.heldMicros > 0 && causes.has(record.step)) return 1;
    if (isSilent(record)) return 9;
    if (isPolling(record)) return 8;
    if (record.telling) return 2;
    if (causes.has(record.step)) return 3;
    if (record.heldMicros > 0) return 4;
    if (transfers.has(record.transfer)) return 5;
    return record.effects.length > 0 ? 6 : 7;
  };
  // Later steps first among equals: they are nearer to the failure.
  const ranked = rows
    .map((row, index) => ({ row, index, weight: weight(row) }))
    .filter((entry) => entry.weight < 9);
  ranked.sort((a, b) => a.weight - b.weight || b.index - a.index);
  return ranked.slice(0, linesMax).map((entry) => entry.row);
}

/** A turn in which nothing came of it. */
function isSilent(record: StepRecord): boolean {
  return record.effects.length === 0 && record.heldMicros === 0 && isTurn(record);
}

function isPolling(record: StepRecord): boolean {
  return record.effects.length === 1 && record.effects[0]!.includes(' polls for ') && record.heldMicros === 0;
}

function isTurn(record: StepRecord): boolean {
  return /^(takes a turn|thread \d+ takes a turn|goes on)/.test(record.what);
}

function causesOf(records: readonly StepRecord[], last: StepRecord): Set<number> {
  const byStep = new Map(records.map((record) => [record.step, record]));
  const causes = new Set<number>();
  for (let step = last.step; step >= 0 && !causes.has(step); ) {
    causes.add(step);
    step = byStep.get(step)?.cause ?? -1;
  }
  return causes;
}

function showRow(row: Row, actorNames: readonly string[], widthMax: number): string {
  const { record, repeats } = row;
  const head = `${String(record.step).padStart(5)} ${String(record.atMicros).padStart(8)}us ${(actorNames[record.actor] ?? '?').padEnd(8)}`;
  const held = record.heldMicros > 0 ? ` [held back ${record.heldMicros} us]` : '';
  const times = repeats > 1 ? ` (${repeats} times)` : '';
  const effects = record.effects.join('; ');
  // A turn is only the occasion; what the actor did in it is the news.
  const news = effects === '' ? record.what : isTurn(record) ? effects : `${record.what} -> ${effects}`;
  const text = `${head} ${news}${held}${times}`;
  return text.length > widthMax ? `${text.slice(0, widthMax - 3)}...${held}${times}` : text;
}

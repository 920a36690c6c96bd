import type { RunRecord, StepRow } from '../record/record.ts';
import { pageOf, type TimelineOptions } from './timeline.ts';

/** The record as a JSON document: the rows of the page, or all of them, in the order of their steps. */
export interface RecordDocument {
  /** Names of the actors, by the numbers that rows have. */
  readonly actors: readonly string[];
  readonly rows: readonly (StepRow & { readonly repeats: number })[];
  /** Kinds of steps that are not among the rows. */
  readonly left: number;
}

export function recordAsJson(
  { actorNames, steps }: RunRecord,
  { linesMax }: Pick<TimelineOptions, 'linesMax'>,
): RecordDocument {
  const { chosen, left } = pageOf(steps, linesMax);
  return { actors: actorNames, rows: chosen.map(({ step, repeats }) => ({ ...step, repeats })), left };
}

import type { Finding } from '../explore/campaign.ts';
import {
  type HarnessFailures,
  harnessFailureOf,
  keepHarnessFailure,
  noHarnessFailures,
} from '../explore/harness-failure.ts';
import { replayLine } from '../explore/replay-line.ts';
import { type RunOptions, whoRan, whoRuns } from '../explore/run.ts';
import { type Shrunk, shrinkSeed } from '../explore/shrink.ts';
import { sourcePlaces } from '../node/source-places.ts';
import { recordAsJson } from '../report/record-json.ts';
import { PAGE, timeline } from '../report/timeline.ts';
import {
  detailInWords,
  placeInWords,
  sentenceOf,
  violationAsJson,
  waitInWords,
} from '../report/violation-words.ts';
import type { WorldMemory } from '../sim/memory.ts';
import type { Scenario } from '../sim/scenario.ts';
import { type TapeEntry, tapeRows } from '../sim/tape.ts';

/** What is told of a finding: its shrunk story, and the line that replays it. */

export interface FindingReport {
  readonly finding: Finding;
  /** Null when it was not shrunk. */
  readonly shrunk: Shrunk | null;
  /** Null when it was shrunk. */
  readonly whyNot: string | null;
  readonly tape: readonly TapeEntry[];
  readonly replay: string;
  readonly lines: readonly string[];
  /** What went wrong with the harness while it was shrunk and written down. */
  readonly harness: HarnessFailures;
}

/** Never throws: a finding is told as it was found, if no more can be told. */
export function reportOf(
  memory: WorldMemory,
  scenario: Scenario,
  finding: Finding,
  options: RunOptions = {},
): FindingReport {
  const { seed, violation } = finding;
  const found = asFound(scenario, finding, options, 'the harness failed over it');
  try {
    const shrunk = shrinkSeed(memory, scenario, seed, violation, options);
    const { entries: tape, result, harness } = shrunk;
    if (result.violation === null) return { ...found, shrunk, harness };
    const replay = `npx moriarty replay ${replayLine({ scenario, source: { tape }, digest: result.digest, ...whoRan(shrunk) })}`;
    const lines = timeline(result.record, PAGE);
    return { finding, shrunk, whyNot: null, tape, replay, lines, harness };
  } catch (error) {
    keepHarnessFailure(found.harness, harnessFailureOf(error, seed, 'report'));
    return found;
  }
}

/** A finding with the line that runs its seed. */
export function asFound(
  scenario: Scenario,
  finding: Finding,
  options: RunOptions,
  whyNot: string,
): FindingReport {
  const { seed } = finding;
  const who = whoRuns(scenario, options);
  return {
    finding,
    shrunk: null,
    whyNot,
    tape: [],
    replay: `npx moriarty replay ${replayLine({ scenario, source: { seed }, digest: '', ...who })}`,
    lines: [],
    harness: noHarnessFailures(),
  };
}

export function findingAsJson({ finding, shrunk, tape, replay }: FindingReport): object {
  const { violation, actorNames } = finding;
  return {
    ...violationAsJson(violation, actorNames),
    detail: sourcePlaces(detailInWords(violation, actorNames)),
    stack: (violation.stack ?? []).map(sourcePlaces),
    seed: finding.seed,
    schedules: finding.count,
    steps: finding.steps,
    shrunkSteps: shrunk?.result.steps ?? null,
    shrinkRuns: shrunk?.runs ?? 0,
    tape: tapeRows(tape),
    replay,
    record: shrunk === null ? null : recordAsJson(shrunk.result.record, PAGE),
  };
}

/** A violation on one page: what broke, the shrunk story, who waits for whom, the line that replays it. */
export function showFinding(report: FindingReport): string {
  const { finding, shrunk, lines, replay } = report;
  const { violation, actorNames: foundNames } = finding;
  const { invariant } = violation;
  const shown = shrunk?.result.violation ?? violation;
  const names = shrunk?.result.record.actorNames ?? foundNames;
  const page = [
    `${invariant} broken: ${sentenceOf(violation)}`,
    `  at ${placeInWords(violation)} (seed ${finding.seed}; ${finding.count} of the schedules; ${howShrunk(report)})`,
    ...lines,
    `  ${detailInWords(shown, names)}`,
    // The first frame stands in the detail.
    ...(shown.stack ?? []).slice(1).map((frame) => `    from ${frame}`),
    ...(shrunk?.result.waits ?? []).map((wait) => `  ${waitInWords(wait, names)}`),
    `  FAIL ${invariant} replay: ${replay}`,
    '',
  ];
  return sourcePlaces(page.join('\n'));
}

function howShrunk({ finding, shrunk, whyNot, tape }: FindingReport): string {
  const { steps } = finding;
  if (shrunk === null) return `${steps} steps; not shrunk, because ${whyNot}`;
  if (shrunk.result.violation === null)
    return `${steps} steps; not shrunk, because the same schedule passes when it runs again: something keeps state from run to run`;
  return `shrunk from ${steps} steps to ${shrunk.result.steps}, ${tape.length} draws differ from the plain run`;
}

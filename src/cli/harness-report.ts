import type { HarnessFailure, HarnessFailures } from '../explore/harness-failure.ts';
import { replayLine } from '../explore/replay-line.ts';
import type { Who } from '../explore/run.ts';
import { sourcePlaces } from '../node/source-places.ts';

import type { Scenario } from '../sim/scenario.ts';
import { EXIT, thousands } from './output.ts';

/** What a campaign says of schedules in which the harness itself broke, and how the program ends then. */

export interface HarnessPage {
  readonly scenario: Scenario;
  /** Who ran, if it was not the scenario's own connector. */
  readonly who?: Who;
  /** Flags that a replay needs besides, such as the backend. */
  readonly flags: string;
}

/** 3 as soon as the harness broke, whatever was found besides: its verdicts are then not the whole story. */
export function exitOf(violations: number, { count }: HarnessFailures): number {
  if (count > 0) return EXIT.harness;
  return violations > 0 ? EXIT.violation : EXIT.fine;
}

function replayOf({ seed, tape }: HarnessFailure, { scenario, flags, who }: HarnessPage): string {
  const source = tape === null && seed !== null ? { seed } : { tape: tape ?? [] };
  return `npx moriarty replay ${replayLine({ scenario, source, digest: '', ...(who ?? { connector: scenario.connector }) })}${flags}`;
}

const DURING: { readonly [D in HarnessFailure['during']]: string } = {
  run: 'in',
  shrink: 'while shrinking',
  report: 'while reporting',
};

/** Nothing when nothing broke. */
export function showHarnessFailures({ kept, count }: HarnessFailures, page: HarnessPage): string[] {
  if (count === 0) return [];
  const lines = kept.flatMap((failure) => [
    `the harness failed ${DURING[failure.during]} seed ${failure.seed}: ${failure.code}: ${failure.message}`,
    ...failure.stack.map((line) => `  ${sourcePlaces(line)}`),
    `  replay: ${replayOf(failure, page)}`,
  ]);
  const rest = count - kept.length;
  if (rest > 0) lines.push(`and ${thousands(rest)} more harness failures`);
  return lines;
}

/** The two fields of a JSON document. */
export function harnessAsJson({ kept, count }: HarnessFailures, page: HarnessPage): object {
  return {
    harnessFailureCount: count,
    harnessFailures: kept.map((failure) => {
      const { seed, code, message, during } = failure;
      const stack = failure.stack.map(sourcePlaces);
      return { seed, during, code, message, stack, replay: replayOf(failure, page) };
    }),
  };
}

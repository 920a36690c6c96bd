/**
 * A matcher for vitest: `expect(connector).toSurvive()` attacks it, and fails with the page of the first finding: what broke,
 * the shrunk story, and the line that replays it.
 */

import { expect } from 'vitest';
import { reportOf, showFinding } from './cli/finding-report.ts';
import { checkMemory } from './cli/harness.ts';
import { showHarnessFailures } from './cli/harness-report.ts';
import type { Connector } from './connector/plug.ts';
import { type CampaignOptions, runCampaign } from './explore/campaign.ts';
import { whoRuns } from './explore/run.ts';
import { type ChoicePolicy, IN_TURN } from './proxy/choose.ts';
import type { WorldMemory } from './sim/memory.ts';
import type { Scenario } from './sim/scenario.ts';
import { SHIPPED_MIX } from './zoo/shipped.ts';

/** A connector, or a function that makes one for each run. */
export type Attacked = Connector | (() => Connector);

export interface AttackOptions {
  /** 500 by default, from seed 0 on. */
  readonly schedules?: number;
  readonly seedFrom?: number;
  /** By default the mix that the shipped connector is attacked with. */
  readonly scenario?: Scenario;
  readonly policy?: ChoicePolicy;
}

const SCHEDULES_USUAL = 500;

let memory: WorldMemory | null = null;

/** Null when all went well, else why not, on a page. */
function whyNot(attacked: Attacked, options: AttackOptions): string | null {
  const { schedules = SCHEDULES_USUAL, seedFrom = 0, scenario = SHIPPED_MIX, policy = IN_TURN } = options;
  memory ??= checkMemory();
  const parts = () => ({ connector: typeof attacked === 'function' ? attacked() : attacked, policy });
  const campaign: CampaignOptions = {
    scenario,
    seedFrom,
    goOn: (done) => done < schedules,
    stopAtFirst: true,
    parts,
  };
  const { findings, harness } = runCampaign(memory, campaign);
  const [finding] = findings;
  if (finding !== undefined) return showFinding(reportOf(memory, scenario, finding, { parts }));
  if (harness.count === 0) return null;
  return showHarnessFailures(harness, { scenario, flags: '', who: whoRuns(scenario, { parts }) }).join('\n');
}

expect.extend({
  toSurvive(attacked: Attacked, options: AttackOptions = {}) {
    const why = whyNot(attacked, options);
    return {
      pass: why === null,
      message: () => why ?? 'it survived every schedule, and was expected not to',
    };
  },
});

declare module 'vitest' {
  // biome-ignore lint/suspicious/noExplicitAny: the declaration that this one adds to has it so.
  interface Matchers<T = any> {
    /** Attacks a connector with schedules of a scenario. */
    toSurvive(options?: AttackOptions): T;
  }
}

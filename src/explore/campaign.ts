import { mix } from '../base/mix.ts';
import type { Fabric } from '../io/fabric.ts';
import { sameFailure, type Violation } from '../oracle/verdict.ts';
import type { WorldMemory } from '../sim/memory.ts';
import { type Parts, runSeed } from '../sim/run.ts';
import type { Scenario } from '../sim/scenario.ts';
import { GOALS, type Goal } from '../wire/machine.ts';

/** A campaign: schedules of one scenario, one for each seed, until enough have run or a kind of failure is wanted only once. */
export interface CampaignOptions {
  readonly scenario: Scenario;
  readonly seedFrom: number;
  /** Asked before each schedule. */
  readonly goOn: (schedules: number) => boolean;
  readonly stopAtFirst: boolean;
  readonly onProgress?: (progress: Campaign) => void;
  /** Your own connector, instead of the one that the scenario names. */
  readonly parts?: () => Parts;
  /** What moves the bytes, instead of the kernels; see RunOptions. */
  readonly fabric?: () => Fabric;
}

/** The first schedule that showed a kind of failure. */
export interface Finding {
  readonly violation: Violation;
  readonly seed: number;
  readonly steps: number;
  /** Schedules that showed the same kind, this one included. */
  count: number;
}

export interface Campaign {
  schedules: number;
  steps: number;
  /** 32 bits over the digests of all schedules. */
  digest: number;
  readonly goals: Map<Goal, number>;
  readonly findings: Finding[];
}

/** Schedules between two calls of `onProgress`. */
const PROGRESS_EVERY = 256;

export function runCampaign(memory: WorldMemory, options: CampaignOptions): Campaign {
  const campaign: Campaign = {
    schedules: 0,
    steps: 0,
    digest: 0,
    goals: new Map(GOALS.map((goal) => [goal, 0])),
    findings: [],
  };
  while (options.goOn(campaign.schedules)) {
    const seed = options.seedFrom + campaign.schedules;
    const { result } = runSeed(memory, options.scenario, seed, options);
    campaign.schedules++;
    campaign.steps += result.steps;
    for (let at = 0; at < 16; at += 8)
      campaign.digest = mix(campaign.digest, Number.parseInt(result.digest.slice(at, at + 8), 16));
    for (const [goal, count] of result.goals) campaign.goals.set(goal, campaign.goals.get(goal)! + count);
    if (result.violation !== null) {
      addFinding(campaign, result.violation, seed, result.steps);
      if (options.stopAtFirst) break;
    }
    if (campaign.schedules % PROGRESS_EVERY === 0) options.onProgress?.(campaign);
  }
  return campaign;
}

function addFinding(campaign: Campaign, violation: Violation, seed: number, steps: number): void {
  const known = campaign.findings.find((finding) => sameFailure(finding.violation, violation));
  if (known !== undefined) known.count++;
  else campaign.findings.push({ violation, seed, steps, count: 1 });
}

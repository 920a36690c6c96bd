import { UsageError } from '../base/failure.ts';
import { mix } from '../base/mix.ts';
import type { Fabric } from '../io/fabric.ts';
import { sameFailure, type Violation } from '../oracle/verdict.ts';
import type { WorldMemory } from '../sim/memory.ts';
import type { Scenario } from '../sim/scenario.ts';
import { worldGoalsIn } from '../wire/goals.ts';
import type { Parts } from '../zoo/specimen.ts';
import {
  addHarnessFailures,
  type HarnessFailure,
  type HarnessFailures,
  harnessFailureOf,
  keepHarnessFailure,
  noHarnessFailures,
} from './harness-failure.ts';
import { checkSeed, type Run, runSeed, SEED_FROM_MAX } from './run.ts';

/** A campaign: schedules of one scenario, one for each seed, until enough have run or a kind of failure is wanted only once. */
export interface CampaignOptions {
  readonly scenario: Scenario;
  readonly seedFrom: number;
  /** Asked before each schedule, perhaps more than once. */
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
  /** How people see the actors of that schedule, by their numbers. */
  readonly actorNames: readonly string[];
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
  /** What was folded into it, where parts are to be joined. */
  readonly folded?: number[];
  /** How often each coverage point was reached: the world's that the scenario allows, and the connector's own. */
  readonly goals: Map<string, number>;
  readonly findings: Finding[];
  /** Schedules in which the harness broke; the campaign went on after each. */
  readonly harness: HarnessFailures;
}

/** Schedules between two calls of `onProgress`. */
const PROGRESS_EVERY = 256;

/** Folded into the campaign's digest for a schedule that has none. */
const BROKEN_DIGEST = 0xbad;

/** @throws UsageError when the first schedule shows that the caller's scenario or parts are wrong. */
export function runCampaign(memory: WorldMemory, options: CampaignOptions): Campaign {
  const campaign = newCampaign();
  advanceCampaign(memory, options, campaign, Number.POSITIVE_INFINITY);
  return campaign;
}

/** One that has not begun. */
export function newCampaign(): Campaign {
  return {
    schedules: 0,
    steps: 0,
    digest: 0,
    goals: new Map(),
    findings: [],
    harness: noHarnessFailures(),
  };
}

/**
 * Runs at most `schedulesMax` more schedules; false when the campaign is over.
 *
 * @throws UsageError as runCampaign does.
 */
export function advanceCampaign(
  memory: WorldMemory,
  options: CampaignOptions,
  campaign: Campaign,
  schedulesMax: number,
): boolean {
  checkSeed(options.seedFrom, SEED_FROM_MAX);
  for (let done = 0; done < schedulesMax; done++) {
    if (isOver(options, campaign)) return false;
    const seed = options.seedFrom + campaign.schedules;
    const run = runOne(memory, options, seed, campaign);
    campaign.schedules++;
    if (run === null) fold(campaign, BROKEN_DIGEST);
    else addRun(campaign, options.scenario, run, seed);
    if (campaign.schedules % PROGRESS_EVERY === 0) options.onProgress?.(campaign);
  }
  return !isOver(options, campaign);
}

function fold(campaign: Campaign, word: number): void {
  campaign.digest = mix(campaign.digest, word);
  campaign.folded?.push(word);
}

function isOver({ stopAtFirst, goOn }: CampaignOptions, { findings, schedules }: Campaign): boolean {
  return (stopAtFirst && findings.length > 0) || !goOn(schedules);
}

/** One schedule; null when the harness broke in it, which is no reason to lose what the others have shown. */
function runOne(memory: WorldMemory, options: CampaignOptions, seed: number, campaign: Campaign): Run | null {
  try {
    return runSeed(memory, options.scenario, seed, options);
  } catch (error) {
    if (error instanceof UsageError && campaign.schedules === 0) throw error;
    keepHarnessFailure(campaign.harness, harnessFailureOf(error, seed, 'run'));
    return null;
  }
}

function addRun(campaign: Campaign, scenario: Scenario, { result, parts }: Run, seed: number): void {
  const { steps, digest, goals, violation, record } = result;
  if (campaign.goals.size === 0)
    for (const goal of [...worldGoalsIn(scenario), ...(parts.connector.goals ?? [])])
      campaign.goals.set(goal, 0);
  campaign.steps += steps;
  for (let at = 0; at < 16; at += 8) fold(campaign, Number.parseInt(digest.slice(at, at + 8), 16));
  for (const [goal, count] of goals) campaign.goals.set(goal, (campaign.goals.get(goal) ?? 0) + count);
  if (violation !== null)
    addFinding(campaign, { violation, actorNames: record.actorNames, seed, steps, count: 1 });
}

function addFinding(campaign: Campaign, finding: Finding): void {
  const known = campaign.findings.find(({ violation }) => sameFailure(violation, finding.violation));
  if (known !== undefined) known.count += finding.count;
  else campaign.findings.push({ ...finding });
}

/** A stretch of a campaign, as somebody else may run it: plain data. */
export interface Stretch {
  /** Schedules of the campaign before it. */
  readonly from: number;
  readonly schedules: number;
}

/**
 * Runs one stretch of the campaign that the options describe, as if all before it had run without a finding.
 *
 * @throws UsageError as runCampaign does, of the campaign's first schedule only.
 */
export function runStretch(memory: WorldMemory, options: CampaignOptions, stretch: Stretch): Campaign {
  const { from, schedules } = stretch;
  const part = { ...newCampaign(), schedules: from, folded: [] };
  const goOn = (done: number): boolean => done < from + schedules;
  advanceCampaign(memory, { ...options, goOn }, part, schedules);
  return { ...part, schedules: part.schedules - from };
}

/** Adds the next stretch to a campaign, which then is what it would be had it run the stretch itself. */
export function joinStretch(campaign: Campaign, part: Campaign): void {
  campaign.schedules += part.schedules;
  campaign.steps += part.steps;
  for (const word of part.folded ?? []) fold(campaign, word);
  for (const [goal, count] of part.goals) campaign.goals.set(goal, (campaign.goals.get(goal) ?? 0) + count);
  for (const finding of part.findings) addFinding(campaign, finding);
  addHarnessFailures(campaign.harness, part.harness);
}

/** Adds a stretch of which nothing is known but why: one harness failure. */
export function joinLost(campaign: Campaign, { schedules }: Stretch, failure: HarnessFailure): void {
  campaign.schedules += schedules;
  for (let lost = 0; lost < schedules; lost++) fold(campaign, BROKEN_DIGEST);
  keepHarnessFailure(campaign.harness, failure);
}

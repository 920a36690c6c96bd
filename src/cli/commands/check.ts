import { type Command, Option } from 'commander';
import { UsageError } from '../../base/failure.ts';
import {
  advanceCampaign,
  type Campaign,
  type CampaignOptions,
  type Finding,
  newCampaign,
} from '../../explore/campaign.ts';
import {
  addHarnessFailures,
  type HarnessFailures,
  harnessFailureOf,
  keepHarnessFailure,
  noHarnessFailures,
} from '../../explore/harness-failure.ts';
import { replayLine } from '../../explore/replay-line.ts';
import { connectorName, type RunOptions, SEED_FROM_MAX } from '../../explore/run.ts';
import { readScenario, SCENARIO_NAMES, scenarioByName } from '../../explore/scenario-file.ts';
import { type Shrunk, shrinkSeed } from '../../explore/shrink.ts';
import { FIDELITIES, type Fidelity } from '../../io/engine/surprises.ts';
import type { NativeProvider } from '../../node/native-fabric.ts';
import { INVARIANTS } from '../../oracle/verdict.ts';
import { PAGE, timeline } from '../../report/timeline.ts';
import type { WorldMemory } from '../../sim/memory.ts';
import type { Scenario } from '../../sim/scenario.ts';
import { type TapeEntry, tapeRows } from '../../sim/tape.ts';
import { SPECIMEN_NAMES, SPECIMENS, specimenByName, specimenOf } from '../../zoo/registry.ts';
import { type BackendName, backendOption, openBackend, providerOption } from '../backend.ts';
import { readText } from '../files.ts';
import { checkMemory } from '../harness.ts';
import { exitOf, type HarnessPage, harnessAsJson, showHarnessFailures } from '../harness-report.ts';
import { exitUnless, type Interruption, inSlices, showInterruption, watchSignals } from '../interruption.ts';
import { duration, refuseClash, wholeNumber } from '../options.ts';
import { endProgress, print, printJson, showProgress, thousands } from '../output.ts';

interface ScenarioFlags {
  readonly mode?: 'read' | 'write' | 'both';
  readonly engine?: Fidelity;
  readonly connector?: string;
  readonly fault?: string;
}

interface CheckFlags extends ScenarioFlags {
  readonly seeds?: number;
  readonly time?: number;
  readonly seed: number;
  readonly first?: boolean;
  readonly json?: boolean;
  readonly backend: BackendName;
  readonly provider?: NativeProvider;
}

const SEEDS_DEFAULT = 2_000;

export function addCheck(program: Command, finish: (code: number) => void): void {
  program
    .command('check')
    .argument(
      '[scenario]',
      `a scenario file (JSON; - for standard input), or one of: ${SCENARIO_NAMES.join(', ')}`,
    )
    .description('run many schedules and report each kind of failure, shrunk, with the line that replays it')
    .addOption(new Option('--mode <mode>', 'who moves the KV').choices(['read', 'write', 'both']))
    .addOption(
      new Option(
        '--engine <fidelity>',
        'the MoRI-IO engine as it is (mori), or without its surprises',
      ).choices(FIDELITIES),
    )
    .addOption(new Option('--connector <name>', 'the protocol under attack').choices(SPECIMEN_NAMES))
    .addOption(
      new Option(
        '--fault <ids>',
        `known faults to switch on, separated by commas, or all, or none (default: all); ${bugList()}`,
      ),
    )
    .addOption(
      new Option('--seeds <n>', `schedules to run (default: ${SEEDS_DEFAULT})`).argParser(
        wholeNumber(1, 1e12),
      ),
    )
    .addOption(
      new Option('--time <time>', 'run for this long instead, e.g. 30s')
        .argParser(duration)
        .conflicts('seeds'),
    )
    .addOption(new Option('--seed <n>', 'the first seed').argParser(wholeNumber(0, SEED_FROM_MAX)).default(0))
    .option('--first', 'stop at the first violation')
    .addOption(backendOption())
    .addOption(providerOption())
    .option('--json', 'one JSON document on standard output')
    .action(async (file: string | undefined, flags: CheckFlags) => finish(await check(file, flags)));
}

/** Schedules between two looks for a signal. */
const SLICE = 16;

async function check(file: string | undefined, flags: CheckFlags): Promise<number> {
  const scenario = scenarioOf(file, flags);
  const memory = checkMemory();
  const backend = openBackend(flags, memory);
  const started = performance.now();
  const goOn = flags.time === undefined ? below(flags.seeds ?? SEEDS_DEFAULT) : until(started + flags.time);
  const onProgress = (progress: Campaign): void =>
    showProgress(
      `${thousands(progress.schedules)} schedules, ${progress.findings.length} kinds of violation`,
    );
  const stopAtFirst = flags.first ?? false;
  const options = { scenario, seedFrom: flags.seed, goOn, stopAtFirst, onProgress, ...backend.options };
  const interruption = watchSignals();
  const campaign = await campaignInSlices(memory, options, interruption);
  const seconds = (performance.now() - started) / 1000;
  const reports = await reportsOf(memory, options, campaign, interruption);
  interruption.ignore();
  endProgress();
  const page = { scenario, flags: backend.flags };
  const outcome = { campaign, seconds, reports, page, interruption };
  if (flags.json) printJson({ ...asJson(outcome), ...backend.told });
  else printCampaign(outcome);
  return exitUnless(interruption, exitOf(campaign.findings.length, campaign.harness));
}

/** A campaign that a signal ends early. */
export async function campaignInSlices(
  memory: WorldMemory,
  options: CampaignOptions,
  interruption: Interruption,
): Promise<Campaign> {
  const campaign = newCampaign();
  await inSlices(interruption, () => advanceCampaign(memory, options, campaign, SLICE));
  return campaign;
}

/** A report of each finding; those that a signal came before are told as they were found. */
export async function reportsOf(
  memory: WorldMemory,
  { scenario, fabric }: CampaignOptions,
  { findings, harness }: Campaign,
  interruption: Interruption,
): Promise<FindingReport[]> {
  const reports: FindingReport[] = [];
  await inSlices(interruption, () => {
    const finding = findings[reports.length];
    if (finding === undefined) return false;
    showProgress(`shrinking ${reports.length + 1} of ${findings.length}`);
    reports.push(reportOf(memory, scenario, finding, fabric === undefined ? {} : { fabric }));
    return true;
  });
  for (const finding of findings.slice(reports.length))
    reports.push(asFound(scenario, finding, {}, 'the run was interrupted'));
  for (const report of reports) addHarnessFailures(harness, report.harness);
  return reports;
}

interface Outcome {
  readonly campaign: Campaign;
  readonly seconds: number;
  readonly reports: readonly FindingReport[];
  readonly page: HarnessPage;
  readonly interruption: Interruption;
}

function below(count: number): (schedules: number) => boolean {
  return (schedules) => schedules < count;
}

function until(deadline: number): (schedules: number) => boolean {
  return () => performance.now() < deadline;
}

export function scenarioOf(file: string | undefined, flags: ScenarioFlags): Scenario {
  const named = file === undefined ? undefined : scenarioByName(file);
  refuseClash(
    file !== undefined && flags.connector !== undefined,
    'a scenario names its own connector: give either the scenario or --connector',
  );
  const attacked = specimenByName(flags.connector ?? 'shipped')!;
  const base = file === undefined ? attacked.scenario : (named ?? readScenarioFile(file));
  const faults = faultsOf(base, flags.fault);
  return { ...base, mode: flags.mode ?? base.mode, engine: flags.engine ?? base.engine, faults };
}

/** The switched-on bugs: of the flag, of the scenario, or all that the connector is known for. */
function faultsOf(base: Scenario, flag: string | undefined): readonly string[] {
  const known = Object.keys(specimenOf(base).bugs);
  if (flag === undefined) return base.faults.length > 0 ? base.faults : known;
  refuseClash(
    known.length === 0,
    `--fault switches known faults of a connector, and ${base.connector} has none: ${bugList()}`,
  );
  if (flag === 'all') return known;
  if (flag === 'none') return [];
  const ids = flag.split(',');
  const wrong = ids.find((id) => !known.includes(id));
  if (wrong !== undefined)
    throw new UsageError(
      'FLAG',
      `--fault ${flag}: ${JSON.stringify(wrong)} is not a fault of ${base.connector}; use ${known.join(', ')}, all or none`,
    );
  return ids;
}

/** Who has known bugs, and which: `as-written has F1, F2`. */
function bugList(): string {
  const buggy = SPECIMENS.filter(({ bugs }) => Object.keys(bugs).length > 0);
  return buggy.map(({ name, bugs }) => `${name} has ${Object.keys(bugs).join(', ')}`).join('; ');
}

function readScenarioFile(path: string): Scenario {
  const text = readText(path, 'scenario');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new UsageError('SCENARIO-JSON', `${path} is not JSON: ${(error as Error).message}`);
  }
  return readScenario(value, path);
}

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
    const replay = `npx moriarty replay ${replayLine({ scenario, source: { tape }, digest: result.digest, connector: shrunk.connector })}`;
    const lines = timeline(result.record, PAGE);
    return { finding, shrunk, whyNot: null, tape, replay, lines, harness };
  } catch (error) {
    keepHarnessFailure(found.harness, harnessFailureOf(error, seed, 'report'));
    return found;
  }
}

/** A finding with the line that runs its seed. */
function asFound(scenario: Scenario, finding: Finding, options: RunOptions, whyNot: string): FindingReport {
  const { seed } = finding;
  const connector = connectorName(scenario, options);
  return {
    finding,
    shrunk: null,
    whyNot,
    tape: [],
    replay: `npx moriarty replay ${replayLine({ scenario, source: { seed }, digest: '', connector })}`,
    lines: [],
    harness: noHarnessFailures(),
  };
}

function asJson({ campaign, seconds, reports, page, interruption }: Outcome): object {
  const { schedules, steps, digest, goals, harness } = campaign;
  return {
    schedules,
    steps,
    seconds,
    stepsPerSecond: Math.round(steps / seconds),
    schedulesPerSecond: Math.round(schedules / seconds),
    digest: digest.toString(16).padStart(8, '0'),
    goals: Object.fromEntries(goals),
    violations: reports.map(findingAsJson),
    ...harnessAsJson(harness, page),
    interrupted: interruption.signal,
  };
}

function findingAsJson({ finding, shrunk, tape, replay }: FindingReport): object {
  const { invariant, place, detail } = finding.violation;
  return {
    invariant,
    place,
    detail,
    stack: finding.violation.stack ?? [],
    seed: finding.seed,
    schedules: finding.count,
    steps: finding.steps,
    shrunkSteps: shrunk?.result.steps ?? null,
    shrinkRuns: shrunk?.runs ?? 0,
    tape: tapeRows(tape),
    replay,
  };
}

function printCampaign({ campaign, seconds, reports, page, interruption }: Outcome): void {
  for (const report of reports) print(showFinding(report));
  const { schedules, steps, goals, findings, harness } = campaign;
  for (const line of [...showHarnessFailures(harness, page), ...showInterruption(interruption)]) print(line);
  print(
    `${thousands(schedules)} schedules, ${thousands(steps)} steps in ${seconds.toFixed(2)} s: ${thousands(schedules / seconds)} schedules/s, ${thousands(steps / seconds)} steps/s`,
  );
  print(
    `reached: ${[...goals]
      .filter(([, count]) => count > 0)
      .map(([goal, count]) => `${goal} ${thousands(count)}`)
      .join(', ')}`,
  );
  const missed = [...goals].filter(([, count]) => count === 0).map(([goal]) => goal);
  if (missed.length > 0) print(`not reached: ${missed.join(', ')}`);
  const broken = harness.count === 0 ? '' : `, ${thousands(harness.count)} harness failures`;
  print(`${findings.length} violations${broken}`);
}

/** A violation on one page: what broke, the shrunk story, who waits for whom, the line that replays it. */
export function showFinding(report: FindingReport): string {
  const { finding, shrunk, lines, replay } = report;
  const { invariant, place } = finding.violation;
  const shown = shrunk?.result.violation ?? finding.violation;
  return [
    `${invariant} broken: ${INVARIANTS[invariant]}`,
    `  at ${place} (seed ${finding.seed}; ${finding.count} of the schedules; ${howShrunk(report)})`,
    ...lines,
    `  ${shown.detail}`,
    // The first frame stands in the detail.
    ...(shown.stack ?? []).slice(1).map((frame) => `    from ${frame}`),
    ...(shrunk?.result.waits ?? []).map((wait) => `  ${wait}`),
    `  FAIL ${invariant} replay: ${replay}`,
    '',
  ].join('\n');
}

function howShrunk({ finding, shrunk, whyNot, tape }: FindingReport): string {
  const { steps } = finding;
  if (shrunk === null) return `${steps} steps; not shrunk, because ${whyNot}`;
  if (shrunk.result.violation === null)
    return `${steps} steps; not shrunk, because the same schedule passes when it runs again: something keeps state from run to run`;
  return `shrunk from ${steps} steps to ${shrunk.result.steps}, ${tape.length} draws differ from the plain run`;
}

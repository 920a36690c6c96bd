import { availableParallelism } from 'node:os';
import type { Campaign } from '../../explore/campaign.ts';
import { whoRuns } from '../../explore/run.ts';
import type { NativeProvider } from '../../node/native-fabric.ts';
import { BACKEND_OPTION, type BackendName, openBackend, PROVIDER_OPTION } from '../backend.ts';
import { campaignInSlices, reportsOf } from '../campaign.ts';
import { commandOf } from '../command.ts';
import { type FindingReport, findingAsJson, showFinding } from '../finding-report.ts';
import { checkMemory } from '../harness.ts';
import { exitOf, type HarnessPage, harnessAsJson, showHarnessFailures } from '../harness-report.ts';
import { exitUnless, type Interruption, showInterruption, watchSignals } from '../interruption.ts';
import { campaignInThreads } from '../jobs.ts';
import { duration, JSON_OPTION, SEED_OPTION, wholeNumber } from '../options.ts';
import { endProgress, print, printJson, showProgress, thousands } from '../output.ts';
import { attackOf, SCENARIO_ARGUMENT, SCENARIO_OPTIONS, type ScenarioFlags } from '../scenario-choice.ts';

interface CheckFlags extends ScenarioFlags {
  readonly seeds?: number;
  readonly time?: number;
  readonly seed: number;
  readonly jobs: number;
  readonly first?: boolean;
  readonly json?: boolean;
  readonly backend: BackendName;
  readonly provider?: NativeProvider;
}

const SEEDS_DEFAULT = 2_000;

export const command = commandOf<CheckFlags>({
  argument: SCENARIO_ARGUMENT,
  options: [
    ...SCENARIO_OPTIONS,
    {
      flag: '--seeds <n>',
      text: `schedules to run (default: ${SEEDS_DEFAULT})`,
      parse: wholeNumber(1, 1e12),
    },
    {
      flag: '--time <time>',
      text: 'run for this long instead, e.g. 30s',
      parse: duration,
      conflicts: 'seeds',
    },
    SEED_OPTION,
    {
      flag: '--jobs <n>',
      text: 'worker threads that share the schedules, at most one for each core; what is found is the same',
      parse: wholeNumber(1, availableParallelism()),
      usual: 1,
    },
    { flag: '--first', text: 'stop at the first violation' },
    BACKEND_OPTION,
    PROVIDER_OPTION,
    JSON_OPTION,
  ],
  examples: [
    {
      line: 'check',
      does: 'runs 2,000 schedules of the default mix; `--mode`, `--seeds`, `--time 30s`, `--jobs 2`, `--first`, a scenario file',
    },
    {
      line: 'check --connector as-written --fault F6',
      does: 'the same against the first published connector, its faults on one by one',
    },
    {
      line: 'check --connector ./mine.mjs',
      does: 'a connector of your own, from its file; `.ts` with tsx beside it or Node 22.18',
      more: '[how](CONTRIBUTING.md#attack-your-own-connector)',
    },
    {
      line: 'check --guest ./guest.json',
      does: 'a connector in Python, its threads preempted at every statement; Python 3.10 with greenlet',
      more: '[how](docs/GUESTS.md)',
    },
    {
      line: 'check --engine mori',
      does: 'the shipped connector on the MoRI-IO library as it is, quirks and all, instead of the sound engine',
      more: '[what they are](docs/ENGINE.md)',
    },
  ],
  run: ([file], flags) => check(file, flags),
});

async function check(file: string | undefined, flags: CheckFlags): Promise<number> {
  const { scenario, options: own } = await attackOf(file, flags);
  const memory = checkMemory();
  const backend = openBackend(flags, memory);
  const started = performance.now();
  const goOn = flags.time === undefined ? below(flags.seeds ?? SEEDS_DEFAULT) : until(started + flags.time);
  const onProgress = (progress: Campaign): void =>
    showProgress(
      `${thousands(progress.schedules)} schedules, ${progress.findings.length} kinds of violation`,
    );
  const stopAtFirst = flags.first ?? false;
  const options = {
    scenario,
    seedFrom: flags.seed,
    goOn,
    stopAtFirst,
    onProgress,
    ...own,
    ...backend.options,
  };
  const interruption = watchSignals();
  const campaign =
    flags.jobs === 1
      ? await campaignInSlices(memory, options, interruption)
      : await campaignInThreads(
          options,
          { threads: flags.jobs, backend: flags, python: flags.python },
          interruption,
        );
  const seconds = (performance.now() - started) / 1000;
  const reports = await reportsOf(memory, options, campaign, interruption);
  interruption.ignore();
  endProgress();
  const who = whoRuns(scenario, own);
  const page = { scenario, flags: backend.flags, who };
  const outcome = { campaign, seconds, reports, page, interruption };
  if (flags.json) printJson({ ...asJson(outcome), ...backend.told });
  else printCampaign(outcome);
  return exitUnless(interruption, exitOf(campaign.findings.length, campaign.harness));
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

function asJson({ campaign, seconds, reports, page, interruption }: Outcome): object {
  const { schedules, steps, digest, goals, harness } = campaign;
  return {
    ...page.who,
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

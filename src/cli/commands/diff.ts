import { advanceDiff, type Diff, missedBy, newDiff } from '../../explore/diff.ts';
import { QUEUE_PAIRS } from '../../explore/fabric-diff/classes.ts';
import { histogramsOf } from '../../explore/fabric-diff/coverage.ts';
import { tellDifference } from '../../explore/fabric-diff/tell.ts';
import { DIFF_PAGES } from '../../explore/fabric-diff/workload.ts';
import type { NativeProvider } from '../../node/native-fabric.ts';
import { createWasmFabric } from '../../sim/wasm-fabric.ts';
import { fabricOfRuns, openNative, PROVIDER_OPTION } from '../backend.ts';
import { commandOf } from '../command.ts';
import { checkMemory } from '../harness.ts';
import { exitOf, harnessAsJson, showHarnessFailures } from '../harness-report.ts';
import { exitUnless, inSlices, showInterruption, watchSignals } from '../interruption.ts';
import { JSON_OPTION, MODE_OPTION, SEED_OPTION, wholeNumber } from '../options.ts';
import { EXIT, endProgress, print, printJson, showProgress, thousands } from '../output.ts';
import { SCENARIO_ARGUMENT, scenarioOf } from '../scenario-choice.ts';

interface DiffFlags {
  readonly mode?: 'read' | 'write' | 'both';
  readonly seeds: number;
  readonly seed: number;
  readonly provider?: NativeProvider;
  readonly first?: boolean;
  readonly json?: boolean;
}

export const command = commandOf<DiffFlags>({
  argument: SCENARIO_ARGUMENT,
  options: [
    MODE_OPTION,
    { flag: '--seeds <n>', text: 'schedules to run on each', parse: wholeNumber(1, 1e9), usual: 200 },
    SEED_OPTION,
    PROVIDER_OPTION,
    { flag: '--first', text: 'stop at the first seed that differs' },
    JSON_OPTION,
  ],
  examples: [
    {
      line: 'diff',
      does: 'runs each seed twice, with its bytes moved by the kernels and by libfabric; nothing may differ',
      more: '[what that covers](docs/NATIVE.md#what-equal-covers)',
    },
  ],
  run: ([file], flags) => diff(file, flags),
});

/** Seeds between two looks for a signal. */
const SLICE = 8;

async function diff(file: string | undefined, flags: DiffFlags): Promise<number> {
  const scenario = scenarioOf(file, flags);
  const [ours, theirs] = [checkMemory(DIFF_PAGES), checkMemory(DIFF_PAGES)];
  const native = openNative(flags.provider, theirs, QUEUE_PAIRS);
  const sides = [
    { name: 'wasm', memory: ours, fabric: () => createWasmFabric(ours) },
    { name: 'native', memory: theirs, fabric: fabricOfRuns(native) },
  ] as const;
  const options = {
    scenario,
    seedFrom: flags.seed,
    seeds: flags.seeds,
    stopAtFirst: flags.first === true,
    onProgress: (seeds: number) => showProgress(`${thousands(seeds)} seeds on both backends`),
  };
  const outcome = newDiff();
  const interruption = watchSignals();
  await inSlices(interruption, () => advanceDiff(sides, options, outcome, SLICE));
  interruption.ignore();
  endProgress();
  const { harness, coverage, ...figures } = outcome;
  const missed = missedBy(outcome);
  const page = { scenario, flags: ` --backend native --provider ${native.provider}` };
  if (flags.json)
    printJson({
      ...figures,
      ...harnessAsJson(harness, page),
      coverage: histogramsOf(coverage),
      missed,
      provider: native.provider,
      library: native.library,
      interrupted: interruption.signal,
    });
  else
    for (const line of [
      ...showHarnessFailures(harness, page),
      ...showInterruption(interruption),
      ...showDiff(outcome, missed, native.provider),
    ])
      print(line);
  // A campaign that has not tried everything says nothing of what it left out; what it did find stands above.
  const code = exitOf(outcome.differing.length, harness);
  return exitUnless(interruption, missed.length > 0 ? EXIT.harness : code);
}

const MISSED_SHOWN = 10;

function showDiff(diff: Diff, missed: readonly string[], provider: NativeProvider): string[] {
  const { seeds, equal, batches, drawnBatches, differing } = diff;
  const gaps = missed.slice(0, MISSED_SHOWN).map((text) => `DIFF-COVERAGE: never tried: ${text}`);
  if (missed.length > MISSED_SHOWN)
    gaps.push(`DIFF-COVERAGE: and ${thousands(missed.length - MISSED_SHOWN)} more were never tried`);
  return [
    ...differing.flatMap((seed) => showSeed(seed, provider)),
    ...showCoverage(diff),
    ...gaps,
    `${thousands(seeds)} seeds on wasm and on native ${provider}, ${thousands(batches)} batches of clusters, ${thousands(drawnBatches)} drawn ones ended: ${thousands(equal)} equal, ${thousands(differing.length)} differ`,
  ];
}

function showSeed(found: Diff['differing'][number], provider: NativeProvider): string[] {
  const { seed, fields, differences, differenceCount } = found;
  const lines = differences.map((difference) => `seed ${seed}: ${tellDifference(difference)}`);
  if (fields.length > 0) lines.push(`seed ${seed}: the cluster's runs differ in ${fields.join(', ')}`);
  const more = differenceCount - differences.length;
  if (more > 0) lines.push(`seed ${seed}: and ${thousands(more)} more`);
  return [...lines, `  try \`moriarty diff --provider ${provider} --seed ${seed} --seeds 1 --json\``];
}

function showCoverage({ coverage }: Diff): string[] {
  const { batches, bytes } = coverage;
  return [
    `drawn: ${thousands(batches)} batches of ${thousands(bytes)} bytes, each posted in turn and at once to both`,
    ...histogramsOf(coverage).map(
      ({ name, classes }) =>
        `  ${name}: ${classes.map((one) => `${one.name}: ${thousands(one.count)}`).join(' | ')}`,
    ),
  ];
}

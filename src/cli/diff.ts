import { type Command, Option } from 'commander';
import { advanceDiff, type Diff, type DiffOutcome, type DiffSeed, newDiff } from '../explore/diff.ts';
import { SCENARIO_NAMES } from '../explore/scenario-file.ts';
import type { NativeProvider } from '../node/native-fabric.ts';
import { SEED_FROM_MAX } from '../sim/run.ts';
import { createWasmFabric } from '../sim/wasm-fabric.ts';
import { fabricOfRuns, openNative, providerOption } from './backend.ts';
import { scenarioOf } from './check.ts';
import { checkMemory } from './harness.ts';
import { exitOf, harnessAsJson, showHarnessFailures } from './harness-report.ts';
import { exitUnless, inSlices, showInterruption, watchSignals } from './interruption.ts';
import { wholeNumber } from './options.ts';
import { endProgress, print, printJson, showProgress, thousands } from './output.ts';

interface DiffFlags {
  readonly mode?: 'read' | 'write' | 'both';
  readonly seeds: number;
  readonly seed: number;
  readonly provider?: NativeProvider;
  readonly json?: boolean;
}

export function addDiff(program: Command, finish: (code: number) => void): void {
  program
    .command('diff')
    .argument(
      '[scenario]',
      `a scenario file (JSON; - for standard input), or one of: ${SCENARIO_NAMES.join(', ')}`,
    )
    .description(
      'run each seed with its bytes moved by the kernels and by the native backend; exits 1 when a schedule, a status or a byte differs',
    )
    .addOption(new Option('--mode <mode>', 'who moves the KV').choices(['read', 'write', 'both']))
    .addOption(
      new Option('--seeds <n>', 'schedules to run on each').argParser(wholeNumber(1, 1e9)).default(200),
    )
    .addOption(new Option('--seed <n>', 'the first seed').argParser(wholeNumber(0, SEED_FROM_MAX)).default(0))
    .addOption(providerOption())
    .option('--json', 'one JSON document on standard output')
    .action(async (file: string | undefined, flags: DiffFlags) => finish(await diff(file, flags)));
}

/** Seeds between two looks for a signal. */
const SLICE = 8;

async function diff(file: string | undefined, flags: DiffFlags): Promise<number> {
  const scenario = scenarioOf(file, flags);
  const [ours, theirs] = [checkMemory(), checkMemory()];
  const native = openNative(flags.provider, theirs);
  const sides = [
    { name: 'wasm', memory: ours, fabric: () => createWasmFabric(ours) },
    { name: 'native', memory: theirs, fabric: fabricOfRuns(native) },
  ] as const;
  const options = {
    scenario,
    seedFrom: flags.seed,
    seeds: flags.seeds,
    onProgress: (seeds: number) => showProgress(`${thousands(seeds)} seeds on both backends`),
  };
  const outcome = newDiff();
  const interruption = watchSignals();
  await inSlices(interruption, () => advanceDiff(sides, options, outcome, SLICE));
  interruption.ignore();
  endProgress();
  const { harness, ...figures } = outcome;
  const page = { scenario, flags: ` --backend native --provider ${native.provider}` };
  if (flags.json)
    printJson({
      ...figures,
      ...harnessAsJson(harness, page),
      provider: native.provider,
      library: native.library,
      interrupted: interruption.signal,
    });
  else
    for (const line of [
      ...showHarnessFailures(harness, page),
      ...showInterruption(interruption),
      ...showDiff(outcome, native.provider),
    ])
      print(line);
  return exitUnless(interruption, exitOf(outcome.differing.length, harness));
}

function showDiff({ seeds, equal, batches, differing }: Diff, provider: NativeProvider): string[] {
  return [
    ...differing.map(
      ({ seed, outcomes }) =>
        `seed ${seed} differs in ${differences(outcomes).join(', ')}; try ${tryIt(seed)}`,
    ),
    `${thousands(seeds)} seeds on wasm and on native ${provider}, ${thousands(batches)} batches: ${thousands(equal)} equal, ${thousands(differing.length)} differ`,
  ];
}

function differences({ wasm, native }: DiffSeed['outcomes']): string[] {
  const fields = Object.keys(wasm!) as (keyof DiffOutcome)[];
  return fields.filter((field) => JSON.stringify(wasm![field]) !== JSON.stringify(native![field]));
}

function tryIt(seed: number): string {
  return `\`moriarty diff --seed ${seed} --seeds 1 --json\``;
}

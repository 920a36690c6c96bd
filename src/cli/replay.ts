import type { Command } from 'commander';
import { isReplayLine, readReplayLine, readReplayText } from '../explore/replay-line.ts';
import type { NativeProvider } from '../node/native-fabric.ts';
import { INVARIANTS } from '../oracle/verdict.ts';
import { PAGE, timeline } from '../report/timeline.ts';
import { runSeed, runTape } from '../sim/run.ts';
import type { RunResult } from '../sim/run-spec.ts';
import { tapeRows } from '../sim/tape.ts';
import { type BackendName, backendOption, openBackend, providerOption } from './backend.ts';
import { checkMemory, readText } from './harness.ts';
import { complain, EXIT, print, printJson } from './output.ts';

interface ReplayFlags {
  readonly json?: boolean;
  readonly full?: boolean;
  readonly backend: BackendName;
  readonly provider?: NativeProvider;
}

export function addReplay(program: Command, finish: (code: number) => void): void {
  program
    .command('replay')
    .argument(
      '<line-or-file>',
      'a replay line (mor1....), or a JSON file with version, scenario, and seed or tape',
    )
    .description('run one schedule again, byte for byte, and tell its story')
    .addOption(backendOption())
    .addOption(providerOption())
    .option('--full', 'every step, not the page that matters')
    .option('--json', 'one JSON document on standard output')
    .action((source: string, flags: ReplayFlags) => finish(replay(source, flags)));
}

function replay(source: string, flags: ReplayFlags): number {
  const told = isReplayLine(source) ? readReplayLine(source) : readReplayText(readText(source), source);
  const memory = checkMemory();
  const backend = openBackend(flags, memory);
  const options = { record: true, ...backend.options };
  const { scenario } = told;
  const { result, tape } =
    'seed' in told.source
      ? runSeed(memory, scenario, told.source.seed, options)
      : runTape(memory, scenario, told.source.tape, options);
  const { violation, digest, steps } = result;
  if (flags.json)
    printJson({
      digest,
      steps,
      violation,
      waits: result.waits,
      ...backend.told,
      tape: tapeRows(tape.recorded),
    });
  else printRun(result, flags.full ?? false);
  if (told.digest !== '' && told.digest !== digest) {
    complain(
      `moriarty: REPLAY-DIGEST: the run's digest is ${digest}, the line says ${told.digest}: it was made by another version of the code, or the harness is not deterministic`,
    );
    return EXIT.harness;
  }
  return violation === null ? EXIT.fine : EXIT.violation;
}

function printRun(result: RunResult, full: boolean): void {
  const page = full ? { linesMax: Number.MAX_SAFE_INTEGER, widthMax: 1000 } : PAGE;
  for (const line of timeline(result.record, page)) print(line);
  const { violation } = result;
  if (violation === null) print('no violation');
  else {
    print(`${violation.invariant} broken: ${INVARIANTS[violation.invariant]}`);
    print(`  at ${violation.place}: ${violation.detail}`);
    for (const wait of result.waits) print(`  ${wait}`);
  }
  print(`${result.steps} steps, digest ${result.digest}`);
}

import { existsSync } from 'node:fs';
import { UsageError } from '../../base/failure.ts';
import { hasReplayLine } from '../../explore/pasted.ts';
import { type Replay, readReplay } from '../../explore/replay-line.ts';
import { runSeed, runTape } from '../../explore/run.ts';
import type { NativeProvider } from '../../node/native-fabric.ts';
import { sourcePlaces } from '../../node/source-places.ts';
import { recordAsJson } from '../../report/record-json.ts';
import { EVERYTHING, PAGE, type TimelineOptions, timeline } from '../../report/timeline.ts';
import { violationAsJson, violationInWords, waitInWords } from '../../report/violation-words.ts';
import type { RunResult } from '../../sim/run-spec.ts';
import { tapeRows } from '../../sim/tape.ts';
import { SPECIMEN_NAMES } from '../../zoo/registry.ts';
import { BACKEND_OPTION, type BackendName, openBackend, PROVIDER_OPTION } from '../backend.ts';
import { commandOf } from '../command.ts';
import { readText } from '../files.ts';
import { checkMemory } from '../harness.ts';
import { JSON_OPTION } from '../options.ts';
import { complain, EXIT, print, printJson } from '../output.ts';

interface ReplayFlags {
  readonly json?: boolean;
  readonly full?: boolean;
  readonly backend: BackendName;
  readonly provider?: NativeProvider;
}

export const command = commandOf<ReplayFlags>({
  argument:
    'a replay line (mor1....) with or without what was printed around it, or a file that holds one (a log, or JSON with version, scenario, and seed or tape), or - for standard input',
  options: [
    BACKEND_OPTION,
    PROVIDER_OPTION,
    { flag: '--full', text: 'every step, not the page that matters' },
    JSON_OPTION,
  ],
  examples: [
    {
      line: 'replay <line or file>',
      does: 'runs one schedule again, byte for byte; takes what you paste, a log that holds the line, or `-`; `--full` shows every step',
    },
  ],
  run: replay,
});

/**
 * What the arguments say: one file, or a line and the words around it, as the shell has split them, or the JSON it stands for.
 *
 * @throws UsageError as readReplay and readText do; REPLAY-CONNECTOR for a connector that is not in this program.
 */
export function toldBy(words: readonly string[]): Replay {
  const [first = ''] = words;
  const text = words.join(' ');
  const isTold = hasReplayLine(text) || /^\s*\{/.test(text);
  const isPath = words.length === 1 && (existsSync(first) || !isTold);
  if (!isPath && !isTold)
    throw new UsageError(
      'REPLAY-LINE',
      `${words.length} arguments without a replay line: give one line or one file`,
    );
  const told = isPath ? readReplay(readText(first, 'replay'), first) : readReplay(text, 'the replay line');
  if (told.connector !== told.scenario.connector)
    throw new UsageError(
      'REPLAY-CONNECTOR',
      `the run was of connector ${JSON.stringify(told.connector)}, which is not in this program (it has ${SPECIMEN_NAMES.join(' and ')}): replay it through the library, readReplayLine and then runTape or runSeed with parts that make it`,
    );
  return told;
}

function replay(words: readonly string[], flags: ReplayFlags): number {
  const told = toldBy(words);
  const memory = checkMemory();
  const backend = openBackend(flags, memory);
  const options = { record: true, ...backend.options };
  const { scenario } = told;
  const { result, tape } =
    'seed' in told.source
      ? runSeed(memory, scenario, told.source.seed, options)
      : runTape(memory, scenario, told.source.tape, options);
  const { violation, digest, steps } = result;
  const page = flags.full ? EVERYTHING : PAGE;
  const { actorNames } = result.record;
  if (flags.json)
    printJson({
      digest,
      steps,
      violation: violation === null ? null : violationAsJson(violation, actorNames),
      waits: result.waits,
      ...backend.told,
      tape: tapeRows(tape.recorded),
      record: recordAsJson(result.record, page),
    });
  else printRun(result, page);
  if (told.digest !== '' && told.digest !== digest) {
    complain(
      `moriarty: REPLAY-DIGEST: the run's digest is ${digest}, the line says ${told.digest}: it was made by another version of the code or with a connector of somebody's own, was edited, or the harness is not deterministic`,
    );
    return EXIT.harness;
  }
  return violation === null ? EXIT.fine : EXIT.violation;
}

function printRun(result: RunResult, page: TimelineOptions): void {
  for (const line of timeline(result.record, page)) print(line);
  const { violation, waits, record } = result;
  if (violation === null) print('no violation');
  else print(sourcePlaces(violationInWords(violation, record.actorNames)));
  for (const wait of waits) print(`  ${waitInWords(wait, record.actorNames)}`);
  print(`${result.steps} steps, digest ${result.digest}`);
}

import { existsSync } from 'node:fs';
import { UsageError } from '../../base/failure.ts';
import { hasReplayLine } from '../../explore/pasted.ts';
import { type Replay, readReplay } from '../../explore/replay-line.ts';
import { runSeed, runTape, whoRan } from '../../explore/run.ts';
import type { NativeProvider } from '../../node/native-fabric.ts';

import { sourcePlaces } from '../../node/source-places.ts';
import { recordAsJson } from '../../report/record-json.ts';
import { EVERYTHING, PAGE, type TimelineOptions, timeline } from '../../report/timeline.ts';
import { violationAsJson, violationInWords, waitInWords } from '../../report/violation-words.ts';
import type { RunResult } from '../../sim/run-spec.ts';
import { tapeRows } from '../../sim/tape.ts';
import { SPECIMEN_NAMES } from '../../zoo/registry.ts';
import type { Parts } from '../../zoo/specimen.ts';
import { BACKEND_OPTION, type BackendName, openBackend, PROVIDER_OPTION } from '../backend.ts';
import { commandOf } from '../command.ts';
import { readText } from '../files.ts';
import { PYTHON_OPTION } from '../guest.ts';
import { checkMemory } from '../harness.ts';
import { JSON_OPTION } from '../options.ts';
import { complain, EXIT, print, printJson } from '../output.ts';
import { kindOfFile } from '../own-kinds.ts';

interface ReplayFlags {
  readonly json?: boolean;
  readonly full?: boolean;
  readonly connector?: string;
  readonly changed?: boolean;
  readonly python?: string;
  readonly backend: BackendName;
  readonly provider?: NativeProvider;
}

export const command = commandOf<ReplayFlags>({
  argument:
    'a replay line (mor2....) with or without what was printed around it, or a file that holds one (a log, or JSON with version, scenario, and seed or tape), or - for standard input',
  options: [
    {
      flag: '--connector <path>',
      text: 'of a connector of your own: the module or guest description, if it is not where the line says',
    },
    PYTHON_OPTION,
    { flag: '--changed', text: 'go on although that file has changed since the line was printed' },
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
 * @throws UsageError as readReplay and readText do.
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
  return told;
}

async function replay(words: readonly string[], flags: ReplayFlags): Promise<number> {
  const told = toldBy(words);
  const { parts, isSame } = await attackedBy(told, flags);
  const memory = checkMemory();
  const backend = openBackend(flags, memory);
  const options = { record: true, ...backend.options, ...(parts === null ? {} : { parts }) };
  const { scenario } = told;
  const run =
    'seed' in told.source
      ? runSeed(memory, scenario, told.source.seed, options)
      : runTape(memory, scenario, told.source.tape, options);
  const { result, tape } = run;
  const { violation, digest, steps } = result;
  const page = flags.full ? EVERYTHING : PAGE;
  const { actorNames } = result.record;
  if (flags.json)
    printJson({
      ...whoRan(run),
      digest,
      steps,
      violation: violation === null ? null : violationAsJson(violation, actorNames),
      waits: result.waits,
      ...backend.told,
      tape: tapeRows(tape.recorded),
      record: recordAsJson(result.record, page),
    });
  else printRun(result, page);
  if (!isSame)
    complain('moriarty: the connector has changed since the line was printed, so no digest is compared');
  else if (told.digest !== '' && told.digest !== digest) {
    complain(
      `moriarty: REPLAY-DIGEST: the run's digest is ${digest}, the line says ${told.digest}: it was made by another version of the code, or of what a connector of your own imports; it was edited; or the harness is not deterministic`,
    );
    return EXIT.harness;
  }
  return violation === null ? EXIT.fine : EXIT.violation;
}

interface Attacked {
  /** Null for a connector of the registry. */
  readonly parts: (() => Parts) | null;
  /** False when a connector of the user's own is another one than the line tells of. */
  readonly isSame: boolean;
}

/** The module that a run needs, as the line or a flag says; null for a connector of ours. @throws UsageError REPLAY-CONNECTOR */
export function modulePathOf({ connector, module, scenario }: Replay, flag?: string): string | null {
  const path = flag ?? module?.path;
  if (path === undefined && connector !== scenario.connector)
    throw new UsageError(
      'REPLAY-CONNECTOR',
      `the run was of connector ${JSON.stringify(connector)}, which is not in this program (it has ${SPECIMEN_NAMES.join(' and ')}): give its module with --connector ./mine.mjs, or replay it through the library, readReplayLine and then runTape or runSeed with parts that make it`,
    );
  return path ?? null;
}

/** @throws UsageError REPLAY-CONNECTOR, REPLAY-CHANGED, and as loadOwnConnector and loadGuest do. */
async function attackedBy(told: Replay, flags: ReplayFlags): Promise<Attacked> {
  const { module } = told;
  const path = modulePathOf(told, flags.connector);
  if (path === null) return { parts: null, isSame: true };
  const kind = kindOfFile(path);
  const isSame = module === undefined || kind.refOf(path).hash === module.hash;
  if (!isSame && flags.changed !== true)
    throw new UsageError(
      'REPLAY-CHANGED',
      `${path} is not what it was when the line was printed (content ${kind.refOf(path).hash}, the line says ${module.hash}): the run may be another one. Take back the change, or give --changed to see what the run comes to now`,
    );
  return { parts: (await kind.load(path, flags.python)).parts, isSame };
}

function printRun(result: RunResult, page: TimelineOptions): void {
  for (const line of timeline(result.record, page)) print(line);
  const { violation, waits, record } = result;
  if (violation === null) print('no violation');
  else print(sourcePlaces(violationInWords(violation, record.actorNames)));
  for (const wait of waits) print(`  ${waitInWords(wait, record.actorNames)}`);
  print(`${result.steps} steps, digest ${result.digest}`);
}

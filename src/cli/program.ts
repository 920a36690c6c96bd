import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { UsageError } from '../base/failure.ts';
import { harnessFailureOf } from '../explore/harness-failure.ts';
import { sourcePlaces } from '../node/source-places.ts';
import { type CommandBody, type CommandRow, type Example, OddValue, type OptionRow } from './command.ts';
import { COMMANDS, nameOf } from './commands.ts';
import { complain, EXIT, write } from './output.ts';
import { version } from './version.ts';

/** The command line: the rows of the registry as commander wants them. Only the command that was asked for is loaded. */

const EXIT_CODES = `
Exit codes:
  0  nothing wrong
  1  a violation was found
  2  the arguments or inputs are wrong, or standard output could not be written
  3  the harness itself failed
  130, 143  interrupted (Ctrl-C, SIGTERM); check, diff and demo print what they found so far`;

/** Runs one command line and says how the program ends. */
export async function runProgram(args: readonly string[], rows = COMMANDS): Promise<number> {
  let code: number = EXIT.fine;
  const program = new Command('moriarty')
    .description(
      'The adversary of KV-cache transfer protocols: finds the interleaving that hangs, leaks or corrupts',
    )
    .version(version())
    .addHelpText('after', EXIT_CODES)
    .exitOverride()
    .configureOutput({
      writeOut: write,
      writeErr: (text) => complain(text.trimEnd()),
      outputError: (text, writeTo) => writeTo(`moriarty: ${text.replace(/^error: /, '')}`),
    });
  for (const row of rows)
    program.command(row.form).description(row.summary).copyInheritedSettings(program).exitOverride();
  program.hook('preSubcommand', async (_, command) => {
    const { command: body } = await rows.find((row) => nameOf(row) === command.name())!.load();
    complete(command, body, (ended) => {
      code = ended;
    });
  });
  try {
    await program.parseAsync(withoutHelpWord(args, rows), { from: 'user' });
    return code;
  } catch (error) {
    return exitCodeOf(error);
  }
}

/** `help check` as `check --help`: commander answers the former before it asks for what is to be loaded. */
function withoutHelpWord(args: readonly string[], rows: readonly CommandRow[]): readonly string[] {
  const [word, name] = args;
  return word === 'help' && rows.some((row) => nameOf(row) === name) ? [name!, '--help'] : args;
}

function complete(command: Command, body: CommandBody, finish: (code: number) => void): void {
  const { argument, options, examples, run } = body;
  const help = body.help === undefined ? [] : [body.help];
  if (argument !== undefined) command.registeredArguments[0]!.description = argument;
  for (const row of options) command.addOption(optionOf(row));
  command.addHelpText('after', [...help, ...showExamples(examples), EXIT_CODES].join('\n'));
  command.action(async () => finish(await run(command.args, command.opts())));
}

function optionOf({ flag, text, choices, parse, usual, conflicts, required }: OptionRow): Option {
  const option = new Option(flag, text);
  if (choices !== undefined) option.choices(choices);
  if (parse !== undefined) option.argParser((value) => parsed(parse, value));
  if (usual !== undefined) option.default(usual);
  if (conflicts !== undefined) option.conflicts(conflicts);
  if (required) option.makeOptionMandatory();
  return option;
}

/** Commander adds the flag's name to the complaint. */
function parsed(parse: (text: string) => unknown, value: string): unknown {
  try {
    return parse(value);
  } catch (error) {
    throw error instanceof OddValue ? new InvalidArgumentError(error.message) : error;
  }
}

function showExamples(examples: readonly Example[]): string[] {
  if (examples.length === 0) return [];
  return [
    '',
    'Examples:',
    ...examples.flatMap(({ line, does }) => [`  npx moriarty ${line}`, `      ${does}`]),
  ];
}

/** How the program ends after what nobody caught: a failure of ours is never the exit code of a violation. */
export function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.fine : EXIT.usage;
  if (error instanceof UsageError) {
    complain(`moriarty: ${error.code}: ${error.message}`);
    return EXIT.usage;
  }
  const { code, message, stack } = harnessFailureOf(error, null, 'run');
  complain(sourcePlaces([`moriarty: the harness failed: ${code}: ${message}`, ...stack].join('\n    ')));
  return EXIT.harness;
}

#!/usr/bin/env node
import { Command, CommanderError } from 'commander';
import { UsageError } from '../base/failure.ts';
import { harnessFailureOf } from '../explore/harness-failure.ts';
import { addBench } from './commands/bench.ts';
import { addCheck } from './commands/check.ts';
import { addDemo } from './commands/demo.ts';
import { addDiff } from './commands/diff.ts';
import { addDoctor } from './commands/doctor.ts';
import { addPlan } from './commands/plan.ts';
import { addReplay } from './commands/replay.ts';
import { addTrace } from './commands/trace.ts';
import { complain, EXIT, exitAfterOutput, write } from './output.ts';
import { version } from './version.ts';

const EXIT_CODES = `
Exit codes:
  0  nothing wrong
  1  a violation was found
  2  the arguments or inputs are wrong, or standard output could not be written
  3  the harness itself failed
  130, 143  interrupted (Ctrl-C, SIGTERM); check, diff and demo print what they found so far`;

async function main(args: readonly string[]): Promise<number> {
  let code: number = EXIT.fine;
  const finish = (ended: number): void => {
    code = ended;
  };
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
  for (const add of [addCheck, addReplay, addTrace, addPlan, addDiff, addDoctor, addBench, addDemo])
    add(program, finish);
  for (const command of program.commands)
    command.exitOverride().copyInheritedSettings(program).addHelpText('after', EXIT_CODES);
  try {
    await program.parseAsync(args, { from: 'user' });
    return code;
  } catch (error) {
    return exitCodeOf(error);
  }
}

function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.fine : EXIT.usage;
  if (error instanceof UsageError) {
    complain(`moriarty: ${error.code}: ${error.message}`);
    return EXIT.usage;
  }
  const { code, message, stack } = harnessFailureOf(error, null, 'run');
  complain([`moriarty: the harness failed: ${code}: ${message}`, ...stack].join('\n    '));
  return EXIT.harness;
}

// Whatever nobody caught is a failure of ours, and never the exit code of a violation.
process.on('uncaughtException', (error) => process.exit(exitAfterOutput(exitCodeOf(error))));

process.exitCode = exitAfterOutput(await main(process.argv.slice(2)));

#!/usr/bin/env node
import { exitAfterOutput } from './output.ts';
import { exitCodeOf, runProgram } from './program.ts';

process.on('uncaughtException', (error) => process.exit(exitAfterOutput(exitCodeOf(error))));

process.exitCode = exitAfterOutput(await runProgram(process.argv.slice(2)));

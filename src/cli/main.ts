#!/usr/bin/env node
import { isMainThread } from 'node:worker_threads';
import { exitAfterOutput } from './output.ts';
import { exitCodeOf, runProgram } from './program.ts';

if (isMainThread) {
  process.on('uncaughtException', (error) => process.exit(exitAfterOutput(exitCodeOf(error))));
  process.exitCode = exitAfterOutput(await runProgram(process.argv.slice(2)));
} else await import('./worker.ts');

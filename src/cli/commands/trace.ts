import {
  runTrace,
  TRACE_DEFAULTS,
  type TraceOptions,
  type TraceSummary,
  tracePages,
} from '../../explore/trace-run.ts';
import { readKernelBytes } from '../../node/kernel-bytes.ts';
import { packageFile } from '../../node/package-file.ts';
import { violationInWords } from '../../report/violation-words.ts';
import { instantiateKernels } from '../../sim/load-kernels.ts';
import { readTrace } from '../../sim/request-trace.ts';
import type { RunResult } from '../../sim/run-spec.ts';
import { commandOf } from '../command.ts';
import { readText } from '../files.ts';
import { JSON_OPTION, MODE_OPTION, wholeNumber } from '../options.ts';
import { complain, EXIT, endProgress, print, printJson, showProgress, thousands } from '../output.ts';

/** Ended requests between two progress lines. */
const PROGRESS_EVERY = 50;

interface TraceFlags {
  readonly mode: 'read' | 'write';
  readonly prefill: number;
  readonly decode: number;
  readonly blocks: number;
  readonly json?: boolean;
}

/** The trace that the project brings along. */
export const SMALL_TRACE = packageFile('examples/small.jsonl');

export const command = commandOf<TraceFlags>({
  argument:
    'a request trace in Mooncake format, one JSON object a line, or - for standard input (default: a small one of our own)',
  options: [
    { ...MODE_OPTION, choices: ['read', 'write'], usual: TRACE_DEFAULTS.mode },
    {
      flag: '--prefill <n>',
      text: 'prefill instances',
      parse: wholeNumber(1, 16),
      usual: TRACE_DEFAULTS.prefillInstances,
    },
    {
      flag: '--decode <n>',
      text: 'decode instances',
      parse: wholeNumber(1, 16),
      usual: TRACE_DEFAULTS.decodeInstances,
    },
    {
      flag: '--blocks <n>',
      text: 'KV blocks of 16 tokens for each instance',
      parse: wholeNumber(16, 1_000_000),
      usual: TRACE_DEFAULTS.blocksPerEngine,
    },
    JSON_OPTION,
  ],
  examples: [
    { line: 'trace', does: "sends a request trace (Mooncake's format) through a cluster in time order" },
  ],
  run: ([file], flags) => trace(file ?? SMALL_TRACE, flags),
});

function trace(path: string, flags: TraceFlags): number {
  const options: TraceOptions = {
    ...TRACE_DEFAULTS,
    mode: flags.mode,
    prefillInstances: flags.prefill,
    decodeInstances: flags.decode,
    blocksPerEngine: flags.blocks,
  };
  const { summary, result } = traceFile(path, options);
  if (flags.json) printJson(summary);
  else print(showSummary(path, options, summary));
  const { violation } = result;
  if (violation === null) return EXIT.fine;
  complain(violationInWords(violation, result.record.actorNames));
  return EXIT.violation;
}

export function traceFile(path: string, options: TraceOptions): { summary: TraceSummary; result: RunResult } {
  const requests = readTrace(readText(path, 'trace'), path);
  const pages = tracePages(requests, options);
  const onProgress = (ended: number): void => {
    if (ended % PROGRESS_EVERY === 0)
      showProgress(`   trace: ${thousands(ended)} of ${thousands(requests.length)} requests`);
  };
  const outcome = runTrace(instantiateKernels(readKernelBytes(), pages), requests, options, onProgress);
  endProgress();
  return outcome;
}

export function showSummary(path: string, options: TraceOptions, summary: TraceSummary): string {
  const { timeToFirstTokenMs: first, endToEndMs: whole, queueDepth } = summary;
  const share = (100 * summary.prefixHitTokens) / summary.inputTokens;
  const rows: [string, string][] = [
    [
      'trace',
      `${path}, ${options.mode.toUpperCase()} mode, ${options.prefillInstances} P + ${options.decodeInstances} D, model ${options.model.name}`,
    ],
    [
      'requests',
      `${thousands(summary.requests)}: ${thousands(summary.completed)} completed, ${thousands(summary.failed)} failed`,
    ],
    ['tokens', `${thousands(summary.inputTokens)} in, ${thousands(summary.outputTokens)} out`],
    ['prefix hits', `${thousands(summary.prefixHitTokens)} tokens (${share.toFixed(1)} %) at P`],
    ['KV moved', `${(summary.kvBytes / 1e9).toFixed(1)} GB`],
    ['first token', `p50 ${first.p50.toFixed(0)} ms, p99 ${first.p99.toFixed(0)} ms`],
    ['end to end', `p50 ${whole.p50.toFixed(0)} ms, p99 ${whole.p99.toFixed(0)} ms`],
    ['queue depth', `mean ${queueDepth.mean}, most ${queueDepth.max} requests in the cluster`],
    ['blocks left', `${summary.blocksLeft}`],
    [
      'run',
      `${thousands(summary.simulatedSeconds)} simulated s, ${thousands(summary.steps)} steps, digest ${summary.digest}`,
    ],
  ];
  return rows.map(([name, value]) => `  ${name.padEnd(12)} ${value}`).join('\n');
}

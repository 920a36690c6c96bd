import type { CommandRow } from './command.ts';

/** The commands, in the order of `--help` and of the README. */
export const COMMANDS: readonly CommandRow[] = [
  {
    form: 'check [scenario]',
    summary: 'run many schedules and report each kind of failure, shrunk, with the line that replays it',
    load: () => import('./commands/check.ts'),
  },
  {
    form: 'replay <line-or-file...>',
    summary: 'run one schedule again, byte for byte, and tell its story',
    load: () => import('./commands/replay.ts'),
  },
  {
    form: 'diff [scenario]',
    summary:
      'run each seed with its bytes moved by the kernels and by the native backend; exits 1 when a schedule, a status or a byte differs',
    load: () => import('./commands/diff.ts'),
  },
  {
    form: 'doctor',
    summary:
      'what each backend needs to build and to run, what was found, what to do; exits 0 when wasm is whole',
    load: () => import('./commands/doctor.ts'),
  },
  {
    form: 'trace [file]',
    summary: 'send a request trace through a simulated cluster, in time order, and sum it up',
    load: () => import('./commands/trace.ts'),
  },
  {
    form: 'plan',
    summary: 'what one KV transfer takes: who sends what to whom, runs, bytes, work requests, time',
    load: () => import('./commands/plan.ts'),
  },
  {
    form: 'bench <suite>',
    summary: 'measure, as ratios within one run; exits 1 when a floor is missed',
    load: () => import('./commands/bench.ts'),
  },
  {
    form: 'demo',
    summary:
      'the main job: attack the shipped connector, find the faults of the first published one, run a trace',
    load: () => import('./commands/demo.ts'),
  },
];

/** `check` of `check [scenario]`. */
export function nameOf({ form }: CommandRow): string {
  return form.split(' ')[0]!;
}

import { execFileSync } from 'node:child_process';
import { believe } from '../../base/failure.ts';
import { checkMemory } from '../harness.ts';
import { type Figure, figure, median } from './figures.ts';
import { runSchedules } from './world-schedules.ts';

/** The schedules of one plain `check`. */
const SCHEDULES = 2_000;
const COLD_CEILING = 2;
/** Warm rounds of the same schedules, after one that only warms up. */
const WARM_ROUNDS = 3;
const PROCESSES = 3;

/** CPU of the first schedules of a process against that of warm ones; wants a process in which none has run yet. */
export function coldFigures(): Figure[] {
  const memory = checkMemory();
  const seconds: number[] = [];
  for (let round = 0; round < 2 + WARM_ROUNDS; round++)
    seconds.push(cpuSeconds(() => runSchedules(memory, 0, SCHEDULES)));
  return [coldFigure(seconds[0]!, seconds[0]! / median(seconds.slice(2)))];
}

/** The median of fresh processes of this very command. */
export function coldInProcesses(): Figure {
  const figures = Array.from({ length: PROCESSES }, () => coldInProcess());
  return coldFigure(median(figures.map(({ value }) => value)), median(figures.map(({ ratio }) => ratio)));
}

function coldFigure(seconds: number, ratio: number): Figure {
  const against = 'as many warm ones';
  return figure(`first ${SCHEDULES} schedules`, seconds, 's CPU', against, ratio, 'atMost', COLD_CEILING);
}

function coldInProcess(): Figure {
  const json = outputOf([process.argv[1]!, 'bench', 'cold', '--json']);
  const { figures } = JSON.parse(json) as { readonly figures: readonly Figure[] };
  const [figure] = figures;
  believe(figure !== undefined, 'INV-BENCH-2', 'bench cold gave no figure');
  return figure;
}

/** Standard output; that of exit code 1 too, which says that the ceiling is missed. */
function outputOf(args: readonly string[]): string {
  try {
    return execFileSync(process.execPath, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
  } catch (error) {
    const { status, stdout } = error as { readonly status?: number; readonly stdout?: string };
    if (status === 1 && stdout !== undefined) return stdout;
    throw error;
  }
}

/** Of all threads of this process: compiler and collector count. */
function cpuSeconds(act: () => void): number {
  const before = process.cpuUsage();
  act();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
}

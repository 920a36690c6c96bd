import { runSeed } from '../../explore/run.ts';
import type { WorldMemory } from '../../sim/memory.ts';
import type { RunObserver } from '../../sim/run-spec.ts';
import { SHIPPED_MIX } from '../../zoo/shipped.ts';
import { checkMemory } from '../harness.ts';
import { type Figure, figure, median } from './figures.ts';
import { runPlainLoop } from './plain-loop.ts';
import { coldInProcesses } from './world-cold.ts';
import { garbageFigures } from './world-garbage.ts';
import { runSchedules } from './world-schedules.ts';

/** Schedules until the code is compiled. */
const WARM_UP = 2_000;
/** Schedules of one slice: short, so that loop and world meet the same moods of the machine. */
const SLICE = 100;
const SLICES_PER_ROUND = 4;
/** Steps of the plain loop beside a slice; they take about as long. */
const PLAIN_STEPS = 100_000;

const STEPS_FLOOR = 0.25;
const SETUP_CEILING = 0.15;

/** The world's speed, start and garbage on the default mix, each against something of the same run. */
export function worldFigures(rounds: number): Figure[] {
  const cold = coldInProcesses();
  const memory = checkMemory();
  runSchedules(memory, 0, WARM_UP);
  runPlainLoop(PLAIN_STEPS, 0);
  const slices = rounds * SLICES_PER_ROUND;
  // Garbage last: what counts Maps slows down all that makes them.
  return [stepRate(memory, slices), cold, setupShare(memory, slices), ...garbageFigures(memory)];
}

function stepRate(memory: WorldMemory, slices: number): Figure {
  const rates: number[] = [];
  const ratios: number[] = [];
  for (let slice = 0; slice < slices; slice++) {
    const world = stepsPerSecond(() => runSchedules(memory, slice * SLICE, SLICE));
    const plain = stepsPerSecond(() => {
      runPlainLoop(PLAIN_STEPS, slice);
      return PLAIN_STEPS;
    });
    rates.push(world);
    ratios.push(world / plain);
  }
  const against = 'a plain loop with the same duties';
  return figure('steps', median(rates), 'steps/s', against, median(ratios), 'atLeast', STEPS_FLOOR);
}

function stepsPerSecond(run: () => number): number {
  const started = performance.now();
  const steps = run();
  return steps / ((performance.now() - started) / 1000);
}

/** How much of a schedule is over when its first event happens. */
function setupShare(memory: WorldMemory, slices: number): Figure {
  const micros: number[] = [];
  const shares: number[] = [];
  for (let slice = 0; slice < slices; slice++) {
    let [setup, whole, started] = [0, 0, 0];
    const observer: RunObserver = {
      begins: () => {
        setup += performance.now() - started;
      },
      note: () => undefined,
      moved: () => undefined,
    };
    for (let at = 0; at < SLICE; at++) {
      started = performance.now();
      runSeed(memory, SHIPPED_MIX, slice * SLICE + at, { observer });
      whole += performance.now() - started;
    }
    micros.push((setup * 1000) / SLICE);
    shares.push(setup / whole);
  }
  const share = median(shares);
  return figure('set-up of a schedule', median(micros), 'us', 'all of it', share, 'atMost', SETUP_CEILING);
}

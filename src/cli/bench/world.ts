import { runCampaign } from '../../explore/campaign.ts';
import { SHIPPED_MIX } from '../../zoo/shipped.ts';
import { checkMemory } from '../harness.ts';
import { type Figure, figure, median } from './figures.ts';

/** Schedules of one round, and the floors of the first version: schedules and steps a second on one core, judges on. */
const SCHEDULES = 2_000;
const SCHEDULES_FLOOR = 1_000;
const STEPS_FLOOR = 200_000;

/** The world's speed. Its floors are absolute, so the ratio is the measured rate against the floor. */
export function worldFigures(rounds: number): Figure[] {
  const memory = checkMemory();
  const schedules: number[] = [];
  const steps: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const started = performance.now();
    const seedFrom = round * SCHEDULES;
    const campaign = runCampaign(memory, {
      scenario: SHIPPED_MIX,
      seedFrom,
      goOn: (done) => done < SCHEDULES,
      stopAtFirst: false,
    });
    const seconds = (performance.now() - started) / 1000;
    schedules.push(campaign.schedules / seconds);
    steps.push(campaign.steps / seconds);
  }
  const of = (name: string, rates: number[], unit: string, floor: number): Figure =>
    figure(name, median(rates), unit, `${floor} ${unit}`, median(rates) / floor, 'atLeast', 1);
  return [
    of('schedules', schedules, 'schedules/s', SCHEDULES_FLOOR),
    of('steps', steps, 'steps/s', STEPS_FLOOR),
  ];
}

import type { Scenario } from '../sim/scenario.ts';
import { SPECIMENS } from '../zoo/registry.ts';

/** The scenarios that have a name: one of each connector in the registry. */

const NAMED: readonly Scenario[] = SPECIMENS.map((specimen) => specimen.scenario);

export const SCENARIO_NAMES = NAMED.map((candidate) => candidate.name);

export function scenarioByName(name: string): Scenario | undefined {
  return NAMED.find((candidate) => candidate.name === name);
}

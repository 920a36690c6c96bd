import { UsageError } from '../base/failure.ts';
import { describeValue } from '../base/thrown.ts';
import type { Scenario } from '../sim/scenario.ts';
import { AS_WRITTEN } from './as-written/index.ts';
import { SHIPPED } from './shipped.ts';
import type { Specimen } from './specimen.ts';

/** Every connector that this program has, the one that is meant when nobody names one first. */
export const SPECIMENS: readonly Specimen[] = [SHIPPED, AS_WRITTEN];

export const SPECIMEN_NAMES = SPECIMENS.map(({ name }) => name);

const BY_NAME: ReadonlyMap<string, Specimen> = new Map(SPECIMENS.map((row) => [row.name, row]));

export function specimenByName(name: string): Specimen | undefined {
  return BY_NAME.get(name);
}

/** The one that a scenario names. @throws UsageError CONNECTOR-UNKNOWN */
export function specimenOf({ connector }: Scenario): Specimen {
  const specimen = BY_NAME.get(connector);
  if (specimen === undefined)
    throw new UsageError(
      'CONNECTOR-UNKNOWN',
      `connector ${describeValue(connector)} is not in this program, which has ${SPECIMEN_NAMES.join(' and ')}; one of your own is given as parts`,
    );
  return specimen;
}

import type { Connector } from '../../connector/plug.ts';
import type { Specimen } from '../specimen.ts';
import { asWrittenChoice } from './choice.ts';
import { FAULTS, type FaultSet, faultSet } from './faults.ts';
import { AS_WRITTEN_GOALS } from './goals.ts';
import { AS_WRITTEN_MIX } from './mix.ts';
import { createAsWrittenScheduler } from './scheduler-side.ts';
import { createAsWrittenWorker } from './worker-side.ts';

/** The first published MoRIIO connector, threads included, with the faults of the set on and all others mended. */
function asWritten(faults: FaultSet): Connector {
  return {
    name: 'as-written',
    goals: AS_WRITTEN_GOALS,
    createScheduler: (env) => createAsWrittenScheduler(env, faults),
    createWorker: (env) => createAsWrittenWorker(env, faults),
  };
}

export const AS_WRITTEN: Specimen = {
  name: 'as-written',
  summary: 'the first published MoRIIO connector as it was first written, threads, known faults and all',
  bugs: FAULTS,
  scenario: AS_WRITTEN_MIX,
  parts(bugs) {
    const faults = faultSet(bugs);
    return { connector: asWritten(faults), policy: asWrittenChoice(faults) };
  },
};

import type { Connector } from '../plug.ts';
import type { FaultSet } from './faults.ts';
import { createAsWrittenScheduler } from './scheduler-side.ts';
import { createAsWrittenWorker } from './worker-side.ts';

export { FAULT_IDS, FAULTS, type Fault, type FaultId, type FaultSet, faultSet } from './faults.ts';

/** The first published MoRIIO connector, threads included, with the faults of the set on and all others mended. */
export function asWritten(faults: FaultSet): Connector {
  return {
    name: 'as-written',
    createScheduler: (env) => createAsWrittenScheduler(env, faults),
    createWorker: (env) => createAsWrittenWorker(env, faults),
  };
}

import { shipped } from '../connector/shipped/index.ts';
import { EVERY_HAZARD } from '../faults/hazards.ts';
import { IN_TURN } from '../proxy/choose.ts';
import { type Scenario, SMALL_CLUSTER } from '../sim/scenario.ts';
import type { Specimen } from './specimen.ts';

/** The default mix for the shipped connector: everything at once. */
export const SHIPPED_MIX: Scenario = {
  ...SMALL_CLUSTER,
  name: 'shipped-mix',
  connector: 'shipped',
  blocksPerEngine: 9,
  requestsMax: 5,
  outputTokensMax: 5,
  faults: [],
  mode: 'both',
  prefillTp: [1, 2],
  decodeTp: [1, 2],
  prefillDp: [1],
  decodeDp: [1],
  unequalLayers: true,
  layouts: 'mixed',
  sharedPrefixes: true,
  lookAhead: true,
  queuePairsMax: 2,
  sendQueueDepths: [8, 4, 2],
  engine: 'sound',
  notifications: true,
  hazards: EVERY_HAZARD,
};

/** The hardened connector of this project; it has no bugs that we know of. */
export const SHIPPED: Specimen = {
  name: 'shipped',
  summary: 'the hardened protocol of this project',
  bugs: {},
  scenario: SHIPPED_MIX,
  parts: () => ({ connector: shipped, policy: IN_TURN }),
};

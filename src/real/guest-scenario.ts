import { NO_HAZARDS } from '../faults/hazards.ts';
import type { Scenario } from '../sim/scenario.ts';

/**
 * What a guest is attacked with when its description says nothing else: one P, one D, READ, nothing lost and nobody gone. All
 * that is odd is the order of things, which is where threads go wrong.
 */
export const GUEST_CHANGES = {
  mode: 'read',
  prefillInstances: 1,
  decodeInstances: 1,
  prefillTp: [1],
  decodeTp: [1],
  layouts: 'equal',
  unequalLayers: false,
  ordinaryRequests: false,
  sharedPrefixes: false,
  lookAhead: false,
  queuePairsMax: 1,
  sendQueueDepths: [4096],
  requestsMax: 4,
  blocksPerEngine: 16,
  notifications: false,
  hazards: NO_HAZARDS,
} as const satisfies Partial<Scenario>;

import { NO_HAZARDS } from '../../faults/hazards.ts';
import { type Scenario, SMALL_CLUSTER } from '../../sim/scenario.ts';

/**
 * The world that the first published connector was meant for: nothing is lost, nobody goes away, and all that is odd is
 * the order of things and a stranger's bytes on a port. Its known faults show here; mended, it must run clean here.
 */
export const AS_WRITTEN_MIX: Scenario = {
  ...SMALL_CLUSTER,
  name: 'as-written-mix',
  connector: 'as-written',
  faults: [],
  mode: 'both',
  // Several prompts end in one step, so that requests share handshakes, and none is ever short of blocks.
  requestsMax: 6,
  batchTokensMax: 12,
  blocksPerEngine: 32,
  // P's ranks each write their own heads, and D counts completions; the other way round P would have to count D's.
  prefillTp: [1, 2],
  decodeTp: [1],
  prefillDp: [1, 2],
  decodeDp: [1, 2],
  unequalLayers: true,
  layouts: 'equal',
  sharedPrefixes: false,
  lookAhead: false,
  queuePairsMax: 1,
  sendQueueDepths: [4096],
  engine: 'mori',
  notifications: false,
  hazards: { ...NO_HAZARDS, strays: 'notUtf8' },
};

import type { Mode } from '../base/topology.ts';
import { EVERY_HAZARD, type Hazards, NO_HAZARDS } from '../faults/hazards.ts';
import type { Fidelity } from '../io/engine/surprises.ts';

/** What a campaign varies and what it holds fixed. Plain data; the draws of a tape fill in the rest. */
export interface Scenario {
  readonly name: string;
  readonly connector: 'shipped' | 'as-written';
  /** Faults of the as-written connector that are switched on; all others are mended. */
  readonly faults: readonly string[];
  /** `both` lets a draw choose. */
  readonly mode: Mode | 'both';
  readonly prefillInstances: number;
  readonly decodeInstances: number;
  /** A draw picks one of each list; the first is the plain choice. */
  readonly prefillTp: readonly number[];
  readonly decodeTp: readonly number[];
  readonly prefillDp: readonly number[];
  readonly decodeDp: readonly number[];
  readonly layers: readonly number[];
  /** Whether layers may differ in cell size. */
  readonly unequalLayers: boolean;
  /** Whether P and D may lay their caches out differently. */
  readonly layouts: 'mixed' | 'equal';
  readonly heads: number;
  readonly blockTokens: number;
  readonly blocksPerEngine: number;
  readonly batchTokensMax: number;
  readonly requestsMax: number;
  readonly promptTokensMax: number;
  readonly outputTokensMax: number;
  readonly ordinaryRequests: boolean;
  readonly sharedPrefixes: boolean;
  readonly lookAhead: boolean;
  readonly queuePairsMax: number;
  readonly sendQueueDepths: readonly number[];
  /** Whether the MoRI-IO engine under the connector is the library as it is, or without its surprises. */
  readonly engine: Fidelity;
  /** Whether the engine may notify the target of each batch; a draw switches it on in one schedule of eight. */
  readonly notifications: boolean;
  readonly hazards: Hazards;
}

const SMALL_CLUSTER = {
  prefillInstances: 2,
  decodeInstances: 2,
  layers: [2, 3],
  heads: 2,
  blockTokens: 4,
  blocksPerEngine: 12,
  batchTokensMax: 8,
  requestsMax: 4,
  promptTokensMax: 14,
  outputTokensMax: 3,
  ordinaryRequests: true,
} as const;

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

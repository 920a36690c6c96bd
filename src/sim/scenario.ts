import type { Mode } from '../base/topology.ts';
import type { Hazards } from '../faults/hazards.ts';
import type { Fidelity } from '../io/engine/quirks.ts';

/** What a campaign varies and what it holds fixed. Plain data; the draws of a tape fill in the rest. */
export interface Scenario {
  readonly name: string;
  /** The name of a connector of the registry. */
  readonly connector: string;
  /** Known bugs of that connector that are switched on; all others are mended. */
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
  /** Whether the MoRI-IO engine under the connector is the library as it is, or without its quirks. */
  readonly engine: Fidelity;
  /** Whether the engine may notify the target of each batch; a draw switches it on in one schedule of eight. */
  readonly notifications: boolean;
  readonly hazards: Hazards;
}

/** What the default scenarios of all connectors share: a few small engines. */
export const SMALL_CLUSTER = {
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

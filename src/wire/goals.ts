import type { Emit } from './machine.ts';

/**
 * Coverage points of the world itself: what engine, proxy and judges can tell whatever the connector is. A point that stays
 * at zero says that a campaign did not exercise it. A connector has its own besides (`Connector.goals`).
 */

/** What of a scenario decides which of them can be reached. */
export interface Scope {
  readonly ordinaryRequests: boolean;
  readonly sharedPrefixes: boolean;
  readonly requestsMax: number;
  readonly promptTokensMax: number;
  readonly outputTokensMax: number;
  readonly blocksPerEngine: number;
  readonly blockTokens: number;
  readonly hazards: { readonly aborts: boolean; readonly crashes: boolean; readonly nic: readonly string[] };
}

const always = (): boolean => true;
const shares = ({ sharedPrefixes }: Scope): boolean => sharedPrefixes;
const crashes = ({ hazards }: Scope): boolean => hazards.crashes;

/** The points, and whether a campaign can reach each. */
export const WORLD_GOALS = {
  'request-completed': always,
  'request-aborted': ({ hazards }) => hazards.aborts,
  'request-failed-by-crash': crashes,
  'ordinary-request': ({ ordinaryRequests }) => ordinaryRequests,
  'chunked-prefill': always,
  'prefix-hit-prefill': shares,
  'prefix-hit-decode': shares,
  'full-hit-decode': shares,
  /** Only where all requests together may want more blocks than an engine has. */
  preemption: ({ requestsMax, promptTokensMax, outputTokensMax, blocksPerEngine, blockTokens }) =>
    requestsMax * (promptTokensMax + outputTokensMax) > blocksPerEngine * blockTokens,
  /** Only where something breaks under a transfer. */
  'load-failed-recomputed': ({ hazards }) => hazards.crashes || hazards.nic.length > 0,
  'message-refused': always,
  'rank-crashed': crashes,
} as const satisfies { readonly [name: string]: (scope: Scope) => boolean };

export type WorldGoal = keyof typeof WORLD_GOALS;

/** Those that a campaign in this scope can reach. */
export function worldGoalsIn(scope: Scope): WorldGoal[] {
  const names = Object.keys(WORLD_GOALS) as WorldGoal[];
  return names.filter((name) => WORLD_GOALS[name](scope));
}

/** Counts one more time that a campaign reached something. */
export function goal(emit: Emit, name: WorldGoal): void {
  emit({ kind: 'note', note: { kind: 'goal', name } });
}

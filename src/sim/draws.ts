import { below, finish, mix } from '../base/mix.ts';
import { layTopology, type Mode, type Shape, type Topology } from '../base/topology.ts';
import { MESSAGE_FAULTS } from '../faults/message-faults.ts';
import type { AxisOrder } from '../kv/view.ts';
import { CLIENTS, CLUSTER, idOfName } from './key-names.ts';
import type { Scenario } from './scenario.ts';
import { DRAW, type Tape } from './tape.ts';

/** What one schedule is about, drawn before its first step. */
export interface Setup {
  readonly topology: Topology;
  readonly mode: Mode;
  readonly layers: number;
  /** Bytes of a cell, for each layer. */
  readonly cellBytes: readonly number[];
  readonly heads: number;
  readonly prefillOrder: AxisOrder;
  readonly decodeOrder: AxisOrder;
  readonly prefillLookAhead: number;
  readonly decodeLookAhead: number;
  readonly queuePairs: number;
  readonly sendQueueDepth: number;
  /** A batch goes over all queue pairs instead of the one that its poster chose. */
  readonly spreads: boolean;
  /** The engines notify the target of each batch. */
  readonly notifies: boolean;
  readonly requests: readonly RequestSetup[];
}

export interface RequestSetup {
  readonly request: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
  readonly arriveMicros: number;
  readonly ordinary: 'no' | 'prefill' | 'decode';
  /** Requests of one family share their first `sharedTokens` tokens; family 0 shares with nobody. */
  readonly family: number;
  readonly sharedTokens: number;
  /** When the client goes away; 0 for never. */
  readonly abortMicros: number;
}

/** Which hazards this schedule has, each from 0 (none) up. Not part of the tape: it only shapes the draws that are. */
export interface Profile {
  readonly delays: number;
  /** The level of each message fault, by its draw value; index 0 is unused. */
  readonly messages: readonly number[];
  /** Some message fault is above level 0. */
  readonly harmsMessages: boolean;
  readonly strays: number;
  readonly crash: boolean;
  /** One post in `64 >> nic` meets a fault of the NIC; 0 for none. */
  readonly nic: number;
  /** How often threads of a connector are preempted, as `PREEMPTED_OF_24` says; 0 for never. */
  readonly preemptions: number;
}

export const PLAIN_PROFILE: Profile = {
  delays: 0,
  messages: [],
  harmsMessages: false,
  strays: 0,
  crash: false,
  nic: 0,
  preemptions: 0,
};

/** Kinds of the draws of shape and of workload: the names are part of the tape format. */
type ShapeName =
  | 'mode'
  | 'prefillTp'
  | 'decodeTp'
  | 'prefillDp'
  | 'decodeDp'
  | 'layers'
  | 'unequal'
  | 'order'
  | 'decodeOrder'
  | 'lookAhead'
  | 'queuePairs'
  | 'depth'
  | 'requests'
  | 'notifies'
  | 'spreads';
type WorkName = 'promptTokens' | 'outputTokens' | 'gap' | 'ordinary' | 'family' | 'sharedBlocks';

/** Keys of a profile besides those of message faults. Part of what a seed means: never renumber. */
const RISK = { delays: 0, strays: 5, crash: 6, nic: 7, preemptions: 8 } as const;

/** An even choice of `count` values, 0 the plain one. */
function even(tape: Tape, kind: ShapeName | { work: WorkName; request: number }, count: number): number {
  if (count <= 1) return 0;
  const pick = (hash: number): number => below(hash, count);
  const drawn =
    typeof kind === 'string'
      ? tape.choose(DRAW.shape, idOfName(CLUSTER), idOfName(kind), 0, 0, pick)
      : tape.choose(DRAW.workload, idOfName(CLIENTS), idOfName(kind.work), kind.request, 0, pick);
  return Math.min(count - 1, drawn);
}

export function drawProfile(scenario: Scenario, seed: number): Profile {
  const { hazards } = scenario;
  const pick = (kind: number, count: number): number => below(finish(mix(mix(seed, 0x5eed), kind)), count);
  const level = (allowed: boolean, kind: number): number => (allowed ? Math.max(0, pick(kind, 5) - 2) : 0);
  const messages: number[] = [0];
  for (const { name, value, profileKey } of MESSAGE_FAULTS)
    messages[value] = level(hazards[name], profileKey);
  return {
    delays: hazards.longDelays ? pick(RISK.delays, 5) : pick(RISK.delays, 3),
    messages,
    harmsMessages: messages.some((drawn) => drawn > 0),
    strays: hazards.strays === 'none' ? 0 : level(true, RISK.strays),
    crash: hazards.crashes && pick(RISK.crash, 8) === 0,
    nic: level(hazards.nic.length > 0, RISK.nic),
    preemptions: pick(RISK.preemptions, 4),
  };
}

const FIVE_AXES: readonly AxisOrder[] = ['KBNH', 'KBHN', 'BKNH', 'BKHN', 'BHNK'];
const FOUR_ORDERS = 4;

export function drawSetup(scenario: Scenario, tape: Tape): Setup {
  const shape = (kind: ShapeName, count: number): number => even(tape, kind, count);
  const pick = <T>(kind: ShapeName, list: readonly T[]): T => list[shape(kind, list.length)]!;
  const mode: Mode = scenario.mode === 'both' ? pick('mode', ['write', 'read'] as const) : scenario.mode;
  const clusterShape: Shape = {
    mode,
    prefillInstances: scenario.prefillInstances,
    decodeInstances: scenario.decodeInstances,
    prefillTp: pick('prefillTp', scenario.prefillTp),
    decodeTp: pick('decodeTp', scenario.decodeTp),
    prefillDp: pick('prefillDp', scenario.prefillDp),
    decodeDp: pick('decodeDp', scenario.decodeDp),
  };
  // The last choice is the latent cache, which has one head and the same order everywhere.
  const orders = scenario.layouts === 'mixed' ? FIVE_AXES.length + 1 : FOUR_ORDERS;
  const order = shape('order', orders);
  const latent = order === FIVE_AXES.length;
  const prefillOrder: AxisOrder = latent ? 'BN' : FIVE_AXES[order]!;
  const decodeOrder: AxisOrder =
    latent || scenario.layouts === 'equal'
      ? prefillOrder
      : FIVE_AXES[(order + shape('decodeOrder', FIVE_AXES.length)) % FIVE_AXES.length]!;
  const layers = pick('layers', scenario.layers);
  const unequal = scenario.unequalLayers && shape('unequal', 2) === 1;
  const lookAhead = scenario.lookAhead ? shape('lookAhead', 4) : 0;
  const queuePairs = 1 + shape('queuePairs', scenario.queuePairsMax);
  const count = 1 + shape('requests', scenario.requestsMax);
  return {
    topology: layTopology(clusterShape),
    mode,
    layers,
    cellBytes: Array.from({ length: layers }, (_, layer) => (unequal && layer % 2 === 0 ? 32 : 16)),
    heads: latent ? 1 : scenario.heads,
    prefillOrder,
    decodeOrder,
    prefillLookAhead: lookAhead & 1 ? 3 : 0,
    decodeLookAhead: lookAhead & 2 ? 3 : 0,
    queuePairs,
    spreads: queuePairs > 1 && shape('spreads', 2) === 1,
    sendQueueDepth: pick('depth', scenario.sendQueueDepths),
    notifies: scenario.notifications && shape('notifies', 8) === 1,
    requests: drawRequests(scenario, tape, count),
  };
}

/** The last one outlasts every time limit of the protocol: what comes then meets what an earlier failure left behind. */
const ARRIVAL_GAPS_MICROS = [1, 1, 20, 20, 200, 200, 1500, 300_000_000] as const;

function drawRequests(scenario: Scenario, tape: Tape, count: number): RequestSetup[] {
  const requests: RequestSetup[] = [];
  let arriveMicros = 0;
  for (let request = 0; request < count; request++) {
    const work = (kind: WorkName, values: number): number => even(tape, { work: kind, request }, values);
    arriveMicros += ARRIVAL_GAPS_MICROS[work('gap', ARRIVAL_GAPS_MICROS.length)]!;
    // The plain request has five tokens: two blocks, the second one partly filled.
    const promptTokens =
      1 + ((4 + work('promptTokens', scenario.promptTokensMax)) % scenario.promptTokensMax);
    const outputTokens = 1 + work('outputTokens', scenario.outputTokensMax);
    const kind = scenario.ordinaryRequests ? work('ordinary', 8) : 0;
    const ordinary = kind === 1 ? 'prefill' : kind === 2 ? 'decode' : 'no';
    const family = scenario.sharedPrefixes ? work('family', 3) : 0;
    const sharedTokens = family === 0 ? 0 : scenario.blockTokens * (1 + work('sharedBlocks', 3));
    const abortMicros = scenario.hazards.aborts ? drawAbort(tape, request) : 0;
    requests.push({
      request,
      promptTokens,
      outputTokens,
      arriveMicros,
      ordinary,
      family,
      sharedTokens,
      abortMicros,
    });
  }
  return requests;
}

/** A quarter of all requests; soon after arrival more often than late. */
function drawAbort(tape: Tape, request: number): number {
  return tape.choose(DRAW.abort, idOfName(CLIENTS), 0, request, 0, (hash) => {
    if ((hash & 3) !== 0) return 0;
    const range = [40, 150, 400, 1000][(hash >>> 2) & 3]!;
    return 1 + below(finish(hash), range);
  });
}

/** Microseconds of delay for one event, by the schedule's style: none, a little, more, rarely very long. */
export function pickDelay(style: number, hash: number): number {
  const kind = hash & 1023;
  const size = finish(hash ^ 0xde1a);
  switch (style) {
    case 0:
      return 0;
    case 1:
      return kind < 256 ? 1 + below(size, 16) : 0;
    case 2:
      if (kind < 64) return 1 + below(size, 1000);
      return kind < 512 ? 1 + below(size, 64) : 0;
    case 3:
      if (kind < 24) return 1 + below(size, 60_000);
      return kind < 300 ? 1 + below(size, 200) : 0;
    default:
      if (kind < 4) return 1 + below(size, 200_000_000);
      if (kind < 24) return 1 + below(size, 200_000);
      return kind < 200 ? 1 + below(size, 100) : 0;
  }
}

/** By the level of a profile: how many slices in 24 are preempted, and after how many statements at most. */
const PREEMPTED_OF_24 = [0, 4, 10, 16] as const;
const STATEMENTS_MOST = [1, 32, 16, 8] as const;

/** Statements until a thread is preempted; 0 for not in this slice. */
export function pickPreemption(level: number, hash: number): number {
  const size = finish(hash ^ 0x9ee7);
  return below(hash, 24) < PREEMPTED_OF_24[level]! ? 1 + below(size, STATEMENTS_MOST[level]!) : 0;
}

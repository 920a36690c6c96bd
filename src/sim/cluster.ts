import type { ActorId, EngineSpec } from '../base/topology.ts';
import type { Connector } from '../connector/plug.ts';
import { ALL_FINE, CELL_VIEW_BYTES } from '../kv/kernels.ts';
import { headsOfRank, isFirstHolder, type LayerView, layView } from '../kv/view.ts';
import type { ChoicePolicy } from '../proxy/choose.ts';
import {
  acceptRequest,
  type ClientRequest,
  createProxy,
  type ProxyState,
  proxyWaits,
  stepProxy,
} from '../proxy/proxy.ts';
import { createRankModel, type ModelMemory, placeTable } from '../serving/model.ts';
import { createRank, type RankState, rankWaits, stepRank } from '../serving/rank.ts';
import { createScheduler, type SchedulerState, schedulerWaits, stepScheduler } from '../serving/scheduler.ts';
import type { Description, Emit, Input, Note, Wait } from '../wire/machine.ts';
import type { Setup } from './draws.ts';
import { take, takeViews, type WorldMemory } from './memory.ts';

/** How coarse a run is: cells and layers one by one, or blocks and whole passes. */
export interface Grain {
  /** Tokens of one cache slot. */
  readonly slotTokens: number;
  readonly layersPerTurn: number;
  readonly readAlways: boolean;
  readonly turnMicros: (tokens: number, layers: number) => number;
  readonly scheduleMicros: number;
  /** Our own connector may see the block lists themselves: of long requests a copy for each step has no end. */
  readonly lendsLists: boolean;
}

export const CELL_GRAIN: Grain = {
  slotTokens: 1,
  layersPerTurn: 1,
  readAlways: true,
  turnMicros: () => 10,
  scheduleMicros: 2,
  lendsLists: false,
};

export interface EngineLimits {
  readonly blockTokens: number;
  readonly blocks: number;
  readonly batchTokensMax: number;
  readonly batchRequestsMax: number;
}

interface RankPlace {
  readonly views: readonly LayerView[];
  readonly viewAddress: number;
  readonly regionStart: number;
  readonly regionEnd: number;
}

/** The machines of one run, each behind the same few functions. */
export interface Cluster {
  readonly proxy: ProxyState;
  /** By actor. */
  readonly schedulers: readonly (SchedulerState | undefined)[];
  readonly ranks: readonly (RankState | undefined)[];
  /** Registered memory of each rank: absolute byte addresses. */
  readonly places: readonly (RankPlace | undefined)[];
  step(actor: ActorId, at: number, input: Input, emit: Emit): void;
  accept(client: ClientRequest, emit: Emit): void;
  waits(actor: ActorId): Wait[];
  isLoaded(actor: ActorId, note: Extract<Note, { kind: 'loaded' }>): boolean;
}

/** What a run has said, and what its machines are to be made of. */
export interface ClusterSpec {
  readonly setup: Setup;
  readonly limits: EngineLimits;
  readonly grain: Grain;
  readonly connector: Connector;
  readonly policy: ChoicePolicy;
  readonly memory: WorldMemory;
  readonly describe: (self: ActorId, peer: ActorId) => Description;
}

export function buildCluster(of: ClusterSpec): Cluster {
  const { setup, limits, grain, connector, policy, memory } = of;
  const { topology } = setup;
  const proxy = createProxy(topology, policy);
  const schedulers: (SchedulerState | undefined)[] = [];
  const ranks: (RankState | undefined)[] = [];
  const places: (RankPlace | undefined)[] = [];
  for (const _ of topology.actors) {
    schedulers.push(undefined);
    ranks.push(undefined);
    places.push(undefined);
  }
  for (const spec of topology.engines) {
    const side = { topology, spec, mode: setup.mode, blockTokens: limits.blockTokens };
    const lookAheadTokens = spec.role === 'prefill' ? setup.prefillLookAhead : setup.decodeLookAhead;
    const config = {
      spec,
      mode: setup.mode,
      ...limits,
      lookAheadTokens,
      scheduleMicros: grain.scheduleMicros,
      lendsLists: grain.lendsLists,
    };
    schedulers[spec.scheduler] = createScheduler(config, connector.createScheduler(side));
    spec.ranks.forEach((self, tpRank) => {
      const place = layRank(of, spec, tpRank);
      places[self] = place;
      ranks[self] = buildRank(of, spec, tpRank, place);
    });
  }
  return {
    proxy,
    schedulers,
    ranks,
    places,
    step(actor, at, input, emit) {
      const rank = ranks[actor];
      if (rank !== undefined) return stepRank(rank, at, input, emit);
      const scheduler = schedulers[actor];
      if (scheduler !== undefined) return stepScheduler(scheduler, at, input, emit);
      stepProxy(proxy, input, emit);
    },
    accept: (client, emit) => acceptRequest(proxy, client, emit),
    waits(actor) {
      const rank = ranks[actor];
      if (rank !== undefined) return rankWaits(rank);
      const scheduler = schedulers[actor];
      return scheduler === undefined ? proxyWaits(proxy) : schedulerWaits(scheduler);
    },
    isLoaded: (actor, note) => isLoaded(places[actor]!, grain, memory, note),
  };
}

function layRank({ setup, limits, grain, memory }: ClusterSpec, spec: EngineSpec, tpRank: number): RankPlace {
  const heads = headsOfRank(setup.heads, spec.ranks.length, tpRank);
  const order = spec.role === 'prefill' ? setup.prefillOrder : setup.decodeOrder;
  const views: LayerView[] = [];
  let bytes = 0;
  for (let layer = 0; layer < setup.layers; layer++) {
    const view = layView(layer, bytes, {
      order,
      blockCount: limits.blocks,
      blockUnits: limits.blockTokens / grain.slotTokens,
      unitTokens: grain.slotTokens,
      cellBytes: setup.cellBytes[layer]!,
      headFirst: heads.first,
      headCount: heads.count,
    });
    views.push(view);
    bytes += view.bytes;
  }
  const viewAddress = takeViews(memory, setup.layers);
  const regionStart = take(memory, bytes);
  return { views, viewAddress, regionStart, regionEnd: regionStart + bytes };
}

function buildRank(of: ClusterSpec, spec: EngineSpec, tpRank: number, place: RankPlace): RankState {
  const { setup, limits, grain, connector, memory, describe } = of;
  const self = spec.ranks[tpRank]!;
  const worker = connector.createWorker({
    topology: setup.topology,
    spec,
    mode: setup.mode,
    self,
    tpRank,
    heads: setup.heads,
    views: place.views,
    regionBytes: place.regionEnd - place.regionStart,
    slotTokens: grain.slotTokens,
    blockTokens: limits.blockTokens,
    queuePairs: setup.queuePairs,
    sendQueueDepth: setup.sendQueueDepth,
    describe: (peer) => describe(self, peer),
  });
  const countsInSum = isFirstHolder(setup.heads, spec.ranks.length, tpRank);
  const model = createRankModel(
    { views: place.views, slotTokens: grain.slotTokens, countsInSum, readAlways: grain.readAlways },
    modelMemory(memory, place),
  );
  const { layersPerTurn, turnMicros } = grain;
  return createRank({ self, spec, tpRank, layers: setup.layers, layersPerTurn, turnMicros }, worker, model);
}

function modelMemory(memory: WorldMemory, place: RankPlace): ModelMemory {
  const { kernels, words, tableAddress, tableWordsMax, resultAddress } = memory;
  const { viewAddress, regionStart, regionEnd } = place;
  return { kernels, words, viewAddress, tableAddress, tableWordsMax, resultAddress, regionStart, regionEnd };
}

/** Reads the loaded slots as attention will, before anybody else does. */
function isLoaded(
  place: RankPlace,
  grain: Grain,
  memory: WorldMemory,
  note: Extract<Note, { kind: 'loaded' }>,
): boolean {
  placeTable(memory, note.blocks, 0);
  const slotTo = Math.ceil(note.tokenTo / grain.slotTokens);
  return place.views.every((_, layer) => {
    const view = place.viewAddress + layer * CELL_VIEW_BYTES;
    return (
      memory.kernels.attend(view, memory.tableAddress, note.lineageAddress, slotTo, memory.resultAddress) ===
      ALL_FINE
    );
  });
}

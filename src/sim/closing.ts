import { greatest } from '../base/lists.ts';
import { type ActorId, PROXY } from '../base/topology.ts';
import type { EndlessRun, PoolEnd } from '../oracle/invariant.ts';
import { waitChain } from '../oracle/waits-for.ts';
import type { RunRecord } from '../record/record.ts';
import type { Wait } from '../wire/machine.ts';
import type { Cluster } from './cluster.ts';
import type { Core } from './core.ts';
import { EVENT, type WorldEventKind } from './event-queue.ts';
import { type Guest, GuestFault } from './guest.ts';
import type { NicSide } from './nic-side.ts';
import type { RunResult } from './run-spec.ts';

/** Nothing is left to happen: every request must have ended and every table must be empty. */
export function judgeEnd(core: Core, cluster: Cluster, nic: NicSide): void {
  core.judge.ended({
    waits: () => allWaits(core, cluster),
    pools: () => poolsOf(core, cluster),
    tables(tell) {
      for (const { scheduler, ranks } of core.topology.engines) {
        if (core.isDead(scheduler)) continue;
        tell(scheduler, cluster.schedulers[scheduler]!.connector.census());
        for (const rank of ranks) tell(rank, cluster.ranks[rank]!.connector.census());
      }
    },
    queues: () => nic.left().filter(({ actor }) => !core.isDead(actor)),
  });
}

function poolsOf(core: Core, cluster: Cluster): PoolEnd[] {
  const alive = core.topology.engines.filter(({ scheduler }) => !core.isDead(scheduler));
  return alive.map(({ engine, scheduler }) => {
    const { pool, requests } = cluster.schedulers[scheduler]!;
    const { freeCount: free, total } = pool;
    return { engine, scheduler, free, total, requests: [...requests.keys()] };
  });
}

function allWaits(core: Core, cluster: Cluster): Wait[] {
  const alive = core.topology.actors.filter(({ actor }) => actor === PROXY || !core.isDead(actor));
  return alive.flatMap(({ actor }) => cluster.waits(actor));
}

export const EVENT_KINDS = Object.keys(EVENT).length;

/** What an endless run is made of, as the part of the violation says it. */
const KINDS: { readonly [K in WorldEventKind]: string } = Object.fromEntries(
  Object.entries(EVENT).map(([name, kind]) => [kind, name]),
) as { readonly [K in WorldEventKind]: string };

/** A run must come to its end within its steps, and its requests within its time. */
export function judgeLength(core: Core, busy: readonly number[], guests: ReadonlyMap<ActorId, Guest>): void {
  const { step, now, spec, judge } = core;
  const isLong = step >= spec.stepsMax;
  if (!isLong && (now <= spec.microsMax || judge.unfinished.size === 0)) return;
  const at = busy.indexOf(greatest(busy, 0));
  const [actor, kind] = [Math.trunc(at / EVENT_KINDS), (at % EVENT_KINDS) as WorldEventKind];
  judge.endless({
    why: isLong ? 'steps' : 'time',
    steps: step,
    atMicros: now,
    again: againOf(longestAgain(guests)),
    busiest: { actor, event: KINDS[kind], count: busy[at]! },
  });
}

function againOf(guest: Guest | null): EndlessRun['again'] {
  if (guest === null || guest.again === null) return null;
  return { actor: guest.actor, guest: guest.who, ...guest.again };
}

/** The rank whose hook has answered `again` most often in a row; the first of equals. */
function longestAgain(guests: ReadonlyMap<ActorId, Guest>): Guest | null {
  let longest: Guest | null = null;
  for (const guest of guests.values())
    if ((guest.again?.turns ?? 0) > (longest?.again?.turns ?? 0)) longest = guest;
  return longest;
}

/** What came of a run; `cluster` is null when there was none. */
export function resultOf(core: Core, cluster: Cluster | null): RunResult {
  return {
    steps: core.step,
    atMicros: core.now,
    digest: core.digest(),
    violation: core.violation,
    waits: cluster === null ? [] : waitsOf(core, cluster),
    goals: cluster === null ? new Map() : core.judge.goals,
    blocksLeft: cluster === null ? 0 : countBlocksLeft(core, cluster),
    record: recordOf(core),
  };
}

/** Who waits for whom, when a run hangs or spins. */
function waitsOf(core: Core, cluster: Cluster): Wait[] {
  const invariant = core.violation?.invariant;
  if (invariant !== 'I2' && invariant !== 'I9') return [];
  try {
    return waitChain(allWaits(core, cluster), PROXY);
  } catch (error) {
    if (!(error instanceof GuestFault)) throw error;
    // A connector broke when it was asked.
    return [{ who: PROXY, what: 'what-a-broken-connector-does-not-tell', fields: {}, whom: -1 }];
  }
}

function countBlocksLeft(core: Core, cluster: Cluster): number {
  let left = 0;
  cluster.schedulers.forEach((state, scheduler) => {
    if (state !== undefined && !core.isDead(scheduler)) left += state.pool.total - state.pool.freeCount;
  });
  return left;
}

function recordOf({ topology, forms, recorder }: Core): RunRecord {
  const words = recorder === null ? [] : Object.entries(forms).filter(([, { says }]) => says !== undefined);
  return {
    actorNames: topology.actors.map(({ name }) => name),
    messageWords: Object.fromEntries(words.map(([name, { says }]) => [name, says!])),
    steps: recorder?.steps ?? [],
  };
}

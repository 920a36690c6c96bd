import { greatest } from '../base/lists.ts';
import { type ActorId, PROXY } from '../base/topology.ts';
import { placeOf } from '../oracle/verdict.ts';
import { placeOfHang, showChain, waitChain } from '../oracle/waits-for.ts';
import type { RunRecord } from '../record/record.ts';
import type { Wait } from '../wire/machine.ts';
import type { Cluster } from './cluster.ts';
import type { Core } from './core.ts';
import { type Guest, GuestFault } from './guest.ts';
import type { NicSide } from './nic-side.ts';
import { HAPPENING, type HappeningKind } from './ready-set.ts';
import type { RunResult } from './run-spec.ts';

/** Nothing is left to happen: every request must have ended and every table must be empty. */
export function judgeEnd(core: Core, cluster: Cluster, nic: NicSide): void {
  const { unfinished } = core.judge;
  if (unfinished.size > 0) {
    const place = placeOfHang(waitChain(allWaits(core, cluster), PROXY), core.topology);
    return core.fail(
      'I2',
      place,
      `nothing is left to happen and request ${[...unfinished].join(' ')} has no end`,
    );
  }
  for (const { engine, role, scheduler, ranks } of core.topology.engines) {
    if (core.isDead(scheduler)) continue;
    judgePool(core, cluster, engine);
    const { connector } = cluster.schedulers.get(scheduler)!;
    judgeCensus(core, scheduler, `${role} scheduler tables`, connector.census());
    for (const rank of ranks)
      judgeCensus(core, rank, `${role} rank tables`, cluster.ranks.get(rank)!.connector.census());
  }
  for (const { actor, slots, batches } of nic.left()) {
    if (core.isDead(actor)) continue;
    const name = nameOf(core, actor);
    if (slots !== 0)
      core.fail('I3', 'send queue', `${slots} send-queue slots of ${name} are still taken at the end`);
    if (batches !== 0) core.fail('I3', 'batches', `${batches} batches of ${name} have no end`);
  }
}

function judgePool(core: Core, cluster: Cluster, engine: number): void {
  const { scheduler, role } = core.topology.engines[engine]!;
  const { pool, requests } = cluster.schedulers.get(scheduler)!;
  if (pool.freeCount === pool.total) return;
  const free = `${nameOf(core, scheduler)} has ${pool.freeCount} of ${pool.total} blocks free at the end`;
  core.fail(
    'I3',
    `${role} blocks`,
    `${free}; requests ${[...requests.keys()].join(' ')} are still in its table`,
  );
}

function judgeCensus(core: Core, actor: number, place: string, left: number): void {
  if (left !== 0)
    core.fail('I3', place, `${nameOf(core, actor)}'s connector still remembers ${left} things at the end`);
}

function nameOf(core: Core, actor: number): string {
  return core.topology.actors[actor]!.name;
}

function allWaits(core: Core, cluster: Cluster): Wait[] {
  const alive = core.topology.actors.filter(({ actor }) => actor === PROXY || !core.isDead(actor));
  return alive.flatMap(({ actor }) => cluster.waits(actor));
}

export const HAPPENINGS = Object.keys(HAPPENING).length;

/** What an endless run is made of, as the place of the violation says it. */
const KINDS: { readonly [K in HappeningKind]: string } = Object.fromEntries(
  Object.entries(HAPPENING).map(([name, kind]) => [kind, name]),
) as { readonly [K in HappeningKind]: string };

/** A run must come to its end within its steps, and its requests within its time. */
export function judgeLength(core: Core, busy: Uint32Array, guests: ReadonlyMap<ActorId, Guest>): void {
  const { step, now, spec, judge } = core;
  const isLong = step >= spec.stepsMax;
  if (!isLong && (now <= spec.microsMax || judge.unfinished.size === 0)) return;
  const what = isLong
    ? `no end after ${step} steps`
    : `requests ${[...judge.unfinished].join(' ')} have no end after ${now} us`;
  const stuck = longestAgain(guests);
  if (stuck?.again != null) {
    const { hook, since, turns } = stuck.again;
    const text = `${stuck.actorName}: ${hook} of ${stuck.who} has answered 'again' ${turns} times in a row since ${since} us, and the forward pass stands still: ${what}`;
    return core.fail('I9', placeOf(core.topology, stuck.actor, hook), text);
  }
  const at = busy.indexOf(greatest(busy, 0));
  const [actor, kind] = [Math.trunc(at / HAPPENINGS), (at % HAPPENINGS) as HappeningKind];
  const share = `${busy[at]} of them are of ${nameOf(core, actor)}, of the kind "${KINDS[kind]}"`;
  core.fail('I9', placeOf(core.topology, actor, KINDS[kind]), `${what}; ${share}`);
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
    waits: cluster === null ? [] : showWaits(core, cluster),
    goals: cluster === null ? new Map() : core.judge.goals,
    blocksLeft: cluster === null ? 0 : countBlocksLeft(core, cluster),
    record: recordOf(core),
  };
}

/** Who waits for whom, in words, when a run hangs or spins. */
function showWaits(core: Core, cluster: Cluster): string[] {
  const invariant = core.violation?.invariant;
  if (invariant !== 'I2' && invariant !== 'I9') return [];
  try {
    return showChain(waitChain(allWaits(core, cluster), PROXY), core.topology);
  } catch (error) {
    if (!(error instanceof GuestFault)) throw error;
    return ['what they wait for cannot be told: a connector broke when it was asked'];
  }
}

function countBlocksLeft(core: Core, cluster: Cluster): number {
  let left = 0;
  for (const [scheduler, { pool }] of cluster.schedulers)
    if (!core.isDead(scheduler)) left += pool.total - pool.freeCount;
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

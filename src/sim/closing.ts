import { PROXY } from '../base/topology.ts';
import { placeOfHang, showChain, waitChain } from '../oracle/waits-for.ts';
import type { Wait } from '../wire/machine.ts';
import type { Cluster } from './cluster.ts';
import type { Core } from './core.ts';
import type { NicSide } from './nic-side.ts';

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

/** Who waits for whom, in words, when a run hangs or spins. */
export function showWaits(core: Core, cluster: Cluster): string[] {
  const invariant = core.violation?.invariant;
  if (invariant !== 'I2' && invariant !== 'I9') return [];
  return showChain(waitChain(allWaits(core, cluster), PROXY), core.topology);
}

export function countBlocksLeft(core: Core, cluster: Cluster): number {
  let left = 0;
  for (const [scheduler, { pool }] of cluster.schedulers)
    if (!core.isDead(scheduler)) left += pool.total - pool.freeCount;
  return left;
}

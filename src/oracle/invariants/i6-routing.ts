import { isIndex } from '../../base/checks.ts';
import { filled, greatest, least } from '../../base/lists.ts';
import type { ActorId, EngineId, TransferId } from '../../base/topology.ts';
import { headsOfRank } from '../../kv/view.ts';
import { whereOfActor } from '../breach.ts';
import { type Court, engineOf, ownBook } from '../court.ts';
import { breachesOf, type Invariant } from '../invariant.ts';

const SITES = {
  routing: '{owner} routing',
  'rank-choice': '{owner} choice of {part} DP rank',
  hook: '{owner} {part}',
} as const;

const BREACHES = breachesOf('I6', SITES, {
  'wrong-rank': {
    site: 'routing',
    says: '{carries} of transfer {transfer} goes from {from} to {to}: the right engine, but a TP rank that shares no KV head with it',
  },
  'wrong-engine': {
    site: 'routing',
    says: '{carries} of transfer {transfer} goes from {from} to {to}, but the request was given to engines {prefill} and {decode}',
  },
  'uneven-turns': {
    site: 'rank-choice',
    says: 'the DP ranks of {role} instance {instance} got {counts} requests: they do not take turns, as the policy claims',
  },
  'chose-no-engine': {
    site: 'hook',
    says: '{actor}: {hook} of {guest} returned {value} instead of a {role} engine, or null when none is up',
  },
  'chose-wrong-role': {
    site: 'hook',
    says: '{actor}: {hook} of {guest} chose engine {engine} of role {chosenRole} where a {role} engine is wanted',
  },
  'chose-engine-down': {
    site: 'hook',
    says: '{actor}: {hook} of {guest} chose {role} engine {engine}, which it was told is down',
  },
});

/** Requests that each DP rank got, by the instance. */
const turns = ownBook(() => new Map<string, number[]>());

/** Ranks of two engines have something to do with each other if they hold a KV head in common. */
function shareHeads(court: Court, from: ActorId, to: ActorId): boolean {
  const one = headsOf(court, from);
  const other = headsOf(court, to);
  return one.first < other.first + other.count && other.first < one.first + one.count;
}

function headsOf({ topology, config }: Court, actor: ActorId): ReturnType<typeof headsOfRank> {
  const { engine, tpRank } = topology.actors[actor]!;
  return headsOfRank(config.heads, topology.engines[engine]!.ranks.length, tpRank);
}

type Route = 'right' | 'wrong-engine' | 'wrong-rank';

/** Whether what is about a transfer may go from one rank to another. */
function routeOf(court: Court, transfer: TransferId, from: ActorId, to: ActorId): Route {
  const assigned = court.assignments.get(transfer);
  if (assigned === undefined) return 'right';
  const { prefill, decode } = assigned;
  const one = engineOf(court, from);
  const other = engineOf(court, to);
  const hasBoth = (prefill === one || prefill === other) && (decode === one || decode === other);
  if (!hasBoth) return 'wrong-engine';
  return shareHeads(court, from, to) ? 'right' : 'wrong-rank';
}

/** `carries` is the kind of message or operation. */
interface Misled {
  readonly carries: string;
  readonly transfer: TransferId;
  readonly from: ActorId;
  readonly to: ActorId;
}

function tellRoute(court: Court, route: Exclude<Route, 'right'>, misled: Misled): void {
  const where = whereOfActor(court.topology, misled.from);
  if (route === 'wrong-rank') return court.fail(BREACHES['wrong-rank'], where, { ...misled });
  const { prefill, decode } = court.assignments.get(misled.transfer)!;
  court.fail(BREACHES['wrong-engine'], where, { ...misled, prefill, decode });
}

/** What a policy claims that has its DP ranks take turns: none of an instance is two requests ahead of another. */
function countTurn(court: Court, actor: ActorId, engine: EngineId): void {
  if (!court.config.ranksTakeTurns || engine < 0 || court.dead.size > 0) return;
  const { role, instance, dpSize, dpRank } = court.topology.engines[engine]!;
  if (dpSize === 1) return;
  const book = turns.of(court);
  const key = `${role} ${instance}`;
  const counts = book.get(key) ?? filled(dpSize, 0);
  book.set(key, counts);
  counts[dpRank]!++;
  if (greatest(counts) - least(counts) <= 1) return;
  const where = whereOfActor(court.topology, actor, role);
  court.fail(BREACHES['uneven-turns'], where, { role, instance, counts: [...counts] });
}

export const I6 = {
  id: 'I6',
  name: 'routing',
  sentence: 'every message and operation goes to the right host, DP rank and TP rank',
  sites: SITES,
  breaches: BREACHES,
  hears: {
    assign(court, actor, { prefill, decode }) {
      countTurn(court, actor, prefill);
      if (decode !== prefill) countTurn(court, actor, decode);
    },
    sent(court, from, to, message) {
      const { actors } = court.topology;
      if (message.kind !== 'peer' || actors[from]!.tpRank < 0 || actors[to]!.tpRank < 0) return;
      const { name: carries, transfer } = message;
      if (!isIndex(transfer)) return;
      const route = routeOf(court, transfer, from, to);
      if (route !== 'right') tellRoute(court, route, { carries, transfer, from, to });
    },
    addressed(court, from, { transfer, peer, operation }) {
      const route = routeOf(court, transfer, from, peer);
      if (route !== 'right') tellRoute(court, route, { carries: operation, transfer, from, to: peer });
    },
  },
  raisedBy: 'sim/guest-policy.ts (what the policy answers)',
  finds:
    'grants to another instance; writes to the first instance; the wrong TP rank of the right engine; the first DP rank always taken',
} as const satisfies Invariant;

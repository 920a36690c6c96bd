import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { readReplayText } from '../../src/explore/replay-line.ts';
import { runSeed, runTape } from '../../src/explore/run.ts';
import { NO_HAZARDS } from '../../src/faults/hazards.ts';
import { landHead } from '../../src/io/verbs-land.ts';
import type { SimQueuePair, VerbsSim } from '../../src/io/verbs-sim.ts';
import { isPosting } from '../../src/sim/nic-batches.ts';
import { findPending, type Pending } from '../../src/sim/nic-danger.ts';
import { NicSide } from '../../src/sim/nic-side.ts';
import type { Scenario } from '../../src/sim/scenario.ts';
import { SHIPPED_MIX } from '../../src/zoo/shipped.ts';
import { newMemory, ONE_OF_EACH } from '../helpers/world.ts';

// What the judges take for "can still land" is what can: after every step it is compared with the queues themselves, by
// landing a copy of all of them; and what lands had been in danger ever since it was posted.

const made: VerbsSim[] = [];
vi.mock('../../src/io/verbs-sim.ts', async (load) => {
  const actual = await load<typeof import('../../src/io/verbs-sim.ts')>();
  const createVerbs: typeof actual.createVerbs = (times, move) => {
    const sim = actual.createVerbs(times, move);
    made.push(sim);
    return sim;
  };
  return { ...actual, createVerbs };
});

const memory = newMemory();
const seen = { checks: 0, onTheWire: 0, unposted: 0, futile: 0, landings: 0 };

/** Lands everything that is queued, with nothing going wrong, on a copy; the work requests that would have moved. */
function landCopy(sim: VerbsSim): Set<string> {
  const moved = new Set<string>();
  const copies = new Map<number, SimQueuePair>();
  for (const [qpn, pair] of sim.queuePairs) {
    const queue = pair.queue.slice(pair.head).map((posted) => ({ ...posted, fate: 'none' as const }));
    copies.set(qpn, { ...pair, queue, head: 0, receives: 1e9 });
  }
  // The peer of a queue pair that was taken down is not among them, and is found to be gone as in the original.
  for (const pair of copies.values())
    if (pair.peer !== null) pair.peer = copies.get(pair.peer.qpn) ?? pair.peer;
  for (const pair of copies.values()) {
    for (const { chain } of [...pair.queue]) {
      const copy: VerbsSim = {
        ...sim,
        queuePairs: copies,
        completions: [],
        failing: new Map(),
        move: (source, target, runs, count) => {
          if (runs[count * 3 - 1]! > 0 && source !== target)
            moved.add(nameOf(chain!.workRequests, chain!.first));
          return true;
        },
      };
      landHead(copy, pair);
    }
  }
  return moved;
}

const ids = new WeakMap<object, number>();
let lastId = 0;

function nameOf(list: object, first: number): string {
  const id = ids.get(list) ?? ++lastId;
  ids.set(list, id);
  return `${id}:${first}`;
}

/** What the danger list holds, apart by whether it is on a queue. */
function listPending(nic: NicSide, sim: VerbsSim): { wire: Set<string>; all: Map<string, Pending> } {
  const queued = new Set<string>();
  for (const { queue, head } of sim.queuePairs.values())
    for (const { chain } of queue.slice(head))
      if (chain !== null) queued.add(nameOf(chain.workRequests, chain.first));
  const all = new Map<string, Pending>();
  findPending(nic.queues, (pending) => {
    all.set(nameOf(pending.workRequests, pending.first), pending);
    return false;
  });
  return { wire: new Set([...all.keys()].filter((name) => queued.has(name))), all };
}

const deadActors = new WeakMap<VerbsSim, Set<number>>();

function deadOf(sim: VerbsSim): Set<number> {
  const dead = deadActors.get(sim) ?? new Set();
  deadActors.set(sim, dead);
  return dead;
}

type Method = 'land' | 'see' | 'post' | 'fence' | 'reset' | 'died' | 'connect';
const METHODS: readonly Method[] = ['land', 'see', 'post', 'fence', 'reset', 'died', 'connect'];

/** Has every call of the NIC side followed by a check. */
function watch(): void {
  const pendingNow = new Map<string, Pending>();
  for (const method of METHODS) {
    const original = NicSide.prototype[method] as (this: NicSide, ...given: unknown[]) => unknown;
    vi.spyOn(NicSide.prototype, method).mockImplementation(function (this: NicSide, ...given: unknown[]) {
      const sim = made.at(-1)!;
      const before = new Set(pendingNow.keys());
      const isLanding = method === 'land';
      const move = sim.move;
      if (isLanding) {
        const { chain } = given[0] as { chain: { workRequests: object; first: number } | null };
        Object.assign(sim, {
          move: (...landed: Parameters<VerbsSim['move']>) => {
            seen.landings++;
            expect(before, 'lands, and was not in danger').toContain(
              nameOf(chain!.workRequests, chain!.first),
            );
            return move(...landed);
          },
        });
      }
      if (method === 'died') deadOf(sim).add(given[0] as number);
      const answer = original.apply(this, given);
      Object.assign(sim, { move });
      check(this, sim, pendingNow, method === 'post');
      return answer;
    } as never);
  }
}

function check(nic: NicSide, sim: VerbsSim, pendingNow: Map<string, Pending>, isPost: boolean): void {
  const { wire, all } = listPending(nic, sim);
  expect([...wire].sort()).toEqual([...landCopy(sim)].sort());
  for (const [name, pending] of all) {
    // Danger begins with a post, and what is over does not come back.
    if (!pendingNow.has(name)) expect(isPost, `${name} is in danger out of the blue`).toBe(true);
    if (wire.has(name)) continue;
    seen.unposted++;
    const call = pending.open.call!;
    expect(isPosting(pending.open)).toBe(true);
    expect(deadOf(sim)).not.toContain(pending.open.initiator);
    expect(call.slices.some(({ rkeys }) => rkeys.every((key) => sim.regions.has(key)))).toBe(true);
  }
  seen.checks++;
  seen.onTheWire += wire.size;
  for (const { queue, head } of sim.queuePairs.values())
    seen.futile += queue.slice(head).filter(({ chain }) => chain !== null && chain.transferId >= 0).length;
  seen.futile -= wire.size;
  pendingNow.clear();
  for (const [name, pending] of all) pendingNow.set(name, pending);
}

afterEach(() => {
  vi.restoreAllMocks();
  made.length = 0;
});

/** Few blocks and slots, many requests: batches wait for room, and ranks die meanwhile. */
const CROWDED: Scenario = {
  ...SHIPPED_MIX,
  prefillInstances: 1,
  decodeInstances: 1,
  blocksPerEngine: 6,
  requestsMax: 8,
  sendQueueDepths: [2],
};

const BREAKING: Scenario = {
  ...ONE_OF_EACH,
  mode: 'both',
  engine: 'mori',
  queuePairsMax: 2,
  hazards: { ...NO_HAZARDS, crashes: true, longDelays: true, nic: ['error', 'overflow', 'staleKey'] },
};

const EARLY: Scenario = { ...ONE_OF_EACH, hazards: { ...ONE_OF_EACH.hazards, nic: ['early', 'torn'] } };

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, at) => from + at);
}

describe('what the judges take for "can still land" is what can', () => {
  // The seeds in which a rule of the danger list is left to itself: without it the copy tells otherwise.
  test.each<readonly [string, Scenario, readonly number[]]>([
    ['the default mix', SHIPPED_MIX, range(0, 16)],
    ['the default mix on the library as it is', { ...SHIPPED_MIX, engine: 'mori' }, range(4, 16)],
    ['a crowded pair', CROWDED, [...range(20, 32), 57]],
    ['a crowded pair on the library as it is', { ...CROWDED, engine: 'mori' }, [...range(20, 32), 57]],
    ['queue pairs that break', BREAKING, range(50, 75)],
    ['completions before the bytes', EARLY, range(0, 10)],
  ])('in %s', (_, scenario, seeds) => {
    watch();
    for (const seed of seeds) runSeed(memory, scenario, seed);
    expect(seen.checks).toBeGreaterThan(500);
  });

  test('in a run whose poster dies with a batch that waits for room', () => {
    watch();
    const text = readFileSync(new URL('../corpus/dead-poster-out-of-room.json', import.meta.url), 'utf8');
    const { scenario, source } = readReplayText(text, 'corpus');
    const { unposted } = seen;
    expect(runTape(memory, scenario, 'tape' in source ? source.tape : []).result.steps).toBeGreaterThan(50);
    expect(seen.unposted).toBeGreaterThan(unposted);
  });

  test('and all of it was seen', () => {
    expect(seen.landings).toBeGreaterThan(1000);
    expect(seen.onTheWire).toBeGreaterThan(2000);
    expect(seen.unposted).toBeGreaterThan(50);
    expect(seen.futile).toBeGreaterThan(10);
  });
});

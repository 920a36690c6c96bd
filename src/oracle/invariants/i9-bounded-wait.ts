import type { ActorId } from '../../base/topology.ts';
import { whereOfActor } from '../breach.ts';
import { ownBook } from '../court.ts';
import { breachesOf, type Invariant } from '../invariant.ts';

const SITES = { thread: '{owner} {part}', hook: '{owner} {part}', event: '{owner} {part}' } as const;

const BREACHES = breachesOf('I9', SITES, {
  'polls-for-ever': {
    site: 'thread',
    says: '{actor} has polled {polls} times for {waitsFor}, and nothing it reads has changed',
  },
  'hook-never-done': {
    site: 'hook',
    says: "{actor}: {hook} of {guest} has answered 'again' {turns} times in a row since {since} us, and the forward pass stands still after {steps} steps and {atMicros} us; without an end: {requests}",
  },
  'too-many-steps': {
    site: 'event',
    says: 'no end after {steps} steps; {count} of them are of {actor}, of the kind "{event}"',
  },
  'too-late': {
    site: 'event',
    says: 'requests {requests} have no end after {atMicros} us; {count} of the steps are of {actor}, of the kind "{event}"',
  },
  'effects-without-end': {
    site: 'hook',
    says: '{actor}: {hook} of {guest} has asked for {count} effects in one call, and goes on',
  },
});

/** Spins without progress that are taken for endless; far above what any finite wait needs. */
export const SPINS_MAX = 400;

/** Spins of each actor since it last sent anything. */
const spins = ownBook(() => new Map<ActorId, number>());

export const I9 = {
  id: 'I9',
  name: 'bounded-wait',
  sentence: 'nothing waits without a bound',
  sites: SITES,
  breaches: BREACHES,
  hears: {
    spin(court, actor, { thread, waitsFor }) {
      const book = spins.of(court);
      const polls = (book.get(actor) ?? 0) + 1;
      book.set(actor, polls);
      if (polls <= SPINS_MAX) return;
      const where = whereOfActor(court.topology, actor, thread);
      court.fail(BREACHES['polls-for-ever'], where, { actor, polls, waitsFor });
    },
    sent(court, from) {
      spins.known(court)?.delete(from);
    },
    endless({ topology, unfinished, fail }, { why, steps, atMicros, again, busiest }) {
      const requests = [...unfinished];
      if (again !== null) {
        const where = whereOfActor(topology, again.actor, again.hook);
        return fail(BREACHES['hook-never-done'], where, { ...again, steps, atMicros, requests });
      }
      const where = whereOfActor(topology, busiest.actor, busiest.event);
      if (why === 'steps') fail(BREACHES['too-many-steps'], where, { ...busiest, steps });
      else fail(BREACHES['too-late'], where, { ...busiest, atMicros, requests });
    },
  },
  raisedBy: 'sim/guest.ts (effects of one call)',
  finds: 'a rank waits for its layer for ever; neither handshake nor transfer has a time limit',
} as const satisfies Invariant;

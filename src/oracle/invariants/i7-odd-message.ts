import { whereOfActor } from '../breach.ts';
import { breachesOf, type Invariant } from '../invariant.ts';

const SITES = { hook: '{owner} {part}', thread: '{owner} {part}' } as const;

const BREACHES = breachesOf('I7', SITES, {
  threw: { site: 'hook', says: '{actor}: {hook} of {guest} threw {thrown}' },
  'returned-no-answer': {
    site: 'hook',
    says: '{actor}: {hook} of {guest} returned {value}; hooks are plain functions and answer at once',
  },
  'returned-wrong': {
    site: 'hook',
    says: '{actor}: {hook} of {guest} returned {value}; it must return {must}',
  },
  'thread-died': { site: 'thread', says: '{actor}: thread {thread} died: {thrown}' },
});

export const I7 = {
  id: 'I7',
  name: 'odd-message',
  sentence: 'no message, however odd, ends a thread or an engine',
  sites: SITES,
  breaches: BREACHES,
  hears: {
    died({ topology, fail }, actor, { thread, cause }) {
      fail(BREACHES['thread-died'], whereOfActor(topology, actor, thread), { actor, thread, thrown: cause });
    },
  },
  raisedBy: 'sim/guest.ts (a hook of the connector or policy throws, or answers with what it must not)',
  finds: 'odd bytes end the listener',
} as const satisfies Invariant;

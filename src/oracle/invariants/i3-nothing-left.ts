import { NOWHERE, whereOfActor, whereOfEngine } from '../breach.ts';
import { breachesOf, type Invariant } from '../invariant.ts';

const SITES = {
  pool: '{owner} blocks',
  tables: '{owner} tables',
  'send-queue': 'send queue',
  batches: 'batches',
} as const;

const BREACHES = breachesOf('I3', SITES, {
  'blocks-left': {
    site: 'pool',
    says: '{actor} has {free} of {total} blocks free at the end; requests {requests} are still in its table',
  },
  'records-left': {
    site: 'tables',
    says: "{actor}'s connector still remembers {left} things at the end",
  },
  'slots-left': {
    site: 'send-queue',
    says: '{slots} send-queue slots of {actor} are still taken at the end',
  },
  'batches-left': { site: 'batches', says: '{batches} batches of {actor} have no end' },
});

export const I3 = {
  id: 'I3',
  name: 'nothing-left',
  sentence: 'when all requests have ended every block is free and every table is empty',
  sites: SITES,
  breaches: BREACHES,
  hears: {
    ended({ topology, unfinished, fail }, end) {
      if (unfinished.size > 0) return;
      for (const { engine, scheduler, free, total, requests } of end.pools())
        if (free !== total) {
          const ids = { actor: scheduler, engine, free, total, requests };
          fail(BREACHES['blocks-left'], whereOfEngine(topology, engine), ids);
        }
      end.tables((actor, left) => {
        if (left !== 0) fail(BREACHES['records-left'], whereOfActor(topology, actor), { actor, left });
      });
      for (const { actor, slots, batches } of end.queues()) {
        if (slots !== 0) fail(BREACHES['slots-left'], NOWHERE, { actor, slots });
        if (batches !== 0) fail(BREACHES['batches-left'], NOWHERE, { actor, batches });
      }
    },
  },
  raisedBy: '',
  finds: 'sent transfers not reported; early grants never expire; a forgotten request kept',
} as const satisfies Invariant;

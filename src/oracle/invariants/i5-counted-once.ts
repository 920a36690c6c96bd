import { whereOfActor } from '../breach.ts';
import { engineOf, ownBook } from '../court.ts';
import { breachesOf, type Invariant } from '../invariant.ts';

const SITES = { 'block-pool': '{owner} block pool', report: '{owner} report' } as const;

const BREACHES = breachesOf('I5', SITES, {
  'freed-twice': {
    site: 'block-pool',
    says: '{actor} frees block {block} of request {request}, which is free already',
  },
  'reported-twice': { site: 'report', says: '{actor} reported the end of request {request} twice' },
});

/** Ends that were reported, as `actor request`. */
const reported = ownBook(() => new Set<string>());

export const I5 = {
  id: 'I5',
  name: 'counted-once',
  sentence: 'completions are counted, and blocks freed, exactly once',
  sites: SITES,
  breaches: BREACHES,
  hears: {
    free(court, actor, { request, blocks }) {
      const { holders } = court.ledgers[engineOf(court, actor)]!;
      for (const block of blocks)
        if (holders[block]! < 0)
          court.fail(BREACHES['freed-twice'], whereOfActor(court.topology, actor), { actor, block, request });
    },
    report(court, actor, report) {
      const known = reported.of(court);
      for (const request of [...report.sent, ...report.received, ...report.failed]) {
        const key = `${actor} ${request}`;
        if (known.has(key))
          court.fail(BREACHES['reported-twice'], whereOfActor(court.topology, actor), { actor, request });
        known.add(key);
      }
    },
  },
  raisedBy: '',
  finds: 'the end of a transfer reported twice',
} as const satisfies Invariant;

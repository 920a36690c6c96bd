import { whereOfActor } from '../breach.ts';
import { breachesOf, type Invariant } from '../invariant.ts';

const SITES = {
  outcome: '{owner} outcome',
  report: '{owner} report',
  'load-report': '{owner} load report',
  hook: '{owner} {part}',
  effect: '{owner} {part}',
} as const;

const BREACHES = breachesOf('I10', SITES, {
  'failed-without-cause': {
    site: 'outcome',
    says: 'request {request} failed ({cause}) although nothing went down',
  },
  'load-failed-without-cause': {
    site: 'report',
    says: '{actor} reports the load of request {request} as failed although nothing went wrong',
  },
  'not-loaded': {
    site: 'load-report',
    says: '{actor} reported the KV of request {request} as loaded up to token {tokenTo}, but it is not all there',
  },
  'loaded-what-is-not': {
    site: 'effect',
    says: '{actor} reports as loaded what there is not: {note}',
  },
  'chose-none': {
    site: 'hook',
    says: '{actor}: {hook} of {guest} chose no {role} engine although all {count} are up',
  },
});

export const I10 = {
  id: 'I10',
  name: 'honest-report',
  sentence: 'a reported success is true, and a reported failure has a cause',
  sites: SITES,
  breaches: BREACHES,
  hears: {
    outcome(court, actor, { request, outcome, cause }) {
      const { config, topology, outcomes, dead, fail } = court;
      if (outcome !== 'failed' || outcomes.has(request) || dead.size > 0) return;
      if (config.requests[request]!.fits)
        fail(BREACHES['failed-without-cause'], whereOfActor(topology, actor), { request, cause });
    },
    report({ config, topology, calm, fail }, actor, { failed }) {
      if (!calm) return;
      for (const request of failed) {
        const { aborts, fits } = config.requests[request]!;
        if (!aborts && fits)
          fail(BREACHES['load-failed-without-cause'], whereOfActor(topology, actor), { actor, request });
      }
    },
    loaded({ config, topology, fail }, actor, note) {
      if (config.isLoaded(actor, note)) return;
      const { request, transfer, tokenTo } = note;
      fail(BREACHES['not-loaded'], whereOfActor(topology, actor), { actor, request, transfer, tokenTo });
    },
  },
  raisedBy: 'sim/guest-policy.ts (no engine chosen), sim/guest-effects.ts (a load of what there is not)',
  finds: 'load reported when it starts; seal always claims success; received load reported as failed',
} as const satisfies Invariant;

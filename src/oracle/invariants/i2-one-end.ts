import { PROXY } from '../../base/topology.ts';
import { NOWHERE, whereOfActor } from '../breach.ts';
import { breachesOf, type Invariant } from '../invariant.ts';
import { waitChain } from '../waits-for.ts';

const SITES = {
  wait: '{owner} waits for {part}',
  nobody: 'nobody waits',
  outcome: '{owner} outcome',
} as const;

const BREACHES = breachesOf('I2', SITES, {
  'no-end': { site: 'wait', says: 'nothing is left to happen and request {requests} has no end' },
  'no-end-nobody-waits': {
    site: 'nobody',
    says: 'nothing is left to happen and request {requests} has no end',
  },
  'two-ends': { site: 'outcome', says: 'request {request} ended twice: {first}, then {second}' },
});

export const I2 = {
  id: 'I2',
  name: 'one-end',
  sentence: 'every request reaches exactly one end, in bounded time, and the client sees it',
  sites: SITES,
  breaches: BREACHES,
  hears: {
    outcome({ topology, outcomes, fail }, actor, { request, outcome }) {
      const first = outcomes.get(request);
      if (first === undefined) return;
      fail(BREACHES['two-ends'], whereOfActor(topology, actor), { request, first, second: outcome });
    },
    /** The last of the chain of waits that begins at the proxy is where it hangs. */
    ended({ topology, unfinished, fail }, end) {
      if (unfinished.size === 0) return;
      const requests = [...unfinished];
      const last = waitChain(end.waits(), PROXY).at(-1);
      if (last === undefined) return fail(BREACHES['no-end-nobody-waits'], NOWHERE, { requests });
      const { who, whom, what, fields } = last;
      fail(BREACHES['no-end'], whereOfActor(topology, who, what), { ...fields, requests, who, whom });
    },
  },
  raisedBy: '',
  finds:
    'received transfers not reported; claims and seals, or grants and revokes, never repeated; a lease without an end',
} as const satisfies Invariant;

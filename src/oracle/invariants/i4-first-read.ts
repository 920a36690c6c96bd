import { NOWHERE, whereOfActor } from '../breach.ts';
import { breachesOf, type Invariant } from '../invariant.ts';

const SITES = { attention: '{owner} attention', answer: 'client answer' } as const;

const BREACHES = breachesOf('I4', SITES, {
  'wrong-cell': {
    site: 'attention',
    says: '{actor} read a wrong cell for request {request}: layer {layer}, token {token}, head {head}, {component}, block {block} holds {actual}, a single node has {expected} there',
  },
  'wrong-tokens': {
    site: 'answer',
    says: 'request {request} answered [{tokens}], a single node answers [{reference}]',
  },
});

export const I4 = {
  id: 'I4',
  name: 'first-read',
  sentence: 'what D reads first is what a single node would have computed',
  sites: SITES,
  breaches: BREACHES,
  hears: {
    misread({ topology, fail }, actor, { request, layer, token, head, part, block, expected, actual }) {
      const component = part === 0 ? 'K' : 'V';
      const ids = { actor, request, layer, token, head, component, block, expected, actual };
      fail(BREACHES['wrong-cell'], whereOfActor(topology, actor), ids);
    },
    outcome({ config, outcomes, fail }, _actor, { request, outcome, tokens }) {
      if (outcome !== 'completed' || outcomes.has(request) || !config.checksTokens) return;
      const { reference } = config.requests[request]!;
      const isSame =
        tokens.length === reference.length && tokens.every((token, index) => token === reference[index]);
      if (!isSame) fail(BREACHES['wrong-tokens'], NOWHERE, { request, tokens, reference });
    },
  },
  raisedBy: '',
  finds:
    'offsets one cell or block off; last run lost; all layers saved with the first; failed load taken for good',
} as const satisfies Invariant;

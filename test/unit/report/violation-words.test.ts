import { describe, expect, test } from 'vitest';
import { INVARIANTS } from '../../../src/oracle/registry.ts';
import type { Violation } from '../../../src/oracle/verdict.ts';
import {
  detailInWords,
  placeInWords,
  violationAsJson,
  violationInWords,
  waitInWords,
} from '../../../src/report/violation-words.ts';

const NAMES = ['proxy', 'P0', 'P0.r0', 'D0', 'D0.r0'];

const TOKEN: Violation = {
  ...{ invariant: 'I1', site: 'slots', role: 'decode', machine: 'none', part: '' },
  breach: 'token-not-to-be-written',
  ids: {
    ...{ operation: 'write', request: 1, transfer: 2, layer: 0, deed: 'lands-on' },
    ...{ token: 7, block: 3, engine: 1, tokens: [4, 6] },
  },
  ...{ step: 9, atMicros: 100 },
};

describe('a violation in words', () => {
  test('tells the promise, the place and what is at fault', () => {
    expect(violationInWords(TOKEN, NAMES)).toBe(
      [
        'I1 broken: no block is reused while an operation that names it can still land, and none touches what it was not given',
        '  at decode slots: a write of request 1 (transfer 2, layer 0) lands on token 7 of the request in block 3 of engine 1, which waits for tokens 4 to 5 there',
      ].join('\n'),
    );
  });

  test.each<[string, Partial<Violation>, string]>([
    ['no tokens', { ids: { ...TOKEN.ids, tokens: [0, 0] } }, 'which waits for no tokens there'],
    ['nobody', { breach: 'block-of-another', ids: { ...TOKEN.ids, holder: -1 } }, 'belongs to nobody'],
    ['a request', { breach: 'block-of-another', ids: { ...TOKEN.ids, holder: 4 } }, 'belongs to request 4'],
    ['names', { breach: 'handed-out-while-held', ids: { actor: 3, block: 2 } }, 'D0 gives block 2'],
    ['a holder', { breach: 'handed-out-while-held', ids: { holder: 4 } }, 'while request 4 holds it'],
    ['what is not told', { breach: 'handed-out-while-held', ids: { actor: 3 } }, 'block ? to request ?'],
    [
      'a word of memory',
      { invariant: 'I4', breach: 'wrong-cell', ids: { actor: 4, expected: 255, actual: 0 } },
      'holds 0x00000000, a single node has 0x000000ff there',
    ],
    [
      'the hook and the code of a guest',
      {
        ...{ invariant: 'I12', breach: 'sends-to-nobody', stack: ['f (mine.js:1:2)', 'g'] },
        ids: { actor: 2, to: 99, hook: 'step', guest: 'connector "mine"' },
      },
      'P0.r0 sends to actor 99, who does not exist (in step of connector "mine"), at f (mine.js:1:2)',
    ],
  ])('shows %s', (_, change, says) => {
    expect(detailInWords({ ...TOKEN, ...change }, NAMES)).toContain(says);
  });

  test('has its data beside the words in JSON', () => {
    expect(violationAsJson(TOKEN, NAMES)).toEqual({
      ...TOKEN,
      place: 'decode slots',
      detail: expect.stringContaining('lands on token 7'),
    });
  });

  test('has a place for every site, with whose part it is and which', () => {
    const at = { role: 'prefill', machine: 'rank', part: 'free-blocks' } as const;
    const places = INVARIANTS.flatMap(({ id, sites }) =>
      Object.keys(sites).map((site) => placeInWords({ ...at, invariant: id, site: site as 'wait' })),
    );
    expect(places).toContain('prefill rank waits for free blocks');
    expect(places).toContain('prefill rank block pool');
    expect(places).toContain('send queue');
    expect(places.filter((place) => /[{}]/.test(place))).toEqual([]);
  });
});

test('every breach shows at a site of its invariant', () => {
  let breaches = 0;
  for (const invariant of INVARIANTS)
    for (const { site, says } of Object.values(invariant.breaches)) {
      expect(Object.keys(invariant.sites)).toContain(site);
      expect(says.length).toBeGreaterThan(20);
      breaches++;
    }
  expect(breaches).toBeGreaterThan(60);
});

test('a wait is told with what it is about and from whom', () => {
  const wait = { who: 4, what: 'seal-ack', fields: { transfer: 12, peers: [1, 2] }, whom: 2 };
  expect(waitInWords(wait, NAMES)).toBe('D0.r0 waits for seal ack (transfer 12, peers 1 2) from P0.r0');
  expect(waitInWords({ ...wait, fields: {}, whom: -1 }, NAMES)).toBe('D0.r0 waits for seal ack');
});

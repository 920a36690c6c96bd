import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { planOf } from '../../../src/cli/plan/compute.ts';
import { boundsOfBatches } from '../../../src/cli/plan/measure.ts';
import { modelByName } from '../../../src/cli/plan/models.ts';
import { cachesOf, laySide } from '../../../src/cli/plan/ranks.ts';
import { piecesOf } from '../../../src/cli/plan/size.ts';
import { modelWith, requestOf } from './plan-helpers.ts';

/** How large a plan is, known from its shapes before anything is made. */

const BILLIONS = 2 ** 24;
const LATENT = modelByName('deepseek-v3')!;
const GROUPED = modelByName('llama-3-70b')!;

describe('a plan that is too large is refused before its lists are made', () => {
  test.each([
    ['a block for each token', LATENT, 'block=1', 'block=1', BILLIONS],
    ['one long list', LATENT, 'block=1', 'block=65536', BILLIONS],
    ['a row for each token and head', GROUPED, 'block=16,layout=kv-first-nhd', 'block=16', BILLIONS],
    [
      'a row for each token and head of one block',
      GROUPED,
      'block=65536,layout=kv-first-nhd',
      'block=65536',
      BILLIONS,
    ],
    ['sizes that never agree', GROUPED, 'block=1', 'block=65535,layout=kv-first-nhd', BILLIONS],
    [
      'a stage for each layer, each with lists of its own',
      LATENT,
      'block=4,pp=61',
      'block=4,pp=30',
      BILLIONS,
    ],
  ])('%s', (_, model, prefill, decode, tokens) => {
    const before = process.memoryUsage().rss;
    const request = requestOf({ ...model, dtype: 'bfloat16' }, prefill, decode, {
      tokens,
      placement: 'scattered',
    });
    expect(() => planOf(request)).toThrow(expect.objectContaining({ code: 'PLAN-SIZE' }));
    expect(process.memoryUsage().rss - before).toBeLessThan(400 * 2 ** 20);
  });

  test('and one below the bounds is planned: a million tokens in blocks of 16, all layers at once', () => {
    const side = 'block=16,layout=cross-layer-hnd';
    const request = requestOf(modelWith(4, 8, 128), side, side, {
      tokens: 1_000_000,
      placement: 'scattered',
    });
    expect(planOf(request).refused).toBeNull();
  });
});

const pages = fc.constantFrom(1, 2, 3, 4, 8, 12);

test('pieces that lie alike are told once: together they are the pieces of the whole range', () => {
  fc.assert(
    fc.property(pages, pages, fc.nat({ max: 80 }), fc.nat({ max: 80 }), (left, right, from, length) => {
      const cuts = new Set([from, from + length]);
      for (let at = from; at < from + length; at++) if (at % left === 0 || at % right === 0) cuts.add(at);
      const wanted = new Map<string, number>();
      const sorted = [...cuts].sort((a, b) => a - b);
      sorted.slice(1).forEach((to, index) => {
        const key = `${sorted[index]! % left} ${sorted[index]! % right} ${to - sorted[index]!}`;
        wanted.set(key, (wanted.get(key) ?? 0) + 1);
      });
      const got = new Map<string, number>();
      for (const piece of piecesOf(left, right, [from, from + length])) {
        const key = `${piece.from % left} ${piece.from % right} ${piece.to - piece.from}`;
        got.set(key, (got.get(key) ?? 0) + piece.times);
      }
      expect([...got].sort()).toEqual([...wanted].sort());
    }),
    { seed: 7, numRuns: 300 },
  );
});

test('the bounds hold what is planned', () => {
  const blocks = fc.constantFrom(4, 8, 12);
  const layouts = fc.constantFrom('kv-first-nhd', 'kv-first-hnd', 'block-first-hnd', 'cross-layer-nhd');
  const side = fc.tuple(blocks, fc.constantFrom(1, 2, 4), layouts).map(([block, kernel, layout]) => {
    return `block=${block},kernel-block=${block / kernel},layout=${layout}`;
  });
  fc.assert(
    fc.property(
      side,
      side,
      fc.integer({ min: 100, max: 400 }),
      fc.nat({ max: 90 }),
      (left, right, tokens, prefix) => {
        const request = requestOf(modelWith(3, 4, 8), left, right, { tokens, prefix });
        const { model, dtype } = request;
        const [prefill, decode] = [
          laySide('--prefill', request.prefill, model, dtype, tokens, 'contiguous'),
          laySide('--decode', request.decode, model, dtype, tokens, 'contiguous'),
        ];
        const there = cachesOf(decode, 0);
        const layers = cachesOf(prefill, 0).map((view, at) => {
          return { prefill: view, decode: there[at]!, tokens: [prefix, tokens] as const };
        });
        const allLayersAtOnce = prefill.crossLayer && decode.crossLayer;
        for (const placement of ['contiguous', 'scattered'] as const) {
          const [pair] = planOf({ ...request, placement }).pairs;
          const bounds = boundsOfBatches(layers, { allLayersAtOnce, scattered: placement === 'scattered' });
          // Three layers that lie alike are one batch.
          const times = 3 / bounds.reduce((sum) => sum + (allLayersAtOnce ? 3 : 1), 0);
          const [fewest, most] = (['fewest', 'most'] as const).map((key) =>
            bounds.reduce((sum, batch) => sum + batch[key] * times, 0),
          );
          expect(most).toBeGreaterThanOrEqual(pair!.runsBefore);
          if (placement === 'contiguous') expect(fewest).toBeLessThanOrEqual(pair!.runsBefore);
        }
      },
    ),
    { seed: 11, numRuns: 60 },
  );
});

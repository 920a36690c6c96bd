import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { promptTail, type TailSpan } from '../../reference/prompt-tail.ts';

/** Which block of a span holds a token; undefined when none does. */
function blockAt({ blocks, firstToken }: TailSpan, blockTokens: number, token: number): number | undefined {
  return blocks[Math.floor((token - firstToken) / blockTokens)];
}

test('a token lies in the same place of the whole table and of its tail, whatever the block sizes', () => {
  const size = fc.integer({ min: 1, max: 8 });
  fc.assert(
    fc.property(size, size, fc.integer({ min: 1, max: 60 }), fc.nat(), (ours, theirs, promptTokens, hit) => {
      const table = (tokens: number, base: number): number[] =>
        Array.from({ length: Math.ceil(promptTokens / tokens) }, (_, index) => base + index);
      const local = table(ours, 100);
      const remote = table(theirs, 500);
      const hitBlocks = hit % (local.length + 1);
      const tail = promptTail(local.slice(hitBlocks), ours, remote, theirs, promptTokens);
      expect(tail.tokenFrom).toBe(Math.min(hitBlocks * ours, promptTokens));
      for (let token = tail.tokenFrom; token < promptTokens; token++) {
        expect(blockAt(tail.local, ours, token)).toBe(local[Math.floor(token / ours)]);
        expect(blockAt(tail.remote, theirs, token)).toBe(remote[Math.floor(token / theirs)]);
      }
    }),
    { seed: 42, numRuns: 500 },
  );
});

test('a shorter list is paired with the tail of the longer one, not with its head', () => {
  const { local, remote, tokenFrom } = promptTail([8, 9], 4, [1, 2, 3], 4, 11);
  expect([local.firstToken, remote.firstToken, tokenFrom]).toEqual([4, 0, 4]);
  expect([blockAt(remote, 4, 4), blockAt(remote, 4, 10)]).toEqual([2, 3]);
});

test('no local block means nothing to move, even if the peer lends none', () => {
  expect(promptTail([], 4, [1, 2, 3], 4, 11).tokenFrom).toBe(11);
  expect(promptTail([], 4, [], 4, 11).tokenFrom).toBe(11);
});

describe('refused are', () => {
  test.each([
    ['more local blocks than the prompt has', () => promptTail([1, 2, 3], 4, [1, 2], 4, 8), 'TAIL-LENGTH'],
    ['more remote blocks than the prompt has', () => promptTail([1], 4, [1, 2, 3], 4, 8), 'TAIL-LENGTH'],
    ['remote blocks that begin behind ours', () => promptTail([1, 2], 4, [1], 4, 8), 'TAIL-LENGTH'],
    ['a block of no tokens', () => promptTail([1], 0, [1], 4, 4), 'TAIL-SIZE'],
    ['a prompt of half a token', () => promptTail([1], 4, [1], 4, 0.5), 'TAIL-SIZE'],
  ])('%s', (_, ask, code) => {
    expect(ask).toThrow(expect.objectContaining({ code }));
  });
});

import { expect, test } from 'vitest';
import { decoders, fuzzFrames } from '../helpers/fuzz-frames.ts';

// A short run of scripts/fuzz-frames.mjs; docs/WIRE.md says how the long one is run, short of memory.

const FRAMES = 13_000;

test('spoiled frames with a true checksum end in a value or a coded refusal, whoever reads them', () => {
  const { verdicts, longestBytes } = fuzzFrames(FRAMES, 42);
  expect(Object.keys(verdicts)).toEqual(decoders().map(({ name }) => name));
  expect(longestBytes).toBeGreaterThan(10_000);
  for (const [decoder, counts] of Object.entries(verdicts)) {
    const accepted = counts['accepted'] ?? 0;
    const all = Object.values(counts).reduce((sum, count) => sum + count, 0);
    expect([decoder, all]).toEqual([decoder, FRAMES / Object.keys(verdicts).length]);
    expect([decoder, accepted > 0, accepted < all]).toEqual([decoder, true, true]);
  }
  const codes = new Set(Object.values(verdicts).flatMap((counts) => Object.keys(counts)));
  for (const code of ['DESC-SHORT', 'DESC-FORMAT', 'DESC-TYPE', 'DESC-TEXT', 'FRAME-SIZE', 'FRAME-TYPE'])
    expect(codes).toContain(code);
  for (const code of ['MSGPACK-SHORT', 'MSGPACK-DEPTH', 'MSGPACK-FORMAT']) expect(codes).toContain(code);
});

test('a run repeats', () => {
  expect(fuzzFrames(1300, 7)).toEqual(fuzzFrames(1300, 7));
  expect(fuzzFrames(1300, 7)).not.toEqual(fuzzFrames(1300, 8));
});

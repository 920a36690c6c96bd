import { describe, expect, test } from 'vitest';
import { type Judged, judge, measure, type Shape, type Timed } from '../../../src/cli/bench/native-rounds.ts';

const SHAPE: Shape = { bytes: 1e6, operations: 1, window: 1, batches: 1000, posts: 0 };
const WARM = 5;

const timed = (seconds: number, waitedSeconds = 0): Timed => ({
  seconds,
  cpuSeconds: 2 * seconds,
  waitedSeconds,
  postMicros: 1,
});

const JUDGED: Judged = {
  name: 'moves',
  unit: 'GB/s',
  against: (theirs) => `C, ${theirs}`,
  value: ({ seconds }) => 1 / seconds,
  ratio: ({ bridge, baseline }) => baseline.seconds / bridge.seconds,
  sense: 'atLeast',
  floor: 0.9,
};

/** A side whose n-th round after the warm ones is what `of` says, and which notes that it ran. */
function side(name: string, ran: string[], of: (round: number) => Timed): () => Timed {
  let round = -WARM;
  return () => {
    ran.push(name);
    return of(round++);
  };
}

describe('rounds of two programs', () => {
  test('both are warmed, then run in turn, each first in every second round', async () => {
    const ran: string[] = [];
    const [a, b] = ['a', 'b'].map((name) => side(name, ran, () => timed(1)));
    const { kept, tried } = await measure(a!, b!, SHAPE, 4);
    expect({ kept: kept.length, tried }).toEqual({ kept: 4, tried: 4 });
    expect(ran.join('')).toBe(`${'ab'.repeat(WARM)}abbaabba`);
  });

  test('a round in which a thread of either waited for a core does not count', async () => {
    // Whoever waits is slow: were these rounds counted, the ratio would be about a half.
    const bridge = side('a', [], (round) => (round % 3 === 0 ? timed(2, 1) : timed(1.01, 0.001)));
    const baseline = side('b', [], (round) => (round % 3 === 1 ? timed(9, 0.19) : timed(1)));
    const measured = await measure(bridge, baseline, SHAPE, 5);
    expect(measured.tried).toBe(15);
    expect(measured.kept).toHaveLength(5);
    const figure = judge(JUDGED, SHAPE, measured, 5);
    expect(figure).toMatchObject({ ratio: 0.9901, holds: true });
    expect(figure.note).toBe('5 of 15 rounds kept; CPU 2.020 s/GB, in C 2.000');
  });

  test('where the machine is busy all the time it does not go on for long', async () => {
    const busy = side('a', [], () => timed(1, 0.5));
    const idle = side('b', [], () => timed(1));
    expect(await measure(busy, idle, SHAPE, 6)).toEqual({ kept: [], tried: 6 });
  });

  test('too few clean rounds are no measurement, and hold nothing', async () => {
    const busy = side('a', [], (round) => timed(1, round < 2 ? 0 : 0.5));
    const measured = await measure(
      busy,
      side('b', [], () => timed(1)),
      SHAPE,
      3,
    );
    expect(measured.tried).toBe(30);
    const figure = judge(JUDGED, SHAPE, measured, 3);
    expect(figure).toMatchObject({ ratio: Number.NaN, holds: false });
    expect(figure.note).toBe('in 28 of 30 rounds a thread waited for a core, and 3 without are needed');
  });
});

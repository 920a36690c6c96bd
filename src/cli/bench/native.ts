import { pushAll } from '../../base/lists.ts';
import { readKernelBytes } from '../../node/kernel-bytes.ts';
import type { NativeProvider } from '../../node/native-fabric.ts';
import { instantiateKernels } from '../../sim/load-kernels.ts';
import type { Figure } from './figures.ts';
import { gigabytesOf, type Judged, judge, type Measured, measure, type Shape } from './native-rounds.ts';
import { Baseline, Bridge, HALF } from './native-sides.ts';

/** Bandwidth and posting through the bridge, beside a C program in the same rounds. */

const PAGES = (2 * HALF) / 65_536;

const LARGE: Shape = { bytes: 1024 * 1024, operations: 1, window: 16, batches: 128, posts: 0 };
const SMALL: Shape = { bytes: 4096, operations: 64, window: 4, batches: 128, posts: 50 };

const LARGE_FLOOR = 0.9;
const SMALL_FLOOR = 0.7;
const POST_BOUND = 1.5;
/** Clean rounds that are aimed at, for each that is asked for; fewer than were asked for are no measurement. */
const AIM = 3;

export async function nativeFigures(rounds: number): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const provider of ['shm', 'tcp'] as const) pushAll(figures, await figuresOf(provider, rounds));
  return figures;
}

async function figuresOf(provider: NativeProvider, rounds: number): Promise<Figure[]> {
  const { buffer } = instantiateKernels(readKernelBytes(), PAGES).memory;
  const baseline = new Baseline(provider);
  try {
    const bridge = new Bridge(provider, new Uint8Array(buffer), SMALL.operations);
    const timed = (shape: Shape): Promise<Measured> =>
      measure(
        (of) => bridge.run(of),
        (of) => baseline.run(of),
        shape,
        AIM * rounds,
      );
    const [large, small] = [await timed(LARGE), await timed(SMALL)];
    bridge.close();
    return [
      judge(
        bandwidth(`${provider}, batches of one write of 1 MiB`, LARGE, LARGE_FLOOR),
        LARGE,
        large,
        rounds,
      ),
      judge(
        bandwidth(`${provider}, batches of 64 writes of 4 KiB`, SMALL, SMALL_FLOOR),
        SMALL,
        small,
        rounds,
      ),
      judge(posting(`${provider}, posting a batch of 64`), SMALL, small, rounds),
    ];
  } finally {
    baseline.close();
  }
}

function bandwidth(name: string, shape: Shape, floor: number): Judged {
  return {
    name,
    unit: 'GB/s',
    against: (theirs) => `C, ${theirs.toFixed(2)} GB/s`,
    value: ({ seconds }) => gigabytesOf(shape) / seconds,
    ratio: (pair) => pair.baseline.seconds / pair.bridge.seconds,
    sense: 'atLeast',
    floor,
  };
}

function posting(name: string): Judged {
  return {
    name,
    unit: 'us',
    against: (theirs) => `64 calls in C, ${theirs.toFixed(1)} us`,
    value: ({ postMicros }) => postMicros,
    ratio: (pair) => pair.bridge.postMicros / pair.baseline.postMicros,
    sense: 'atMost',
    floor: POST_BOUND,
  };
}

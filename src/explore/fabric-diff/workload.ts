import { UsageError } from '../../base/failure.ts';
import type { Fabric } from '../../io/fabric.ts';
import { CHECK_PAGES, type WorldMemory } from '../../sim/memory.ts';
import { about, picksOf } from './classes.ts';
import { type Coverage, count } from './coverage.ts';
import { REGION_BYTES, type Round, roundsOf } from './drawing.ts';
import { createImage, drawImage } from './image.ts';
import { type Arena, type Batch, batchOf, type Difference, openArena, PACES, RoundRun } from './lockstep.ts';
import { postTransfer } from './posting.ts';

/** One seed's drawn batches over one fabric after the other, each judged by what the bytes must be. */

export interface WorkloadSide {
  readonly name: string;
  readonly memory: WorldMemory;
  /** Asked once for each workload; holds no regions then. */
  readonly fabric: () => Fabric;
}

export interface SideDifference extends Difference {
  readonly side: string;
}

export interface WorkloadOutcome {
  /** Batches that ended, over both sides and both paces. */
  readonly batches: number;
  /** The first ones. */
  readonly differences: readonly SideDifference[];
  readonly differenceCount: number;
}

const PAGE_BYTES = 65_536;
/** A memory of so many pages holds the cluster of a check, and behind it the two regions of the workload. */
export const DIFF_PAGES = CHECK_PAGES + (2 * REGION_BYTES) / PAGE_BYTES;

const KEPT_MAX = 16;
/** Of the draws that are about an image; drawing.ts has the others. */
const IMAGE = 100;
let images: ReturnType<typeof createImage> | null = null;

/** `isFirstEnough` ends it with the first round that has a difference. @throws UsageError DIFF-MEMORY */
export function runWorkload(
  sides: readonly WorkloadSide[],
  seed: number,
  coverage: Coverage,
  isFirstEnough = false,
): WorkloadOutcome {
  const places = sides.map(({ memory }) => regionsOf(memory));
  const arenas = sides.map((side, at) => openArena(side.fabric(), side.memory.bytes, places[at]!));
  try {
    return runRounds(arenas, seed, { coverage, isFirstEnough, names: sides.map(({ name }) => name) });
  } finally {
    // As a run of a cluster expects it.
    for (const { near, far } of arenas) for (const region of [near, far]) region.fill(0);
  }
}

interface Rules {
  readonly coverage: Coverage;
  readonly isFirstEnough: boolean;
  readonly names: readonly string[];
}

function runRounds(
  arenas: readonly Arena[],
  seed: number,
  { coverage, isFirstEnough, names }: Rules,
): WorkloadOutcome {
  const pick = picksOf(seed);
  const differences: SideDifference[] = [];
  let [batches, differenceCount, firstIndex] = [0, 0, 0];
  images ??= createImage();
  for (const [index, round] of roundsOf(seed, pick).entries()) {
    const orders = ordersOf(round, arenas[0]!, coverage);
    const image = drawImage(images, round, about(pick, IMAGE, index));
    for (const [side, arena] of arenas.entries())
      for (const pace of PACES) {
        const run = new RoundRun(arena, image, pace);
        run.run(orders, firstIndex);
        batches += run.ended;
        differenceCount += run.count;
        const kept = run.differences.slice(0, KEPT_MAX - differences.length);
        for (const difference of kept) differences.push({ ...difference, side: names[side]! });
      }
    firstIndex += orders.length;
    if (isFirstEnough && differenceCount > 0) break;
  }
  return { batches, differences, differenceCount };
}

function ordersOf({ transfers }: Round, { near, far }: Arena, coverage: Coverage): Batch[] {
  return transfers.flatMap((transfer) => {
    const posted = postTransfer(transfer, near, far);
    count(coverage, posted);
    return posted.chains.map(batchOf);
  });
}

/** Where the two regions begin: at the end of the memory, which no cluster reaches. */
function regionsOf({ bytes }: WorldMemory): readonly [number, number] {
  const first = bytes.length - 2 * REGION_BYTES;
  const least = CHECK_PAGES * PAGE_BYTES;
  if (first >= least) return [first, first + REGION_BYTES];
  throw new UsageError(
    'DIFF-MEMORY',
    `a memory of ${bytes.length} bytes is too small for the workload of a diff: it needs ${DIFF_PAGES} pages, createWorldMemory(instantiateKernels(bytes, DIFF_PAGES), CHECK_SIZES)`,
  );
}

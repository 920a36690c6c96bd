import type { ContextView } from '../base/cache-view.ts';

/**
 * Which units of a request two ranks hold both when context groups split them. Units are counted from the one that a
 * block list begins with; what a rank holds, one behind the other, fills its blocks as if no other rank were there:
 *
 *   unit d lies with rank floor(d / I) % W, as number floor(d / (W * I)) * I + d % I of those it holds
 */

/** Units that follow one another on both sides: the first one's number among those each side holds, and how many. */
export interface Stretch {
  readonly local: number;
  readonly remote: number;
  readonly units: number;
}

/**
 * The units held on both sides among those of `all`, whose first one has these two distances from the starts of the lists;
 * in order, and as few stretches as there can be.
 */
export function* sharedStretches(here: ContextView, there: ContextView, all: Stretch): Generator<Stretch> {
  let open: Stretch = { local: 0, remote: 0, units: 0 };
  for (let done = 0; done < all.units; ) {
    const local = holdOf(here, all.local + done);
    const remote = holdOf(there, all.remote + done);
    const absent = Math.max(local.absent, remote.absent);
    if (absent > 0) {
      done += absent;
      continue;
    }
    const count = Math.min(all.units - done, local.room, remote.room);
    const goesOn = open.local + open.units === local.at && open.remote + open.units === remote.at;
    if (goesOn) open = { ...open, units: open.units + count };
    else {
      if (open.units > 0) yield open;
      open = { local: local.at, remote: remote.at, units: count };
    }
    done += count;
  }
  if (open.units > 0) yield open;
}

/** How many units from this one on the rank lacks; or, when none, how many it holds, and this one's number there. */
function holdOf(context: ContextView, unit: number): { absent: number; room: number; at: number } {
  const { ranks, rank, interleaveUnits } = context;
  if (ranks === 1) return { absent: 0, room: Number.POSITIVE_INFINITY, at: unit };
  const round = ranks * interleaveUnits;
  const inRound = unit % round;
  const start = rank * interleaveUnits;
  const inShare = inRound - start;
  if (inShare < 0) return { absent: -inShare, room: 0, at: 0 };
  if (inShare >= interleaveUnits) return { absent: round - inShare, room: 0, at: 0 };
  return {
    absent: 0,
    room: interleaveUnits - inShare,
    at: ((unit - inRound) / round) * interleaveUnits + inShare,
  };
}

/**
 * Whether two ranks hold some unit both, when the lists begin with one. The starts of their shares differ by every number
 * that is so much modulo the greatest common divisor of the rounds; one of these must be less than a share.
 */
export function contextsMeet(a: ContextView, b: ContextView): boolean {
  const common = greatestDivisor(a.ranks * a.interleaveUnits, b.ranks * b.interleaveUnits);
  const apart = a.rank * a.interleaveUnits - b.rank * b.interleaveUnits;
  const shifted = (((apart + a.interleaveUnits - 1) % common) + common) % common;
  // What makes no sense meets, so that somebody says why it does not.
  return !(shifted > a.interleaveUnits + b.interleaveUnits - 2);
}

function greatestDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestDivisor(b, a % b);
}

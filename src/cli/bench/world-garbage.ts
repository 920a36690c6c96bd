import { runSeed } from '../../explore/run.ts';
import type { WorldMemory } from '../../sim/memory.ts';
import { SHIPPED_MIX } from '../../zoo/shipped.ts';
import { type Figure, figure, heapGrowth } from './figures.ts';
import { runSchedules } from './world-schedules.ts';

const BYTES_CEILING = 600;
const MAPS_CEILING = 40;
/** Counts depend on no machine, so few schedules are enough. */
const SCHEDULES = 200;
/** A collection falls into one schedule of dozens: the median of three has none. */
const ROUNDS = 3;

/** What warm schedules leave for the collector. Afterwards all code that makes Maps is slow. */
export function garbageFigures(memory: WorldMemory): Figure[] {
  const bytes = bytesOfStep(memory);
  const maps = mapsOfSchedule(memory);
  return [
    figure('allocated for a step', bytes, 'bytes', '1 step', bytes, 'atMost', BYTES_CEILING),
    figure('Maps made', maps, 'Maps', '1 schedule', maps, 'atMost', MAPS_CEILING),
  ];
}

/** On the heap and in buffers, set-up included. */
function bytesOfStep(memory: WorldMemory): number {
  let [bytes, steps] = [0, 0];
  for (let seed = 0; seed < SCHEDULES; seed++) {
    let ran = 0;
    bytes += heapGrowth(() => {
      ran = runSeed(memory, SHIPPED_MIX, seed).result.steps;
    }, ROUNDS);
    steps += ran;
  }
  return bytes / steps;
}

function mapsOfSchedule(memory: WorldMemory): number {
  const plain = globalThis.Map;
  let made = 0;
  class CountedMap<Key, Value> extends plain<Key, Value> {
    constructor(entries?: Iterable<readonly [Key, Value]> | null) {
      super(entries);
      made++;
    }
  }
  globalThis.Map = CountedMap as MapConstructor;
  try {
    runSchedules(memory, 0, SCHEDULES);
  } finally {
    globalThis.Map = plain;
  }
  return made / SCHEDULES;
}

import { complain } from '../output.ts';
import type { Figure } from './figures.ts';
import { blockFigures } from './kv-blocks.ts';
import { byteFigures } from './kv-bytes.ts';
import { copyFigures } from './kv-copy.ts';
import { createKvMemory } from './kv-memory.ts';
import { loadNative } from './kv-native.ts';
import { findNumpy } from './kv-numpy.ts';
import { planFigures } from './kv-plans.ts';

/** A median of fewer says nothing. */
const ROUNDS_MIN = 5;

/** The kernels against C and numpy, where there are a compiler and numpy; figures without their yardstick are left out. */
export function kvFigures(roundsAsked: number): Figure[] {
  const rounds = Math.max(ROUNDS_MIN, roundsAsked);
  const memory = createKvMemory();
  const native = present(
    loadNative(memory.buffer),
    'figures against C are left out, copies go against JavaScript',
  );
  const numpy = present(findNumpy(), 'figures against numpy are left out');
  return [
    ...copyFigures(memory, native, rounds),
    ...blockFigures(memory, native, numpy, rounds),
    ...planFigures(memory, native, rounds),
    ...byteFigures(memory, native, rounds),
  ];
}

function present<Thing extends object>(
  found: Thing | { readonly missing: string },
  so: string,
): Thing | undefined {
  if (!('missing' in found)) return found;
  complain(`${found.missing}: ${so}`);
  return undefined;
}

import type { LayerView, PartView } from '../../src/base/cache-view.ts';

/** A stretch of a layer's memory to register, relative to its region. */
export interface Stretch {
  readonly region: number;
  readonly offset: number;
  readonly bytes: number;
}

/**
 * What must be registered so that every byte of every block can be moved: from the first byte of a part to its last one;
 * parts whose stretches touch or overlap become one stretch, so K and V blocks that alternate do, and K and V halves of
 * one tensor as well. By region, then by offset.
 */
export function stretchesOf(view: LayerView): Stretch[] {
  const sorted = view.parts
    .map((part) => ({ region: part.region, offset: part.base, bytes: spanOf(view, part) }))
    .sort((a, b) => a.region - b.region || a.offset - b.offset);
  const stretches: Stretch[] = [];
  for (const next of sorted) {
    const last = stretches.at(-1);
    const isApart =
      last === undefined || last.region !== next.region || next.offset > last.offset + last.bytes;
    if (!isApart) {
      const end = Math.max(last.offset + last.bytes, next.offset + next.bytes);
      stretches[stretches.length - 1] = { ...last, bytes: end - last.offset };
    } else if (next.bytes > 0 || last === undefined) {
      // A cache without blocks has stretches of no bytes, of which one is enough.
      stretches.push(next);
    }
  }
  return stretches;
}

/** Bytes from the first to the last byte of a part, gaps included. */
export function spanOf({ blockCount, blockUnits, headCount }: LayerView, part: PartView): number {
  const pages = (blockCount * blockUnits) / part.pageUnits;
  if (pages === 0) return 0;
  const inPage = (part.pageUnits - 1) * part.unitStride + (headCount - 1) * part.headStride;
  return (pages - 1) * part.blockStride + inPage + part.bytes;
}

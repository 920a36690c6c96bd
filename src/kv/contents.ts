import { UsageError } from '../base/failure.ts';

/** A named range of bytes in the row of one (unit, head), in order and without gaps. */
export interface Content {
  readonly name: string;
  readonly bytes: number;
}

/** What a cache holds of each (unit, head): one row, or a K row and a V row, and the form in words. */
export interface Contents {
  readonly rows: readonly (readonly Content[])[];
  readonly form: string;
}

/** Elements of a cell and their type, as far as the content depends on them. */
export interface CellShape {
  /** Elements of a K vector, or of a latent row. */
  readonly headSize: number;
  /** Elements of a V vector; as K when left out. */
  readonly headSizeV?: number;
  readonly dtype: string;
  readonly elementBytes: number;
  /** Value or hash of static scales, or `DYNAMIC_SCALE` of refusal.ts; part of the form. */
  readonly scale?: string;
}

/** K and V vectors in a row each. */
export function keyAndValue(cell: CellShape): Contents {
  const { headSize, headSizeV = headSize, elementBytes } = cell;
  const rows = [
    [{ name: 'k', bytes: headSize * elementBytes }],
    [{ name: 'v', bytes: headSizeV * elementBytes }],
  ];
  return { rows, form: formOf(cell, `k${headSize} v${headSizeV}`) };
}

/** The V vector behind the K vector in one row; without V elements it is a latent row, whatever its layout is called. */
export function packedKeyAndValue(cell: CellShape): Contents {
  if (cell.headSizeV === 0) return latent(cell);
  const { rows, form } = keyAndValue(cell);
  return { rows: [rows.flat()], form };
}

/** One latent row. A row of 656 bytes is the fp8 form with inline scales, one of 132 a sparse index. Source: layouts.md 7.1. */
export function latent(cell: CellShape): Contents {
  const { headSize, elementBytes } = cell;
  if (elementBytes === 1 && headSize === 656) return inline(cell, FP8_LATENT);
  if (elementBytes === 1 && headSize === 132) return inline(cell, SPARSE_INDEX);
  return {
    rows: [[{ name: 'latent', bytes: headSize * elementBytes }]],
    form: formOf(cell, `latent${headSize}`),
  };
}

const FP8_LATENT: readonly Content[] = [
  { name: 'latent', bytes: 512 },
  { name: 'scale', bytes: 16 },
  { name: 'rope', bytes: 128 },
];
const SPARSE_INDEX: readonly Content[] = [
  { name: 'index', bytes: 128 },
  { name: 'scale', bytes: 4 },
];

export function fp8Latent(cell: CellShape): Contents {
  return inline(cell, FP8_LATENT);
}

export function sparseIndex(cell: CellShape): Contents {
  return inline(cell, SPARSE_INDEX);
}

function inline(cell: CellShape, row: readonly Content[]): Contents {
  return { rows: [row], form: formOf(cell, row.map(({ name, bytes }) => `${name}${bytes}`).join(' ')) };
}

/**
 * NVFP4: two elements in a byte, then a one-byte scale for each 16 of them, in the same row.
 * @throws UsageError LAYOUT-SHAPE for head sizes that are no multiple of 16.
 */
export function nvfp4(cell: CellShape): Contents {
  const { headSize, headSizeV = headSize } = cell;
  if (headSize % 16 !== 0 || headSizeV % 16 !== 0)
    throw new UsageError(
      'LAYOUT-SHAPE',
      `NVFP4 scales 16 elements at a time, not ${headSize} and ${headSizeV}`,
    );
  const row = (name: string, size: number): Content[] => [
    { name, bytes: size / 2 },
    { name: `${name}Scale`, bytes: size / 16 },
  ];
  return {
    rows: [row('k', headSize), row('v', headSizeV)],
    form: formOf(cell, `k${headSize} v${headSizeV} scaled by 16`),
  };
}

/** States of a recurrent layer, one after the other in their slot. */
export function states(cell: CellShape, list: readonly Content[]): Contents {
  const { rows, form } = inline(cell, list);
  return { rows, form: form + OF_ONE_RANK };
}

/** The same, of which only the size is known. */
export function opaqueState(cell: CellShape, bytes: number): Contents {
  return states(cell, [{ name: 'state', bytes }]);
}

/** A row that only its owner can take apart, with `heads` heads from `headFirst` on in it. */
export function opaque(cell: CellShape, bytes: number, headFirst: number, heads: number): Contents {
  const form = formOf(cell, `row${bytes}`);
  return { rows: [[{ name: 'row', bytes }]], form: heads > 1 ? form + tiedHeads(headFirst, heads) : form };
}

/** Ends the form of a state of a TP rank, which nobody can split or join. */
export const OF_ONE_RANK = ' of one TP rank';

/** In a form: heads that lie in one piece and cannot be taken apart; refusal.ts knows the words. */
export function tiedHeads(headFirst: number, heads: number): string {
  return ` heads ${headFirst} to ${headFirst + heads - 1} interleaved`;
}

export function formOf({ dtype, scale }: CellShape, content: string): string {
  return scale === undefined ? `${dtype} ${content}` : `${dtype} ${content} scale ${scale}`;
}

export function bytesOf(row: readonly Content[]): number {
  return row.reduce((sum, { bytes }) => sum + bytes, 0);
}

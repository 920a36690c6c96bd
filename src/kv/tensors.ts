import type { ContextView, LayerView, PartView } from '../base/cache-view.ts';
import { greatest } from '../base/lists.ts';
import { bytesOf, type Content, type Contents } from './contents.ts';

/** The strides of one layer's tensor in bytes; `value` is the distance from a K row to its V row. */
export interface TensorStrides {
  readonly page: number;
  readonly unit: number;
  readonly head: number;
  readonly value: number;
}

/** What every part of a layer has in common. */
export interface LayerFrame {
  readonly layer: number;
  readonly group: number;
  readonly blockCount: number;
  readonly blockUnits: number;
  readonly context: ContextView;
  readonly unitTokens: number;
  readonly headFirst: number;
  readonly headCount: number;
}

/** Where a tensor lies: its region, the offset of its first cell, and how many units a page of it has. */
export interface TensorPlace {
  readonly region: number;
  readonly base: number;
  readonly pageUnits: number;
}

/** The parts of one tensor: each row's contents one after the other, the V row `value` behind the K row. */
export function partsOf(
  rows: readonly (readonly Content[])[],
  strides: TensorStrides,
  place: TensorPlace,
): PartView[] {
  return rows.flatMap((row, index) => {
    let base = place.base + index * strides.value;
    return row.map(({ name, bytes }): PartView => {
      const part = {
        name,
        region: place.region,
        base,
        blockStride: strides.page,
        unitStride: strides.unit,
        headStride: strides.head,
        bytes,
        pageUnits: place.pageUnits,
      };
      base += bytes;
      return part;
    });
  });
}

/** A layer of these parts. */
export function layerOf(frame: LayerFrame, parts: readonly PartView[], form: string): LayerView {
  const { blockCount, blockUnits, headCount } = frame;
  const cells = blockCount * blockUnits * headCount;
  return { ...frame, parts, form, bytes: cells * parts.reduce((sum, { bytes }) => sum + bytes, 0) };
}

/** A layer that is one tensor. */
export function tensorLayer(
  frame: LayerFrame,
  contents: Contents,
  strides: TensorStrides,
  place: TensorPlace,
): LayerView {
  return layerOf(frame, partsOf(contents.rows, strides, place), contents.form);
}

/** Bytes of the widest row. */
export function rowBytesOf({ rows }: Contents): number {
  return greatest(rows.map(bytesOf));
}

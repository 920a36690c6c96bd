import {
  CONTEXT_NUMBERS,
  LAYER_NUMBERS,
  type LayerView,
  listedTokensOf,
  PART_NUMBERS,
  type PartView,
} from '../base/cache-view.ts';
import { isCount } from '../base/checks.ts';
import { RANKS_MAX } from './view.ts';

/** Whether a view makes sense by itself: it may be a caller's own, or have come from a peer. */

/** In a layer or a part of it, what is none where there are no others of. */
const LAYER_LEAST = ['blockUnits', 'unitTokens'] as const;

/** What is wrong with a view, or ''; `where` says whose it is. */
export function faultOf(view: LayerView, where: string): string {
  return layerFault(view, where) || contextFault(view, where) || partsFault(view, where);
}

function layerFault(view: LayerView, where: string): string {
  for (const field of LAYER_NUMBERS) {
    if (!isCount(view[field])) return `${field} ${view[field]} ${where} is no whole number from 0 on`;
  }
  for (const field of LAYER_LEAST) if (view[field] < 1) return `${field} ${where} is 0`;
  if (!isCount(view.headFirst + view.headCount)) return `heads ${where} are beyond counting`;
  return '';
}

function contextFault(view: LayerView, where: string): string {
  const { blockUnits, context } = view;
  const { ranks, rank, interleaveUnits } = context;
  for (const field of CONTEXT_NUMBERS) {
    if (!isCount(context[field]))
      return `${field} ${context[field]} of the context ${where} is no whole number from 0 on`;
  }
  if (rank >= ranks || ranks > RANKS_MAX) return `context rank ${rank} of ${ranks} ${where} is none`;
  if (interleaveUnits < 1 || blockUnits % interleaveUnits !== 0)
    return `a block of ${blockUnits} units ${where} is no whole number of interleaves of ${interleaveUnits}`;
  if (!isCount(listedTokensOf(view))) return `a block ${where} has more tokens than can be counted`;
  return '';
}

function partsFault(view: LayerView, where: string): string {
  const { parts } = view;
  if (parts.length === 0) return `the layer ${where} has no parts`;
  for (const [index, part] of parts.entries()) {
    for (let other = 0; other < index; other++)
      if (parts[other]!.name === part.name) return `two parts have one name, ${part.name}, ${where}`;
    const fault = partFault(view, part, where);
    if (fault !== '') return fault;
  }
  return '';
}

function partFault(view: LayerView, part: PartView, where: string): string {
  for (const field of PART_NUMBERS) {
    if (!isCount(part[field]))
      return `${field} ${part[field]} of part ${part.name} ${where} is no whole number from 0 on`;
  }
  const { blockUnits } = view;
  if (part.pageUnits < 1 || blockUnits % part.pageUnits !== 0)
    return `a block of ${blockUnits} units ${where} is no whole number of pages of ${part.pageUnits}`;
  if (part.bytes < 1) return `part ${part.name} ${where} has no bytes`;
  if (!isCount(endOf(view, part))) return `part ${part.name} ${where} ends beyond what can be counted`;
  return '';
}

/** No byte of the part lies at this offset or behind it. */
function endOf({ blockCount, blockUnits, headCount }: LayerView, part: PartView): number {
  const pages = blockCount * (blockUnits / part.pageUnits);
  const rows = pages * part.blockStride + part.pageUnits * part.unitStride + headCount * part.headStride;
  return part.base + rows + part.bytes;
}

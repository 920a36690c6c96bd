import type { LayerView, PartView } from '../base/cache-view.ts';
import { OF_ONE_RANK } from './contents.ts';
import { faultOf } from './soundness.ts';

/** Words of a form that make it unfit for a transfer: the scale changes with every step and lies in no cache. */
export const DYNAMIC_SCALE = 'dynamic per-tensor scale';

/** In a form: heads that are interleaved in one unit and cannot be taken apart. */
const TIED = / heads (\d+) to (\d+) interleaved$/;

/** Parts of recurrent layers, in views whose form does not say what they are. */
const STATE_PARTS: ReadonlySet<string> = new Set(['conv', 'ssm']);

/** Whether the rows are a state that nobody can split or join: between engines it goes from a TP rank to its equal. */
export function isOfOneRank({ form, parts }: LayerView): boolean {
  return form.endsWith(OF_ONE_RANK) || parts.some(({ name }) => STATE_PARTS.has(name));
}

/** A form without the heads that it ties. */
export function contentOf(form: string): string {
  return form.replace(TIED, '');
}

/** Why a cache cannot go from so many TP ranks to so many others, or ''. */
export function reshardRefusal(view: LayerView, sourceTp: number, targetTp: number): string {
  if (sourceTp === targetTp || !isOfOneRank(view)) return '';
  const names = view.parts.map(({ name }) => name).join(' and ');
  return `layer ${view.layer}: the state ${names} of ${sourceTp} TP ranks cannot be resharded to ${targetTp}`;
}

/**
 * Why two layers cannot be joined, or '' when they can. Checked once for each session, at the handshake.
 * Source: layouts.md 7.9, 7.10.
 */
export function refusalOf(local: LayerView, remote: LayerView): string {
  const cause =
    unsoundness(local, 'here') ||
    unsoundness(remote, 'at the peer') ||
    partRefusal(local, remote) ||
    unitRefusal(local, remote) ||
    formRefusal(local, remote);
  return cause === '' ? '' : `layer ${local.layer}: ${cause}`;
}

function unsoundness(view: LayerView, where: string): string {
  if (view.form.includes(DYNAMIC_SCALE)) return `a ${DYNAMIC_SCALE} ${where} is not in the cache`;
  return faultOf(view, where);
}

function partRefusal({ parts }: LayerView, remote: LayerView): string {
  for (const { name, bytes } of parts) {
    const peer = partOf(remote, name);
    if (peer === undefined) return `part ${name} is missing at the peer`;
    if (peer.bytes !== bytes)
      return `a unit of part ${name} has ${bytes} bytes here and ${peer.bytes} bytes at the peer`;
  }
  if (parts.length === remote.parts.length) return '';
  const more = remote.parts.find(({ name }) => !parts.some((part) => part.name === name))!;
  return `part ${more.name} is missing here`;
}

function partOf({ parts }: LayerView, wanted: string): PartView | undefined {
  for (const part of parts) if (part.name === wanted) return part;
  return undefined;
}

function unitRefusal(local: LayerView, remote: LayerView): string {
  if (local.unitTokens === remote.unitTokens) return '';
  const units = `${local.unitTokens} tokens here and ${remote.unitTokens} at the peer`;
  return `the tokens of a unit cannot be taken apart: ${units}`;
}

function formRefusal(local: LayerView, remote: LayerView): string {
  if (local.form === remote.form) return rankRefusal(local, remote);
  const tied = TIED.exec(local.form);
  const tiedThere = TIED.exec(remote.form);
  if (
    tied !== null &&
    tiedThere !== null &&
    tied.input.slice(0, tied.index) === tiedThere.input.slice(0, tiedThere.index)
  )
    return `heads are split over a shuffled unit: heads ${tied[1]} to ${tied[2]} here, ${tiedThere[1]} to ${tiedThere[2]} at the peer`;
  return `the form is '${local.form}' here and '${remote.form}' at the peer`;
}

function rankRefusal(local: LayerView, remote: LayerView): string {
  if (!isOfOneRank(local)) return '';
  const isSame = local.headFirst === remote.headFirst && local.headCount === remote.headCount;
  return isSame ? '' : `a state of rank ${local.headFirst} here, of rank ${remote.headFirst} at the peer`;
}

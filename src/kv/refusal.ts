import type { LayerView, PartView } from '../base/cache-view.ts';

/** No instance has more ranks than a host has ports. */
const RANKS_MAX = 65_535;

/** Words of a form that make it unfit for a transfer: the scale changes with every step and lies in no cache. */
export const DYNAMIC_SCALE = 'dynamic per-tensor scale';

/** In a form: heads that are interleaved in one unit and cannot be taken apart. */
export const TIED = / heads (\d+) to (\d+) interleaved$/;

/** Parts whose bytes belong to one TP size: a recurrent state is neither split nor joined. All others go by heads. */
const NEVER_RESHARDED: ReadonlySet<string> = new Set(['conv', 'ssm']);

/** Why a cache cannot go from so many TP ranks to so many others, or ''. */
export function reshardRefusal({ layer, parts }: LayerView, sourceTp: number, targetTp: number): string {
  const part = parts.find(({ name }) => NEVER_RESHARDED.has(name));
  if (part === undefined || sourceTp === targetTp) return '';
  return `layer ${layer}: the state ${part.name} of ${sourceTp} TP ranks cannot be resharded to ${targetTp}`;
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

function unsoundness({ form, parts, blockUnits, context }: LayerView, where: string): string {
  if (form.includes(DYNAMIC_SCALE)) return `a ${DYNAMIC_SCALE} ${where} is not in the cache`;
  for (const { pageUnits } of parts) {
    if (blockUnits % pageUnits !== 0)
      return `a block of ${blockUnits} units ${where} is no whole number of pages of ${pageUnits}`;
  }
  const { ranks, rank, interleaveUnits } = context;
  if (!(rank >= 0 && rank < ranks && ranks <= RANKS_MAX))
    return `context rank ${rank} of ${ranks} ${where} is none`;
  if (blockUnits % interleaveUnits !== 0)
    return `a block of ${blockUnits} units ${where} is no whole number of interleaves of ${interleaveUnits}`;
  return '';
}

function partRefusal({ parts }: LayerView, remote: LayerView): string {
  for (const { name, bytes } of parts) {
    const peer = partOf(remote, name);
    if (peer === undefined) return `part ${name} is missing at the peer`;
    if (peer.bytes !== bytes)
      return `a unit of part ${name} has ${bytes} bytes here and ${peer.bytes} bytes at the peer`;
  }
  if (parts.length === remote.parts.length) return '';
  const more = remote.parts.find(({ name }) => !parts.some((part) => part.name === name));
  return more === undefined ? 'two parts have one name' : `part ${more.name} is missing here`;
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
  if (local.form === remote.form) return '';
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

import { UsageError } from '../../base/failure.ts';
import type { LayoutName } from '../../kv/layouts.ts';
import { PLANNED_LAYOUTS } from './layout-choice.ts';
import { CACHE_DTYPES, type CacheDtype } from './model-spec.ts';

/** One side of a deployment as people give it: `tp=8,pp=2,block=16`. */
export interface SideSpec {
  readonly tp: number;
  readonly pp: number;
  /** Ranks of a context group, which split the tokens of each block; divides `tp`. */
  readonly dcp: number;
  /** Neighbouring tokens that one rank of a context group holds; divides `block`. */
  readonly dcpInterleave: number;
  /** Tokens of a block that one rank holds. */
  readonly block: number;
  /** Tokens of a kernel block, in which the memory is really laid out; divides `block`. */
  readonly kernelBlock: number;
  /** Name of a layout, or null for the model's usual one. */
  readonly layout: LayoutName | null;
  /** Blocks of a rank's cache, or null for twice what the request needs. */
  readonly blocks: number | null;
  /** Layers of each stage, or null for vLLM's default. */
  readonly stages: readonly number[] | null;
  /** Cache type of this side, or null for the one of both. */
  readonly dtype: CacheDtype | null;
}

const KEYS = [
  'tp',
  'pp',
  'block',
  'layout',
  'blocks',
  'kernel-block',
  'stages',
  'dtype',
  'dcp',
  'dcp-interleave',
] as const;
type Key = (typeof KEYS)[number];

const MOST = {
  tp: 256,
  pp: 64,
  block: 65_536,
  'kernel-block': 65_536,
  blocks: 100_000_000,
  dcp: 256,
  'dcp-interleave': 65_536,
} as const;
const BLOCK_DEFAULT = 16;
const RANKS_MAX = 1024;

/** @throws UsageError SIDE: what is wrong with which key. */
export function readSide(flag: string, text: string): SideSpec {
  const given = pairsOf(flag, text);
  const number = (key: keyof typeof MOST): number | undefined => {
    const value = given.get(key);
    return value === undefined ? undefined : wholeNumber(flag, key, value, MOST[key]);
  };
  const block = number('block') ?? BLOCK_DEFAULT;
  const kernelBlock = number('kernel-block') ?? block;
  if (block % kernelBlock !== 0)
    throw new UsageError('SIDE', `${flag} kernel-block=${kernelBlock}: must divide block=${block}`);
  const stages = given.has('stages') ? stagesOf(flag, given.get('stages')!) : null;
  const pp = number('pp') ?? stages?.length ?? 1;
  if (stages !== null && stages.length !== pp)
    throw new UsageError('SIDE', `${flag} stages=${given.get('stages')}: ${stages.length} stages, pp=${pp}`);
  const tp = number('tp') ?? 1;
  if (tp * pp > RANKS_MAX)
    throw new UsageError('SIDE', `${flag}: ${tp} x ${pp} ranks, at most ${RANKS_MAX} are planned`);
  const dcp = number('dcp') ?? 1;
  if (tp % dcp !== 0) throw new UsageError('SIDE', `${flag} dcp=${dcp}: must divide tp=${tp}`);
  const dcpInterleave = number('dcp-interleave') ?? 1;
  if (block % dcpInterleave !== 0)
    throw new UsageError('SIDE', `${flag} dcp-interleave=${dcpInterleave}: must divide block=${block}`);
  return {
    tp,
    pp,
    dcp,
    dcpInterleave,
    block,
    kernelBlock,
    layout: oneOf(flag, 'layout', given.get('layout'), PLANNED_LAYOUTS),
    blocks: number('blocks') ?? null,
    stages,
    dtype: oneOf(flag, 'dtype', given.get('dtype'), CACHE_DTYPES),
  };
}

function pairsOf(flag: string, text: string): Map<Key, string> {
  const given = new Map<Key, string>();
  for (const pair of text.split(',')) {
    const at = pair.indexOf('=');
    if (at < 1 || at === pair.length - 1)
      throw new UsageError('SIDE', `${flag}: ${JSON.stringify(pair)} is not key=value, as in tp=8,block=16`);
    const key = KEYS.find((known) => known === pair.slice(0, at));
    if (key === undefined)
      throw new UsageError(
        'SIDE',
        `${flag}: ${JSON.stringify(pair.slice(0, at))} is not a key; use ${KEYS.join(', ')}`,
      );
    if (given.has(key)) throw new UsageError('SIDE', `${flag}: ${key} is given twice`);
    given.set(key, pair.slice(at + 1));
  }
  return given;
}

function wholeNumber(flag: string, key: string, text: string, most: number): number {
  const value = /^\d{1,12}$/.test(text) ? Number(text) : 0;
  if (value < 1 || value > most)
    throw new UsageError('SIDE', `${flag} ${key}=${shown(text)}: must be an integer from 1 to ${most}`);
  return value;
}

/** `30+31`: the layers of each pipeline stage. */
function stagesOf(flag: string, text: string): number[] {
  const counts = text.split('+').map((count) => (/^\d{1,4}$/.test(count) ? Number(count) : 0));
  if (counts.includes(0) || counts.length > MOST.pp)
    throw new UsageError('SIDE', `${flag} stages=${shown(text)}: must be layers of each stage, as in 30+31`);
  return counts;
}

function oneOf<Name extends string>(
  flag: string,
  key: string,
  text: string | undefined,
  names: readonly Name[],
): Name | null {
  if (text === undefined) return null;
  const found = names.find((name) => name === text);
  if (found === undefined)
    throw new UsageError('SIDE', `${flag} ${key}=${shown(text)}: unknown; use one of ${names.join(', ')}`);
  return found;
}

function shown(text: string): string {
  return /^[\w.+-]{1,40}$/.test(text) ? text : JSON.stringify(text.slice(0, 40));
}

/**
 * The layers [from, to) of each pipeline stage. By default as vLLM splits them: equal parts, what is left over one each
 * to the last stage but one and those before it.
 * @throws UsageError SIDE when the stages do not fit the model.
 */
export function stageRanges(flag: string, side: SideSpec, layers: number): [number, number][] {
  if (side.pp > layers)
    throw new UsageError('SIDE', `${flag} pp=${side.pp}: the model has only ${layers} layers`);
  const counts = side.stages ?? equalStages(layers, side.pp);
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total !== layers)
    throw new UsageError(
      'SIDE',
      `${flag} stages=${counts.join('+')}: ${total} layers, the model has ${layers}`,
    );
  let from = 0;
  return counts.map((count) => {
    from += count;
    return [from - count, from];
  });
}

function equalStages(layers: number, pp: number): number[] {
  const least = Math.floor(layers / pp);
  const over = layers % pp;
  return Array.from({ length: pp }, (_, stage) => least + (stage < pp - 1 && stage >= pp - 1 - over ? 1 : 0));
}

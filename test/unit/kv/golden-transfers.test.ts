import { expect, test } from 'vitest';
import { mergeRows } from '../../../src/kv/merge.ts';
import { parseTensor } from '../../../src/kv/parse.ts';
import { planLayer, planPart } from '../../../src/kv/plan.ts';
import type { LayerView } from '../../../src/kv/view.ts';
import {
  codeFor,
  type GoldenTensor,
  listedDifferences,
  outcomeOf,
  type Refused,
  readGolden,
  remoteView,
  sha256,
  specOf,
  tensorOf,
} from './golden.ts';

interface Rows {
  readonly count: number;
  readonly sha256: string;
  readonly offsets_local?: readonly number[];
  readonly offsets_remote?: readonly number[];
  readonly sizes?: readonly number[];
}

type Moved = { readonly ok: true; readonly before_merge: Rows; readonly merged: Rows };

interface Case {
  readonly id: string;
  readonly geometry: GoldenTensor;
  readonly local_block_ids: readonly number[];
  readonly remote_block_ids: readonly number[];
  readonly remote_num_blocks: number | null;
  readonly expect: { readonly [revision: string]: Moved | Refused | string };
  readonly r2_extra?: object;
}

const cases = readGolden<Case>('transfer-offsets.json');
/** Arguments that only one revision takes, instead of sizes that say the same. */
const taken = cases.filter(({ r2_extra }) => r2_extra === undefined);

function columnsOf(rows: readonly number[]): number[][] {
  return [0, 1, 2].map((column) => rows.filter((_, index) => index % 3 === column));
}

/** One row for each block of each part; for each block where its parts are one piece on both sides by form. */
function rowsByBlock(
  local: LayerView,
  remote: LayerView,
  { local_block_ids, remote_block_ids }: Case,
): number[] {
  const pages = local.blockUnits / local.parts[0]!.pageUnits;
  const isWhole = pages > 1 && local.parts.length > 1 && local.parts[1]!.base < local.parts[0]!.blockStride;
  return local_block_ids.flatMap((block, index) => {
    const ids = { local: [block], remote: [remote_block_ids[index]!] };
    const rows = local.parts.flatMap((part, at) => {
      const runs: number[] = [];
      planPart(
        { part, layer: local, blocks: ids.local, firstUnit: 0 },
        { part: remote.parts[at]!, layer: remote, blocks: ids.remote, firstUnit: 0 },
        { from: 0, to: local.blockUnits },
        runs,
      );
      return runs;
    });
    const isPacked = local.parts.length > 1 && local.parts[1]!.base < local.parts[0]!.unitStride;
    return isWhole || isPacked ? mergeRows(rows) : rows;
  });
}

function moved(golden: Case): { before: number[][]; merged: number[][] } {
  const { geometry, local_block_ids, remote_block_ids } = golden;
  const local = parseTensor(tensorOf(geometry), specOf(geometry));
  const remote = remoteView(geometry, golden.remote_num_blocks);
  const blockTokens = local.blockUnits * local.unitTokens;
  const tokens = Math.max(local_block_ids.length, remote_block_ids.length) * blockTokens;
  const runs: number[] = [];
  planLayer(
    { layer: local, blocks: local_block_ids, firstToken: 0 },
    { layer: remote, blocks: remote_block_ids, firstToken: 0 },
    { from: 0, to: tokens },
    runs,
  );
  return { before: columnsOf(rowsByBlock(local, remote, golden)), merged: columnsOf(mergeRows(runs)) };
}

function differenceOf(golden: Case): string {
  const ours = outcomeOf(() => moved(golden));
  const { expect: said } = golden;
  const revision = (name: string): Moved | Refused => {
    const entry = said[name]!;
    return typeof entry === 'string' ? revision(entry.slice('same as '.length)) : entry;
  };
  const names = golden.geometry.shape.length === 4 ? ['r3', 'r2'] : ['r1'];
  const differences = names.map((name) => differenceFrom(revision(name), ours));
  return differences.includes('') ? '' : differences[0]!;
}

function differenceFrom(said: Moved | Refused, ours: unknown): string {
  if (!said.ok)
    return ours === codeFor(said) ? '' : `${JSON.stringify(ours).slice(0, 200)} for ${said.error}`;
  if (typeof ours === 'string') return ours;
  const { before, merged } = ours as ReturnType<typeof moved>;
  return rowsDiffer(said.before_merge, before) || rowsDiffer(said.merged, merged);
}

function rowsDiffer(said: Rows, ours: number[][]): string {
  if (sha256(ours) === said.sha256) return '';
  return `${JSON.stringify(ours).slice(0, 200)} for ${said.count} rows`;
}

test('a hash of ours stands for the rows that a case spells out', () => {
  const spelled = cases.flatMap(({ expect: said }) =>
    Object.values(said).flatMap((entry) =>
      typeof entry !== 'string' && entry.ok ? [entry.before_merge, entry.merged] : [],
    ),
  );
  const whole = spelled.filter(({ count, sizes }) => sizes?.length === count);
  expect(whole.length).toBeGreaterThan(200);
  for (const rows of whole)
    expect(sha256([rows.offsets_local, rows.offsets_remote, rows.sizes])).toBe(rows.sha256);
});

test('blocks move as upstream moves them, but for the differences that docs/LAYOUTS.md gives reasons for', () => {
  const differences = new Map(taken.map((golden) => [golden.id, differenceOf(golden)]));
  const differing = taken.filter(({ id }) => differences.get(id) !== '').map(({ id }) => id);
  expect(differing.map((id) => `${id}: ${differences.get(id)}`)).toEqual(
    listedDifferences('T').map((id) => `${id}: ${differences.get(id) || 'no difference'}`),
  );
  expect([cases.length, taken.length]).toEqual([238, 235]);
});

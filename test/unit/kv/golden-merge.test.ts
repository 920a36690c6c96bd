import { expect, test } from 'vitest';
import { mergeRows } from '../../../src/kv/merge.ts';
import { listedDifferences, readGolden } from './golden.ts';

interface Columns {
  readonly offsets_local: readonly number[];
  readonly offsets_remote: readonly number[];
  readonly sizes: readonly number[];
}

interface Case {
  readonly id: string;
  readonly input: Columns & { readonly assume_sorted: boolean };
  readonly expect: ({ readonly ok: true } & Columns) | { readonly ok: false; readonly error: string };
}

const cases = readGolden<Case>('merge.json');

/** Rows of columns, or the refusal that triples make needless: columns of unequal length are no rows. */
function rowsOf({ offsets_local, offsets_remote, sizes }: Columns): number[] | 'length_mismatch' {
  if (offsets_local.length !== offsets_remote.length || offsets_local.length !== sizes.length)
    return 'length_mismatch';
  return offsets_local.flatMap((local, row) => [local, offsets_remote[row]!, sizes[row]!]);
}

function differenceOf({ input, expect: said }: Case): string {
  const rows = rowsOf(input);
  const ours = typeof rows === 'string' ? rows : mergeRows(rows);
  const wanted = said.ok ? rowsOf(said) : said.error;
  return JSON.stringify(ours) === JSON.stringify(wanted)
    ? ''
    : `${JSON.stringify(ours)} for ${JSON.stringify(wanted)}`;
}

test('rows merge as upstream merges them, but for the differences that docs/LAYOUTS.md gives reasons for', () => {
  const differences = new Map(cases.map((golden) => [golden.id, differenceOf(golden)]));
  const differing = cases.filter(({ id }) => differences.get(id) !== '').map(({ id }) => id);
  expect(differing.map((id) => `${id}: ${differences.get(id)}`)).toEqual(
    listedDifferences('M').map((id) => `${id}: ${differences.get(id) || 'no difference'}`),
  );
  expect(cases).toHaveLength(116);
});

test('merging leaves the rows it was given alone', () => {
  const rows = [8, 8, 4, 0, 0, 8];
  expect(mergeRows(rows)).toEqual([0, 0, 12]);
  expect(rows).toEqual([8, 8, 4, 0, 0, 8]);
});

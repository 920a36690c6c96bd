import { expect, test } from 'vitest';
import { textOf } from '../../tidy/source.ts';

/** docs/CONFORMANCE.md names only tests that are there, and each of MoRI-IO's tests once. */

interface PageRow {
  readonly upstream: string;
  readonly file: string;
  readonly title: string;
}

const ROWS = textOf('docs/CONFORMANCE.md')
  .split('\n')
  .map((line) => /^\| (.+) \| `(.+)` \| (.+) \|$/.exec(line))
  .flatMap((hit): PageRow[] => (hit === null ? [] : [{ upstream: hit[1]!, file: hit[2]!, title: hit[3]! }]));

test('every title of the page is the title of a test in its file', () => {
  expect(ROWS.length).toBeGreaterThan(80);
  const missing = ROWS.filter(({ file, title }) => {
    const source = textOf(`test/unit/io/${file}.test.ts`);
    return !source.includes(`'${title}'`) && !source.includes(`"${title}"`);
  });
  expect(missing).toEqual([]);
});

test('no test of MoRI-IO stands on the page twice', () => {
  const names = ROWS.map(({ upstream }) => upstream);
  expect(names.filter((name, at) => names.indexOf(name) !== at)).toEqual([]);
});

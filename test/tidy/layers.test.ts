import { describe, expect, test } from 'vitest';
import { ENTRIES, PRODUCTS, SOURCES } from './entries.ts';
import { COMPUTED, importsOf, targetOf, textOf } from './source.ts';

/** The rows of the layer table. A file imports its own folder or a folder of a smaller row. */
const ROWS: { readonly [folder: string]: number } = {
  base: 0,
  kv: 1,
  wire: 1,
  io: 2,
  connector: 3,
  serving: 4,
  proxy: 4,
  oracle: 5,
  record: 5,
  faults: 5,
  sim: 6,
  node: 6,
  zoo: 7,
  real: 7,
  explore: 8,
  report: 8,
  cli: 9,
};

const PRODUCT_ROW = 10;

/** The one file that imports what is not ours: modules that a user names. */
const LOADER = 'src/node/user-module.ts';

interface Place {
  readonly row: number;
  readonly folder: string;
}

function placeOf(file: string): Place | undefined {
  if (PRODUCTS.includes(file)) return { row: PRODUCT_ROW, folder: file };
  const folder = /^src\/([^/]+)\//.exec(file)?.[1] ?? '';
  return Object.hasOwn(ROWS, folder) ? { row: ROWS[folder]!, folder } : undefined;
}

/** Every breach of the layer table by one file, in words. */
function breachesOf(file: string, source: string): string[] {
  const from = placeOf(file);
  if (from === undefined) return [`${file} lies in no layer`];
  return importsOf(source).flatMap((specifier) => {
    if (specifier === COMPUTED) return file === LOADER ? [] : [`${file} computes what it imports`];
    if (!specifier.startsWith('.')) return [];
    const target = targetOf(file, specifier);
    if (target === 'package.json') return [];
    const to = placeOf(target);
    if (to === undefined) return [`${file} imports ${target}, which lies in no layer`];
    if (to.row < from.row || (to.folder === from.folder && to.row === from.row)) return [];
    return [`${file} (row ${from.row}) imports ${target} (row ${to.row})`];
  });
}

/** The files that no entry reaches, however many tests do. */
function unreachedOf(files: ReadonlyMap<string, string>, entries: readonly string[]): string[] {
  const reached = new Set<string>();
  const queue = [...entries];
  while (queue.length > 0) {
    const file = queue.pop()!;
    const source = files.get(file);
    if (source === undefined || reached.has(file)) continue;
    reached.add(file);
    for (const specifier of importsOf(source))
      if (specifier.startsWith('.')) queue.push(targetOf(file, specifier));
  }
  return [...files.keys()].filter((file) => !reached.has(file));
}

/** Files that reach themselves by imports, types included; each circle is told by all of its files. */
function circlesOf(files: ReadonlyMap<string, string>): string[] {
  const targets = new Map(
    [...files].map(([file, source]) => [
      file,
      importsOf(source).flatMap((specifier) =>
        specifier.startsWith('.') ? [targetOf(file, specifier)] : [],
      ),
    ]),
  );
  const reaches = (from: string): Set<string> => {
    const reached = new Set<string>();
    const queue = [...(targets.get(from) ?? [])];
    while (queue.length > 0) {
      const file = queue.pop()!;
      if (reached.has(file)) continue;
      reached.add(file);
      queue.push(...(targets.get(file) ?? []));
    }
    return reached;
  };
  return [...files.keys()].filter((file) => reaches(file).has(file));
}

test('the search for circles names all files of one, and no others', () => {
  const files = new Map([
    ['src/kv/a.ts', "import './b.ts'; import type { X } from './d.ts';"],
    ['src/kv/b.ts', "import type { C } from './c.ts';"],
    ['src/kv/c.ts', "export { a } from './a.ts';"],
    ['src/kv/d.ts', "import '../base/e.ts';"],
    ['src/base/e.ts', ''],
  ]);
  expect(circlesOf(files)).toEqual(['src/kv/a.ts', 'src/kv/b.ts', 'src/kv/c.ts']);
});

describe('the layer rule fires on', () => {
  test.each([
    ['an import of a larger row', 'src/kv/a.ts', "import { b } from '../io/b.ts';"],
    ['an import of another folder of the same row', 'src/kv/a.ts', "import '../wire/b.ts';"],
    ['a re-export of a larger row', 'src/base/a.ts', "export * from '../kv/b.ts';"],
    ['a type import of a larger row', 'src/oracle/a.ts', "import type { B } from '../sim/b.ts';"],
    ['a dynamic import of a larger row', 'src/report/a.ts', "const b = await import('../cli/b.ts');"],
    ['a required larger row', 'src/proxy/a.ts', "const b = require('../serving/b.ts');"],
    ['an import of a product', 'src/cli/a.ts', "import '../index.ts';"],
    ['an import of a test', 'src/cli/a.ts', "import '../../test/tidy/source.ts';"],
    ['a computed import', 'src/cli/a.ts', 'await import(name);'],
    ['a folder that is not in the table', 'src/helpers/a.ts', ''],
    ['a file beside the folders', 'src/a.ts', ''],
    ['a deep folder of a larger row', 'src/connector/shipped/a.ts', "import '../../serving/b.ts';"],
    ['one product that imports the other', 'src/index.ts', "import './browser.ts';"],
  ])('%s', (_, file, source) => {
    expect(breachesOf(file, source)).toHaveLength(1);
  });

  test.each([
    ['its own folder', 'src/connector/shipped/a.ts', "import '../plug.ts'; import './b.ts';"],
    ['smaller rows', 'src/sim/a.ts', "import '../oracle/b.ts'; import '../base/b.ts'; import '../kv/b.ts';"],
    ['everything from a product', 'src/index.ts', "export * from './cli/b.ts'; import './sim/b.ts';"],
    ['packages, which the purity test judges', 'src/base/a.ts', "import 'zod'; import 'node:fs';"],
  ])('nothing for %s', (_, file, source) => {
    expect(breachesOf(file, source)).toEqual([]);
  });
});

describe('the source tree', () => {
  test('keeps to the layer table', () => {
    expect(SOURCES.length).toBeGreaterThan(50);
    expect(SOURCES.flatMap((file) => breachesOf(file, textOf(file)))).toEqual([]);
  });

  test('has a file in every folder of rows 0 to 6', () => {
    const used = new Set(SOURCES.map((file) => placeOf(file)?.folder));
    const wanted = Object.keys(ROWS).filter((folder) => ROWS[folder]! <= 6);
    expect(wanted.filter((folder) => !used.has(folder))).toEqual([]);
  });

  test('imports only files that exist', () => {
    const missing = SOURCES.flatMap((file) =>
      importsOf(textOf(file))
        .filter((specifier) => specifier.startsWith('.'))
        .map((specifier) => targetOf(file, specifier))
        .filter((target) => target.startsWith('src/') && !SOURCES.includes(target))
        .map((target) => `${file} imports ${target}`),
    );
    expect(missing).toEqual([]);
  });

  test('has no circle of imports', () => {
    expect(circlesOf(new Map(SOURCES.map((file) => [file, textOf(file)])))).toEqual([]);
  });

  test('has no file that no entry of the package reaches: what tests alone use lies in test/', () => {
    expect(unreachedOf(new Map(SOURCES.map((file) => [file, textOf(file)])), ENTRIES)).toEqual([]);
  });
});

describe('the search for dead files', () => {
  test('names a file that nothing reaches, and a ring of files that only reach each other', () => {
    const files = new Map([
      ['src/index.ts', "export * from './kv/a.ts'; import type { T } from './kv/b.ts';"],
      ['src/kv/a.ts', "const c = await import('./c.ts');"],
      ['src/kv/b.ts', ''],
      ['src/kv/c.ts', ''],
      ['src/kv/dead.ts', "import './a.ts'; // './lost.ts'"],
      ['src/kv/lost.ts', "import './ring.ts';"],
      ['src/kv/ring.ts', "import './lost.ts';"],
    ]);
    expect(unreachedOf(files, ['src/index.ts'])).toEqual([
      'src/kv/dead.ts',
      'src/kv/lost.ts',
      'src/kv/ring.ts',
    ]);
  });

  test('begins at the entries that package.json names, all of which are there', () => {
    expect(ENTRIES).toEqual(
      expect.arrayContaining(['src/index.ts', 'src/browser.ts', 'src/cli/main.ts', 'src/fast-check.ts']),
    );
    expect(ENTRIES.filter((entry) => !SOURCES.includes(entry))).toEqual([]);
  });
});

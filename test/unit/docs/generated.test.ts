import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from 'vitest';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
interface Page {
  readonly name: string;
  readonly generator: string;
  /** A cell of a generated table, and what it does not say. */
  readonly cell: string;
  readonly wrong: string;
}

const PAGES: readonly Page[] = [
  {
    name: 'PROTOCOL.md',
    generator: 'generate-protocol.mjs',
    cell: '| Waiting | Moving |',
    wrong: '| Waiting | Closed |',
  },
  {
    name: '../README.md',
    generator: 'generate-commands.mjs',
    cell: '| `npx moriarty trace` |',
    wrong: '| `npx moriarty trance` |',
  },
  {
    name: 'INVARIANTS.md',
    generator: 'generate-invariants.mjs',
    cell: '| I5 | `freed-twice` |',
    wrong: '| I5 | `freed-thrice` |',
  },
  {
    name: 'SIMULATOR.md',
    generator: 'generate-simulator.mjs',
    cell: 'it comes twice',
    wrong: 'it comes three times',
  },
];

function read(name: string): string {
  return readFileSync(join(ROOT, 'docs', name), 'utf8');
}

const folder = mkdtempSync(join(tmpdir(), 'moriarty-docs-'));
afterAll(() => rmSync(folder, { recursive: true }));

function generate(generator: string, ...args: string[]): { status: number | null; stderr: string } {
  const script = join(ROOT, 'scripts', generator);
  const run = spawnSync(process.execPath, ['--import', 'tsx', script, ...args], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  return { status: run.status, stderr: run.stderr };
}

/** A page with one cell that is not what the code says. */
function spoiled({ name, cell, wrong }: Page): string {
  const page = read(name);
  expect(page).toContain(cell);
  const copy = join(folder, basename(name));
  writeFileSync(copy, page.replace(cell, wrong));
  return copy;
}

describe.each(PAGES)('docs/$name', (page) => {
  test('is what the generator makes of the tables of today', () => {
    expect(generate(page.generator, '--check')).toEqual({ status: 0, stderr: '' });
  });

  test('is called stale when one cell of a table differs', () => {
    const stale = generate(page.generator, '--check', spoiled(page));
    expect(stale.status).toBe(1);
    expect(stale.stderr).toContain('is stale');
  });
});

// What all generators have from scripts/doc-sections.mjs.
describe('a generated page', () => {
  const page = PAGES.find(({ generator }) => generator === 'generate-commands.mjs')!;
  const { generator, name } = page;

  test('is mended by a run', () => {
    const copy = spoiled(page);
    expect(generate(generator, '--write', copy)).toEqual({ status: 0, stderr: '' });
    expect(readFileSync(copy, 'utf8')).toBe(read(name));
  });

  test('is not called stale for what people wrote around the generated part', () => {
    const copy = join(folder, 'around.md');
    writeFileSync(copy, `# Another heading\n\n${read(name)}\nA last word.\n`);
    expect(generate(generator, '--check', copy)).toEqual({ status: 0, stderr: '' });
  });

  test('cannot be generated without its marks', () => {
    const copy = join(folder, 'nothing.md');
    writeFileSync(copy, '# Nothing\n');
    expect(generate(generator, '--check', copy).status).toBe(2);
  });
});

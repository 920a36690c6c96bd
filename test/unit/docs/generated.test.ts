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

describe.each(PAGES)('docs/$name', ({ name, generator, cell, wrong }) => {
  const folder = mkdtempSync(join(tmpdir(), 'moriarty-docs-'));
  const copy = join(folder, basename(name));
  const page = read(name);
  afterAll(() => rmSync(folder, { recursive: true }));

  function generate(...args: string[]): { status: number | null; stderr: string } {
    const script = join(ROOT, 'scripts', generator);
    const run = spawnSync(process.execPath, ['--import', 'tsx', script, ...args], {
      cwd: ROOT,
      encoding: 'utf8',
    });
    return { status: run.status, stderr: run.stderr };
  }

  test('is what the generator makes of the tables of today', () => {
    expect(generate('--check')).toEqual({ status: 0, stderr: '' });
  });

  test('is called stale when one cell of a table differs, and mended by a run', () => {
    expect(page).toContain(cell);
    writeFileSync(copy, page.replace(cell, wrong));
    const stale = generate('--check', copy);
    expect(stale.status).toBe(1);
    expect(stale.stderr).toContain('is stale');
    expect(generate('--write', copy)).toEqual({ status: 0, stderr: '' });
    expect(readFileSync(copy, 'utf8')).toBe(page);
  });

  test('is not called stale for what people wrote around the generated part', () => {
    writeFileSync(copy, `# Another heading\n\n${page}\nA last word.\n`);
    expect(generate('--check', copy)).toEqual({ status: 0, stderr: '' });
  });

  test('cannot be generated without its marks', () => {
    writeFileSync(copy, '# Nothing\n');
    expect(generate('--check', copy).status).toBe(2);
  });
});

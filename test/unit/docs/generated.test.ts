import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { HAUL_MOVES, LEASE_MOVES, SESSION_MOVES } from '../../../src/connector/shipped/moves.ts';
import { FLOW_MOVES } from '../../../src/proxy/proxy.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const PAGE = join(ROOT, 'docs/PROTOCOL.md');

function generator(...args: string[]): { status: number | null; stderr: string } {
  const script = join(ROOT, 'scripts/generate-protocol.mjs');
  const run = spawnSync(process.execPath, ['--import', 'tsx', script, ...args], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  return { status: run.status, stderr: run.stderr };
}

describe('docs/PROTOCOL.md', () => {
  const folder = mkdtempSync(join(tmpdir(), 'moriarty-docs-'));
  const copy = join(folder, 'PROTOCOL.md');
  let page = '';

  beforeAll(() => {
    page = readFileSync(PAGE, 'utf8');
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  test('is what the generator makes of the tables of today', () => {
    expect(generator('--check')).toEqual({ status: 0, stderr: '' });
  });

  test('is called stale when one cell of a table differs, and mended by a run', () => {
    writeFileSync(copy, page.replace('| Waiting | Moving |', '| Waiting | Closed |'));
    const stale = generator('--check', copy);
    expect(stale.status).toBe(1);
    expect(stale.stderr).toContain('is stale');
    expect(generator('--write', copy)).toEqual({ status: 0, stderr: '' });
    expect(readFileSync(copy, 'utf8')).toBe(page);
  });

  test('is not called stale for what people wrote around the generated part', () => {
    writeFileSync(copy, `# Another heading\n\n${page}\nA last word.\n`);
    expect(generator('--check', copy)).toEqual({ status: 0, stderr: '' });
  });

  test('cannot be generated without its marks', () => {
    writeFileSync(copy, '# Nothing\n');
    expect(generator('--check', copy).status).toBe(2);
  });

  test.each([
    ['haul', HAUL_MOVES],
    ['lease', LEASE_MOVES],
    ['session', SESSION_MOVES],
    ['flow', FLOW_MOVES],
  ])('has a row for every phase of the %s table', (_, table) => {
    for (const phase of Object.keys(table)) expect(page).toContain(`\n| ${phase} |`);
  });
});

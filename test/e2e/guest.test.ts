import { spawnSync } from 'node:child_process';
import { appendFileSync, copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from 'vitest';
import { pythonHere } from '../helpers/python.ts';

const { missing, note } = pythonHere();
const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));
const EXAMPLE = fileURLToPath(new URL('../../examples/python-guest', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'moriarty-guest-e2e-'));
afterAll(() => rmSync(folder, { recursive: true }));

function run(...args: string[]): { code: number | null; out: string; err: string } {
  const options = { encoding: 'utf8', timeout: 120_000, cwd: folder } as const;
  const { status, stdout, stderr } = spawnSync(process.execPath, [MAIN, ...args], options);
  return { code: status, out: stdout, err: stderr };
}

describe.skipIf(missing)(`check --guest${note}`, { timeout: 120_000 }, () => {
  for (const name of ['guest.json', 'connector.py']) copyFileSync(join(EXAMPLE, name), join(folder, name));

  test('finds, prints with lines of Python and names of threads, replays, and tells a changed source', () => {
    const found = run('check', '--guest', 'guest.json', '--seeds', '2000', '--first');
    expect({ code: found.code, err: found.err }).toEqual({ code: 1, err: '' });
    expect(found.out).toMatch(/^I\d+ broken: /);
    expect(found.out).toMatch(/waits \(thread loader-\d, what Event\.wait, at connector\.py:\d+ in _\w+\)/);
    const [line] = /mor2\.[\w-]+/.exec(found.out)!;

    const again = run('replay', line, '--json');
    expect(again.code).toBe(1);
    const told = JSON.parse(again.out) as { connector: string; module: { path: string }; digest: string };
    expect(told).toMatchObject({ connector: 'python-pull', module: { path: 'guest.json' } });
    expect(told.digest).toMatch(/^[0-9a-f]{16}$/);

    appendFileSync(join(folder, 'connector.py'), '\n# changed\n');
    const changed = run('replay', line);
    expect(changed.code).toBe(2);
    expect(changed.err).toMatch(/REPLAY-CHANGED: guest\.json is not what it was/);
    expect(run('replay', line, '--changed').code).toBe(1);
    copyFileSync(join(EXAMPLE, 'connector.py'), join(folder, 'connector.py'));
  });

  test('threads of --jobs each have a process of their own, and find the same', () => {
    const digests = ['1', '2'].map((jobs) => {
      const { out } = run('check', '--guest', 'guest.json', '--seeds', '40', '--jobs', jobs, '--json');
      const { digest, harnessFailureCount } = JSON.parse(out) as Record<string, unknown>;
      return { digest, harnessFailureCount };
    });
    expect(digests[0]!.harnessFailureCount).toBe(0);
    expect(digests[1]).toEqual(digests[0]);
  });

  test('odd arguments are told', () => {
    expect(run('check', '--guest', 'none.json')).toMatchObject({ code: 2, out: '' });
    expect(run('check', '--guest', 'guest.py').err).toMatch(
      /--guest guest\.py: it must be a guest description/,
    );
    expect(run('check', '--guest', 'guest.json', '--connector', 'shipped').err).toMatch(/FLAG-CLASH/);
    const odd = { name: 'x', modules: {}, scheduler: 'a:B', worker: 'a:B' };
    writeFileSync(join(folder, 'odd.json'), JSON.stringify(odd));
    expect(run('check', '--guest', 'odd.json').err).toMatch(
      /GUEST-FORM: odd\.json: scheduler: a is not among/,
    );
    const none = run('check', '--guest', 'guest.json', '--python', '/nowhere/python3');
    expect(none.err).toMatch(/GUEST-PYTHON: \/nowhere\/python3 cannot run guests: .*apt-get install/);
  });
});

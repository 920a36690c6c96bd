import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const folder = mkdtempSync(`${tmpdir()}/moriarty-pack-`);
afterAll(() => rmSync(folder, { recursive: true }));

function run(command: string, args: string[], cwd: string): string {
  return execFileSync(command, args, {
    cwd,
    encoding: 'utf8',
    timeout: 300_000,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

test('the packed tarball, installed without dev dependencies in an empty folder, runs a check', () => {
  // The build is there already; running it again here would pull files away under other tests.
  const [packed] = JSON.parse(
    run('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folder], ROOT),
  ) as { filename: string; files: { path: string }[] }[];
  const paths = packed!.files.map((file) => file.path);
  expect(paths).toContain('dist/kernels.wasm');
  expect(paths.filter((path) => path.startsWith('src/') || path.startsWith('test/'))).toEqual([]);
  writeFileSync(`${folder}/package.json`, '{"name":"empty","private":true}');
  run(
    'npm',
    ['install', '--omit=dev', '--prefer-offline', '--no-audit', '--no-fund', `./${packed!.filename}`],
    folder,
  );
  const report = JSON.parse(run('npx', ['moriarty', 'check', '--seeds', '100', '--json'], folder)) as {
    schedules: number;
    violations: unknown[];
  };
  expect(report).toMatchObject({ schedules: 100, violations: [] });
  const attack = ['moriarty', 'check', '--connector', './mine.mjs', '--seeds', '60', '--first'];
  copyFileSync(`${folder}/node_modules/moriarty/examples/own-connector/pull.mjs`, `${folder}/mine.mjs`);
  const attacked = spawnSync('npx', attack, { cwd: folder, encoding: 'utf8' });
  expect(attacked.stdout).toContain('  at prefill blocks (seed ');
  const [, line = ''] = /replay: npx moriarty replay (\S+)/.exec(attacked.stdout) ?? [];
  const replayed = spawnSync('npx', ['moriarty', 'replay', line], { cwd: folder, encoding: 'utf8' });
  expect(replayed).toMatchObject({ status: 1, stderr: '' });
  expect(replayed.stdout).toContain('which belongs to nobody');
  const program =
    "import { SHIPPED_MIX, INVARIANTS } from 'moriarty'; console.log(SHIPPED_MIX.name, Object.keys(INVARIANTS).length)";
  expect(run(process.execPath, ['--input-type=module', '--eval', program], folder).trim()).toBe(
    'shipped-mix 10',
  );
}, 300_000);

import { execFileSync, spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { runSeed } from '../../src/explore/run.ts';
import { SHIPPED_MIX } from '../../src/zoo/shipped.ts';
import { newMemory } from '../helpers/world.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const folder = mkdtempSync(`${tmpdir()}/moriarty-pack-`);
const INSTALLED = join(folder, 'node_modules/moriarty');
/** What npx finds, without npm's own start. */
const MORIARTY = join(folder, 'node_modules/.bin/moriarty');
afterAll(() => rmSync(folder, { recursive: true }));

function run(command: string, args: string[], cwd = folder): string {
  return execFileSync(command, args, {
    cwd,
    encoding: 'utf8',
    timeout: 300_000,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  exports: Record<string, string | { types: string; default: string }>;
  peerDependencies: Record<string, string>;
};

/** `moriarty/plan`, of those that are modules. */
const ENTRIES = Object.entries(manifest.exports)
  .filter(([, target]) => typeof target === 'object')
  .map(([name]) => `moriarty${name.slice(1)}`);

let packed: { filename: string; files: { path: string }[] };

/** The tarball, installed without dev dependencies in an empty folder. */
beforeAll(() => {
  // The build is there already; running it again here would pull files away under other tests.
  const pack = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder];
  [packed] = JSON.parse(run('npm', pack, ROOT)) as [typeof packed];
  writeFileSync(`${folder}/package.json`, '{"name":"empty","private":true,"type":"module"}');
  const install = ['install', '--omit=dev', '--prefer-offline', '--no-audit', '--no-fund'];
  run('npm', [...install, `./${packed.filename}`]);
}, 300_000);

describe('the packed tarball', () => {
  test('holds what is built and the documents, and of the source only the plug', () => {
    const paths = packed.files.map((file) => file.path);
    expect(paths).toEqual(expect.arrayContaining(['dist/kernels.wasm', 'docs/API.md', 'CHANGELOG.md']));
    expect(paths.filter((path) => /^(src|test)\//.test(path))).toEqual(['src/connector/plug.ts']);
  });

  test('brings no other package along', () => {
    expect(existsSync(join(folder, 'node_modules/zod'))).toBe(false);
    expect(readFileSync(join(INSTALLED, 'dist/LICENSES-OF-PACKAGES.txt'), 'utf8')).toMatch(/^zod 4/m);
  });

  test('has what the links of its README point to', () => {
    const readme = readFileSync(join(INSTALLED, 'README.md'), 'utf8');
    const targets = [...readme.matchAll(/\]\((?!https?:)([^)#]+)/g)].map((link) => link[1]!);
    expect(targets.length).toBeGreaterThan(10);
    expect(targets.filter((target) => !existsSync(join(INSTALLED, target)))).toEqual([]);
  });

  test('runs a check, also in threads', () => {
    const jobs = String(Math.min(2, availableParallelism()));
    const check = ['moriarty', 'check', '--seeds', '100', '--jobs', jobs, '--json'];
    const report = JSON.parse(run('npx', check)) as object;
    expect(report).toMatchObject({ schedules: 100, violations: [], harnessFailureCount: 0 });
  });

  test("attacks and replays a connector of the user's own", () => {
    const attack = ['check', '--connector', './mine.mjs', '--seeds', '60', '--first'];
    copyFileSync(join(INSTALLED, 'examples/own-connector/pull.mjs'), `${folder}/mine.mjs`);
    const attacked = spawnSync(MORIARTY, attack, { cwd: folder, encoding: 'utf8' });
    expect(attacked.stdout).toContain('  at prefill blocks (seed ');
    const [, line = ''] = /replay: npx moriarty replay (\S+)/.exec(attacked.stdout) ?? [];
    const replayed = spawnSync(MORIARTY, ['replay', line], { cwd: folder, encoding: 'utf8' });
    expect(replayed).toMatchObject({ status: 1, stderr: '' });
    expect(replayed.stdout).toContain('which belongs to nobody');
  });

  test('tells only the frames of the connector that threw', () => {
    writeFileSync(
      `${folder}/throws.mjs`,
      `import { shipped } from 'moriarty';
const startLoadKv = () => { throw new TypeError('not today'); };
export default { ...shipped, createWorker: (env) => ({ ...shipped.createWorker(env), startLoadKv }) };`,
    );
    const attack = ['check', '--connector', './throws.mjs', '--seeds', '1', '--json'];
    const { stdout } = spawnSync(MORIARTY, attack, { cwd: folder, encoding: 'utf8' });
    const { violations } = JSON.parse(stdout) as { violations: { stack: string[] }[] };
    expect(violations[0]!.stack).toHaveLength(1);
    expect(violations[0]!.stack[0]).toMatch(/startLoadKv \(\S*throws\.mjs:2:\d+\)/);
  });
});

/** What a user of each entry writes first. */
const USES: { readonly [entry: string]: string } = {
  moriarty: `import { INVARIANTS, runSeed, SHIPPED_MIX, type Connector } from 'moriarty';
import { checkMemory } from 'moriarty/node';
const own: Pick<Connector, 'name'> = { name: 'own' };
console.log(own.name, Object.keys(INVARIANTS).length, runSeed(checkMemory(), SHIPPED_MIX, 0).result.violation);`,
  'moriarty/fast-check': `import * as arbitraries from 'moriarty/fast-check';
console.log(Object.keys(arbitraries).length > 0);`,
  'moriarty/vitest': `import { expect, test } from 'vitest';
import { shipped } from 'moriarty';
import type { AttackOptions } from 'moriarty/vitest';
import 'moriarty/vitest';
const few: AttackOptions = { schedules: 10 };
test('survives', () => { expect(shipped).toSurvive(few); });`,
  'moriarty/mori': `import { BackendType, createLoopback, type EngineOptions } from 'moriarty/mori';
const options: EngineOptions | null = null;
console.log(options, BackendType.RDMA, typeof createLoopback);`,
  'moriarty/plan': `import { modelByName, planOf, planText, readSide, type PlanReport } from 'moriarty/plan';
const model = modelByName('llama-3-8b')!;
const report: PlanReport = planOf({ model, dtype: 'bfloat16', prefill: readSide('P', 'tp=2'), decode: readSide('D', 'tp=1'),
  tokens: 256, prefix: 0, mode: 'write', nic: 'plain', chunking: false, placement: 'contiguous', sliding: 'whole' });
console.log(planText(report).split('\\n').length > 3);`,
  'moriarty/node': `import { allocateNativeMemory, openNativeFabric, readKernelBytes } from 'moriarty/node';
console.log(readKernelBytes().length > 1000, typeof allocateNativeMemory, typeof openNativeFabric);`,
  'moriarty/browser': `import { readKernelBytes } from 'moriarty/node';
import { digestsOf } from 'moriarty/browser';
console.log(await digestsOf(readKernelBytes(), 'shipped-mix', [0]));`,
};

/** What they print; besides the browser's, which prints a digest, and the one that runs in vitest. */
const SAID = [
  ['moriarty', 'own 10 null'],
  ['moriarty/fast-check', 'true'],
  ['moriarty/mori', 'null 2 function'],
  ['moriarty/plan', 'true'],
  ['moriarty/node', 'true function function'],
] as const;

describe('each entry of the installed package', () => {
  const fileOf = (entry: string): string => `${entry.replace('/', '-')}.test.ts`;

  beforeAll(() => {
    // What the optional peers are where somebody has them.
    for (const name of [...Object.keys(manifest.peerDependencies), '@types'])
      symlinkSync(join(ROOT, 'node_modules', name), join(folder, 'node_modules', name));
    for (const entry of ENTRIES) writeFileSync(join(folder, fileOf(entry)), USES[entry] ?? '');
  });

  test('is used here', () => {
    expect(Object.keys(USES).sort()).toEqual([...ENTRIES].sort());
    for (const entry of ENTRIES) expect(USES[entry]).toContain(`from '${entry}'`);
  });

  test('has types that a strict program takes', () => {
    const options = { module: 'nodenext', target: 'es2023', strict: true, noEmit: true, types: ['node'] };
    writeFileSync(
      join(folder, 'tsconfig.json'),
      JSON.stringify({
        compilerOptions: { ...options, skipLibCheck: false, lib: ['es2023', 'dom'] },
        files: ENTRIES.map(fileOf),
      }),
    );
    const tsc = spawnSync(join(ROOT, 'node_modules/.bin/tsc'), ['-p', '.'], {
      cwd: folder,
      encoding: 'utf8',
    });
    // What the packages of others say of themselves is theirs.
    const said = tsc.stdout.split('\n').filter((line) => /^\S+\(\d+,\d+\): /.test(line));
    expect(said.filter((line) => !/node_modules\/(?!moriarty\/)/.test(line))).toEqual([]);
    expect(said.length === 0).toBe(tsc.status === 0);
  }, 120_000);

  test('works: each program prints what it should', () => {
    const all = [...SAID.map(([entry]) => entry), 'moriarty/browser']
      .map((entry) => `await import('./${fileOf(entry)}');`)
      .join('\n');
    writeFileSync(join(folder, 'all.mjs'), all);
    const tsx = ['--import', join(ROOT, 'node_modules/tsx/dist/esm/index.mjs'), 'all.mjs'];
    const lines = run(process.execPath, tsx).trim().split('\n');
    const digest = runSeed(newMemory(), SHIPPED_MIX, 0).result.digest;
    expect(lines).toEqual([...SAID.map(([, said]) => said), `[ '${digest}' ]`]);
  });

  test('moriarty/vitest works, in vitest', () => {
    const said = run(join(ROOT, 'node_modules/.bin/vitest'), [
      'run',
      '--root',
      folder,
      fileOf('moriarty/vitest'),
    ]);
    expect(said).toMatch(/1 passed/);
  }, 120_000);
});

describe("the browser's entry", () => {
  const text = readFileSync(join(ROOT, 'dist/browser.js'), 'utf8');
  const { sources } = JSON.parse(readFileSync(join(ROOT, 'dist/browser.js.map'), 'utf8')) as {
    sources: string[];
  };

  test('stands alone, without a module of Node or the schema library', () => {
    expect(text).not.toMatch(/^import /m);
    expect(sources.length).toBeGreaterThan(50);
    expect(sources.filter((path) => /node_modules\/(zod|commander)\//.test(path))).toEqual([]);
  });
});

import { spawn, spawnSync } from 'node:child_process';
import { closeSync, existsSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from 'vitest';

/** How the program ends when nobody reads, when nothing can be written, and when somebody stops it. */

const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));
const folder = mkdtempSync(`${tmpdir()}/moriarty-endings-`);
afterAll(() => rmSync(folder, { recursive: true }));

const FAULTY = ['check', '--connector', 'as-written', '--fault', 'F3', '--seeds', '24'];

describe('a campaign that found something ends with 1', () => {
  test.each(['true', 'head -1'])('into `| %s`', (reader) => {
    const script = `"$0" "$@" | ${reader} > /dev/null; exit "\${PIPESTATUS[0]}"`;
    const { status, stderr } = spawnSync('bash', ['-c', script, process.execPath, MAIN, ...FAULTY], {
      encoding: 'utf8',
    });
    expect({ status, stderr }).toEqual({ status: 1, stderr: '' });
  });

  test.skipIf(!existsSync('/dev/full'))('onto a full disk, and says on standard error what is wrong', () => {
    expect(intoFullDisk(...FAULTY)).toMatchObject({
      status: 1,
      stderr: expect.stringMatching(/^moriarty: OUTPUT: .*ENOSPC.*\n$/),
    });
  });
});

test.skipIf(!existsSync('/dev/full'))('help that cannot be written ends with 2 and no stack', () => {
  expect(intoFullDisk('--help')).toMatchObject({
    status: 2,
    stderr: expect.stringMatching(/^moriarty: OUTPUT: .*ENOSPC.*\n$/),
  });
});

function intoFullDisk(...args: string[]): { status: number | null; stderr: string } {
  const full = openSync('/dev/full', 'w');
  try {
    return spawnSync(process.execPath, [MAIN, ...args], {
      encoding: 'utf8',
      stdio: ['ignore', full, 'pipe'],
    });
  } finally {
    closeSync(full);
  }
}

/** As many as a machine of one core has. */
const JOBS = [1, 2].filter((jobs) => jobs <= availableParallelism());

test.each(JOBS)(
  'Ctrl-C prints what %d threads have found so far, as one JSON document, and ends with 130',
  async (jobs) => {
    const preload = `${folder}/ready.mjs`;
    // Tells when the program listens for the signal.
    writeFileSync(
      preload,
      "process.on('newListener', (name) => { if (name === 'SIGINT') process.stderr.write('listens'); });",
    );
    const args = [
      '--import',
      preload,
      MAIN,
      ...FAULTY.slice(0, -1),
      '1000000000',
      '--jobs',
      `${jobs}`,
      '--json',
    ];
    const child = spawn(process.execPath, args);
    let out = '';
    child.stdout.on('data', (data) => {
      out += data;
    });
    child.stderr.once('data', () => setTimeout(() => child.kill('SIGINT'), 500));
    const status = await new Promise((end) => child.on('close', end));
    expect(status).toBe(130);
    const report = JSON.parse(out) as { interrupted: string; schedules: number };
    expect(report.interrupted).toBe('SIGINT');
    expect(report.schedules).toBeGreaterThan(0);
  },
);

test.each([
  ['an error', "setTimeout(() => { throw new TypeError('late'); }, 0);"],
  ['a promise', "Promise.reject(new TypeError('late'));"],
])('%s that nobody caught is exit 3 with its message', (_, code) => {
  const preload = `${folder}/late.mjs`;
  writeFileSync(preload, `process.once('newListener', () => { ${code} });`);
  const { status, stderr } = spawnSync(process.execPath, ['--import', preload, MAIN, ...FAULTY], {
    encoding: 'utf8',
  });
  expect(status).toBe(3);
  expect(stderr).toMatch(/the harness failed: ERROR: TypeError: late/);
});

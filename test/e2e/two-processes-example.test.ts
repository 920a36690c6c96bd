import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { availability } from '../helpers/native.ts';

/** The example of docs/NATIVE.md, and what it says when one of the two dies. */

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Loaded into both processes: kills the one of them after its n-th line, or before it (`3-`). The 0th comes before all else. */
const KILLER = `
  const [who, line] = process.env.DIES.split(':');
  if (who === (process.argv[3] ?? 'initiator')) {
    const die = () => process.kill(process.pid, 'SIGKILL');
    if (line === '0') die();
    const { write } = process.stdout;
    let lines = 0;
    process.stdout.write = (...args) => {
      lines++;
      if (line === lines + '-') die();
      const answer = Reflect.apply(write, process.stdout, args);
      if (line === String(lines)) die();
      return answer;
    };
  }`;

function run(provider: string, dies?: string): { ended: number | string | null; out: string; err: string } {
  const preload = `--import=data:text/javascript,${encodeURIComponent(KILLER)}`;
  // The pipe of standard error is the target's too: this returns when both have ended, or not at all.
  const { status, signal, stdout, stderr } = spawnSync(
    process.execPath,
    ['examples/two-processes.mjs', provider],
    {
      cwd: ROOT,
      encoding: 'utf8',
      timeout: 40_000,
      env: { ...process.env, ...(dies === undefined ? {} : { NODE_OPTIONS: preload, DIES: dies }) },
    },
  );
  return { ended: signal ?? status, out: stdout, err: stderr };
}

const { missing, note } = availability('shm');
describe.skipIf(missing)(`examples/two-processes.mjs${note}`, () => {
  test.each(['shm', 'tcp'])('moves the bytes over %s', (provider) => {
    const told = 'batch 1: SUCCESS, success\nthe target has 4194304 bytes of 7\n';
    expect(run(provider)).toEqual({ ended: 0, out: told, err: '' });
  });

  test.each([
    ['before it says anything', 'shm', 'target:0'],
    ['between its two lines', 'tcp', 'target:1'],
    ['after them', 'tcp', 'target:2'],
    ['instead of its last line', 'shm', 'target:3-'],
  ])('the target dies %s, over %s: one line says so', (_, provider, dies) => {
    const { ended, err } = run(provider, dies);
    expect(err).toMatch(/^two-processes: .*; the target ended \(SIGKILL\)\n$/);
    expect(ended).toBe(1);
  });

  test.each([
    ['at once', 'shm', 'initiator:0'],
    ['when the bytes have moved', 'tcp', 'initiator:1'],
  ])('the initiator dies %s, over %s: the target ends by itself', (_, provider, dies) => {
    expect(run(provider, dies)).toMatchObject({ ended: 'SIGKILL', err: '' });
  });
});

test('where there is no addon both say so, in a line each', () => {
  const env = { ...process.env, MORIARTY_NATIVE_ADDON: '/nowhere/moriarty_native.node' };
  const options = { cwd: ROOT, encoding: 'utf8', timeout: 40_000, env } as const;
  const { status, stderr } = spawnSync(process.execPath, ['examples/two-processes.mjs'], options);
  expect(status).toBe(1);
  for (const line of stderr.trim().split('\n'))
    expect(line).toMatch(/^two-processes: native: not available, /);
});

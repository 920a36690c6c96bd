import { spawnSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { pythonHere } from '../../helpers/python.ts';

/** The child runtime's own tests, which are Python's. */
const { python, missing, note } = pythonHere();

describe.skipIf(missing)(`python/moriarty_guest${note}`, () => {
  test('its unit tests pass', () => {
    const args = ['-B', '-s', '-m', 'unittest', 'discover', '-s', 'tests', '-t', '.'];
    const { status, stderr } = spawnSync(python, args, { cwd: 'python', encoding: 'utf8', timeout: 50_000 });
    expect(stderr).toMatch(/Ran [1-9]\d+ tests[\s\S]*OK\n$/);
    expect(status).toBe(0);
  });
});

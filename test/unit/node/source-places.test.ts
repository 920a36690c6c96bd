import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { packageFile } from '../../../src/node/package-file.ts';
import { sourcePlaces } from '../../../src/node/source-places.ts';

const folder = mkdtempSync(join(tmpdir(), 'moriarty-places-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Without vitest's own source maps. */
const BUILT = `import { readScenario } from 'moriarty';
try { readScenario({}, 'x.json'); } catch (error) { console.log(error.stack); }`;

test('a place of the bundle is told as the place of the source', () => {
  const stack = execFileSync(process.execPath, ['--input-type=module', '--eval', BUILT], {
    cwd: packageFile('.'),
    encoding: 'utf8',
  });
  expect(stack).toMatch(/readScenario \(\S+\/dist\/chunks\/[\w-]+\.js:\d+:\d+\)/);
  const [, path, line] = /readScenario \((\S+):(\d+):\d+\)/.exec(sourcePlaces(stack))!;
  expect(path).toBe('src/explore/scenario-file.ts');
  const source = readFileSync(packageFile(path!), 'utf8').split('\n');
  expect(source[Number(line) - 1]).toMatch(/throw new UsageError/);
});

test('what has no map, or one that is none, stays as it is', () => {
  const frames = `at f (${folder}/nowhere.js:3:4), at g (file://${folder}/odd.js:1:1), at node:internal/x:1:2`;
  writeFileSync(join(folder, 'odd.js.map'), 'no map');
  expect(sourcePlaces(frames)).toBe(frames);
});

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { canCompile, compile } from '../helpers/native.ts';

/** Engines stop before what they have loaded is cleaned up, whichever came first: native-bridge/src/exits.cpp by itself. */

/** Two to sixteen seconds were seen. */
const COMPILE_MILLIS_MAX = 120_000;
const BRIDGE = fileURLToPath(new URL('../../native-bridge', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'moriarty-exits-'));
const program = join(folder, 'exits');
const libraries = ['first.so', 'second.so'].map((name) => join(folder, name));

describe.skipIf(!canCompile())('an exit while engines are at work', () => {
  beforeAll(() => {
    const sources = ['test/exits.cpp', 'src/exits.cpp', 'src/fabric.cpp'].map((path) => join(BRIDGE, path));
    compile(program, [...sources, '-pthread', '-ldl']);
    for (const library of libraries)
      compile(library, [join(BRIDGE, 'test/late-library.cpp'), '-shared', '-fPIC']);
  }, COMPILE_MILLIS_MAX);
  afterAll(() => rmSync(folder, { recursive: true }));

  test.each([1, 2])('%i of them, with a library each that was loaded while they opened', (count) => {
    const { status, signal, stdout } = spawnSync(program, libraries.slice(0, count), { encoding: 'utf8' });
    const told = [...Array(count).fill('engine stopped'), ...Array(count).fill('library gone')];
    expect({ ended: signal ?? status, told: stdout.trim().split('\n') }).toEqual({ ended: 7, told });
  });
});

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, test } from 'vitest';
import { readLinked } from '../../src/node/linked.ts';
import { availability, canCompile, compile } from '../helpers/native.ts';

const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));
const NOWHERE = '/nowhere/moriarty_native.node';

function run(
  args: readonly string[],
  addon?: string,
  more: object = {},
): { code: number | null; out: string; err: string } {
  const env = {
    ...process.env,
    ...more,
    ...(addon === undefined ? {} : { MORIARTY_NATIVE_ADDON: addon, MORIARTY_MORI_ADDON: addon }),
  };
  const options = { encoding: 'utf8', timeout: 120_000, env } as const;
  const { status, stdout, stderr } = spawnSync(process.execPath, [MAIN, ...args], options);
  return { code: status, out: stdout, err: stderr };
}

describe('without the addon', () => {
  test('everything else runs', () => {
    expect(run(['check', '--seeds', '20', '--json'], NOWHERE)).toMatchObject({ code: 0, err: '' });
  });

  test.each([[['check', '--backend', 'native']], [['diff', '--seeds', '3']]])(
    '%j says in one line that it is not there, and exits 2',
    (args) => {
      const { code, out, err } = run(args, NOWHERE);
      expect({ code, out }).toEqual({ code: 2, out: '' });
      expect(err.trim().split('\n')).toHaveLength(1);
      expect(err).toMatch(/NATIVE: native: not available, because .*nowhere.*doctor/);
    },
  );

  test('doctor exits 0, since the wasm path is whole, and says what is missing', () => {
    const { code, out } = run(['doctor', '--json'], NOWHERE);
    expect(code).toBe(0);
    const { wasm, native } = JSON.parse(out) as Health;
    expect(wasm).toMatchObject({ whole: true, reason: null });
    expect(native.libfabric).toMatchObject({ available: false, version: null, addon: null });
    expect(native.libfabric.reason).toMatch(/nowhere/);
    expect(native.libfabric.needs.map(({ what }) => what)).toContain('rdma/fabric.h');
    expect(
      native.libfabric.needs.every(({ when, remedy }) => /^(build|run)$/.test(when) && remedy !== ''),
    ).toBe(true);
    expect(run(['doctor'], NOWHERE).out).toMatch(/^native: not available, because /m);
  });

  test('MoRI-IO is not claimed either', () => {
    const { native } = JSON.parse(run(['doctor', '--json'], NOWHERE).out) as Health;
    expect(native.mori).toMatchObject({ available: false, version: null, addon: null });
    expect(native.mori.reason).toMatch(/nowhere/);
    expect(native.mori.needs.map(({ what }) => what)).toContain('mori/io/io.hpp');
  });
});

interface Health {
  readonly wasm: object;
  readonly native: Readonly<
    Record<
      'libfabric' | 'mori',
      {
        available: boolean;
        reason: string;
        providers: Record<string, { works: boolean }>;
        needs: { what: string; when: string; found: string | null; remedy: string }[];
      }
    >
  >;
}

const { missing, note } = availability('shm');
describe.skipIf(missing)(`with the addon${note}`, () => {
  test('doctor has each provider move bytes', () => {
    const { native } = JSON.parse(run(['doctor', '--json']).out) as Health;
    expect(native.libfabric).toMatchObject({ available: true, reason: null });
    expect(native.libfabric.providers).toMatchObject({ shm: { works: true }, tcp: { works: true } });
    expect(Object.keys(native.libfabric.providers)).toEqual(['shm', 'tcp', 'verbs', 'efa', 'cxi']);
  });

  test('check has the digest of the same seeds on wasm, and names what moved the bytes', () => {
    const wasm = JSON.parse(run(['check', '--seeds', '40', '--json']).out) as { digest: string };
    for (const provider of ['shm', 'tcp']) {
      const args = ['check', '--seeds', '40', '--backend', 'native', '--provider', provider, '--json'];
      const { code, out, err } = run(args);
      expect({ code, err }).toEqual({ code: 0, err: '' });
      expect(JSON.parse(out)).toMatchObject({ fabric: 'native', provider, digest: wasm.digest });
    }
  });

  test('a fault found on wasm replays on the native fabric with the same digest', () => {
    const found = run(['check', '--connector', 'as-written', '--fault', 'F6', '--first', '--json']);
    const [violation] = (JSON.parse(found.out) as { violations: { replay: string; invariant: string }[] })
      .violations;
    const line = violation!.replay.split(' ').at(-1)!;
    const wasm = run(['replay', line, '--json']);
    const native = run(['replay', line, '--backend', 'native', '--json']);
    expect([wasm.code, native.code, native.err]).toEqual([1, 1, '']);
    const [told, also] = [wasm, native].map(({ out }) => JSON.parse(out) as Record<string, unknown>);
    expect(told).toMatchObject({ fabric: 'wasm', provider: null });
    expect(also).toEqual({ ...told, fabric: 'native', provider: 'shm' });
  });

  test('diff finds all seeds equal', () => {
    const { code, out } = run(['diff', '--seeds', '20', '--json']);
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({
      seeds: 20,
      equal: 20,
      differing: [],
      missed: [],
      provider: 'shm',
    });
  });
});

describe.skipIf(missing || !canCompile())(`another libibverbs.so.1 comes first${note}`, () => {
  const folder = mkdtempSync(join(tmpdir(), 'moriarty-verbs-'));
  const fake = join(folder, 'libibverbs.so.1');
  afterEach(() => rmSync(folder, { recursive: true }));

  test('doctor says which was loaded, from where, and what it lacks; wasm stays whole', () => {
    const source = join(folder, 'verbs.cpp');
    writeFileSync(source, 'extern "C" int ibv_nothing() { return 0; }');
    compile(fake, [source, '-shared', '-fPIC']);
    const { code, out } = run(['doctor', '--json'], undefined, { LD_LIBRARY_PATH: folder });
    const { wasm, native } = JSON.parse(out) as Health;
    expect({ code, wasm }).toMatchObject({ code: 0, wasm: { whole: true } });
    expect(native.libfabric.available).toBe(false);
    expect(native.libfabric.reason).toContain(`libibverbs.so.1 is ${fake}, which lacks `);
    expect(native.libfabric.reason).toMatch(/IBVERBS\S* and \d+ more, needed by \S+\.so.*LD_LIBRARY_PATH/);
    const row = native.libfabric.needs.find(({ what }) => what === 'libibverbs.so.1');
    expect(row).toMatchObject({ when: 'run', found: fake });
  });
});

test('the text of the linker: what is found, what is not, and who lacks what', () => {
  const text = [
    '\tlibibverbs.so.1 => /here/libibverbs.so.1 (0x00007f2c9366b000)',
    '\tlibgone.so.2 => not found',
    'undefined symbol: napi_throw_error\t(bridge.so)',
    'undefined symbol: ibv_open_device, version IBVERBS_1.1\t(/lib/librdmacm.so.1)',
    'undefined symbol: odd\t(/lib/librdmacm.so.1)',
  ].join('\n');
  const { paths, lacking } = readLinked(text, 'bridge.so');
  expect([...paths]).toEqual([
    ['libibverbs.so.1', '/here/libibverbs.so.1'],
    ['libgone.so.2', null],
  ]);
  const neededBy = '/lib/librdmacm.so.1';
  expect(lacking).toEqual([
    { library: 'libibverbs.so.1', symbol: 'ibv_open_device, version IBVERBS_1.1', neededBy },
    { library: null, symbol: 'odd', neededBy },
  ]);
});

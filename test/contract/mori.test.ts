import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import {
  emptyMemoryDesc,
  packEngineDesc,
  packMemoryDesc,
  unpackEngineDesc,
  unpackMemoryDesc,
} from '../../src/io/descriptors.ts';
import { findNativeAddon } from '../../src/node/native-addon.ts';
import { openNativeFabric } from '../../src/node/native-fabric.ts';

/** What of the MoRI-IO half needs its addon, but neither NIC nor GPU. */

const found = findNativeAddon('mori');
const note = found.addon === null ? ` (not available, because ${found.reason})` : '';
const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

interface Packed {
  readonly name: string;
  readonly hex: string;
}

interface Decoded {
  readonly type: string;
  readonly name: string;
  readonly hex: string;
  readonly ok: boolean;
}

const GOLDEN = JSON.parse(readFileSync(new URL('../golden/mori-desc.json', import.meta.url), 'utf8')) as {
  engineDesc: readonly Packed[];
  memoryDesc: readonly Packed[];
  decode: readonly Decoded[];
};

const hexOf = (bytes: ArrayBuffer | Uint8Array): string =>
  Buffer.from(bytes instanceof Uint8Array ? bytes : new Uint8Array(bytes)).toString('hex');

function bytesOf(hex: string): ArrayBuffer {
  const bytes = Buffer.from(hex, 'hex');
  const copy = new ArrayBuffer(bytes.length);
  new Uint8Array(copy).set(bytes);
  return copy;
}

describe.skipIf(found.addon === null)(`MoRI-IO, without a device${note}`, () => {
  const addon = found.addon!;

  test.each([
    ...GOLDEN.engineDesc.map((each) => [0, each] as const),
    ...GOLDEN.memoryDesc.map((each) => [1, each] as const),
  ])('descriptor %i %o is packed by it as it was', (kind, { hex }) => {
    const packed = addon.repack(kind, bytesOf(hex));
    expect(packed === null ? null : hexOf(packed)).toBe(hex);
  });

  test.each(GOLDEN.decode.filter(({ type }) => type === 'EngineDesc' || type === 'MemoryDesc'))(
    'it takes or refuses what we take or refuse: $type, $name',
    ({ type, hex, ok }) => {
      expect(addon.repack(type === 'EngineDesc' ? 0 : 1, bytesOf(hex)) !== null).toBe(ok);
    },
  );

  test('bytes that are no descriptor are refused', () => {
    for (const hex of ['', 'c1', '96', 'ff'.repeat(200)]) {
      expect(addon.repack(0, bytesOf(hex))).toBeNull();
      expect(addon.repack(1, bytesOf(hex))).toBeNull();
    }
  });

  test('an engine and a memory of its own read and pack as ours do', () => {
    const memory = new ArrayBuffer(65_536);
    const [engine, region] = addon.describe(memory)!;
    const engineDesc = unpackEngineDesc(new Uint8Array(engine));
    expect(engineDesc).toMatchObject({ host: '127.0.0.1', port: 0, pid: process.pid });
    expect(hexOf(packEngineDesc(engineDesc))).toBe(hexOf(engine));
    const desc = unpackMemoryDesc(new Uint8Array(region));
    const { data, numaNode } = desc;
    expect(desc).toEqual({
      ...emptyMemoryDesc(),
      engineKey: engineDesc.key,
      size: 65_536n,
      loc: 1,
      data,
      numaNode,
    });
    expect(data).toBeGreaterThan(0n);
    expect(hexOf(packMemoryDesc(desc))).toBe(hexOf(region));
  });

  test.each([
    ['not-a-number', /MORI-HOST not-a-number is no dotted IPv4 address/],
    ['192.0.2.1', /MORI-HOST no port of 192\.0\.2\.1 can be bound/],
  ])('the host %s, with which it would end the process, is refused with a code', (host, complaint) => {
    process.env['MORIARTY_MORI_HOST'] = host;
    try {
      const opened = openNativeFabric({ provider: 'mori', memory: new Uint8Array(65_536), runsMax: 1 });
      expect(opened.fabric === null ? opened.reason : '').toMatch(complaint);
    } finally {
      delete process.env['MORIARTY_MORI_HOST'];
    }
  });

  test('whether it opens or not, standard output is one document', () => {
    const args = [MAIN, 'doctor', '--json'];
    const { stdout, status } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 60_000 });
    expect(status).toBe(0);
    const { native } = JSON.parse(stdout) as {
      native: { mori: { available: boolean; reason: string | null } };
    };
    if (!native.mori.available) expect(native.mori.reason).toMatch(/: MORI-[A-Z-]+ |mori: /);
  });
});

import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, test } from 'vitest';
import { UsageError } from '../../src/base/failure.ts';
import { StatusCode } from '../../src/io/codes.ts';
import type { Completion } from '../../src/io/fabric.ts';
import { findNativeAddon } from '../../src/node/native-addon.ts';
import {
  NATIVE_PROVIDERS,
  type NativeFabric,
  type NativeProvider,
  openNativeFabric,
} from '../../src/node/native-fabric.ts';
import { availability } from '../helpers/native.ts';

/** Who owns what, and how it ends: native-bridge/README.md says the rules. */

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const SCRIPT = fileURLToPath(new URL('endings.mjs', import.meta.url));
const MIB = 1024 * 1024;

describe.each(NATIVE_PROVIDERS)('native %s', (provider) => {
  const { missing, note } = availability(provider);
  const opened: NativeFabric[] = [];
  afterEach(() => Promise.all(opened.splice(0).map((fabric) => fabric.close())));

  function open(memory: Uint8Array<ArrayBuffer>, which: NativeProvider = provider): NativeFabric {
    const result = openNativeFabric({ provider: which, memory, runsMax: 64 });
    if (result.fabric === null) throw new TypeError(result.reason);
    opened.push(result.fabric);
    return result.fabric;
  }

  /** The halves of the memory, the first one written. */
  function halves(fabric: NativeFabric, memory: Uint8Array): ReturnType<NativeFabric['connect']> {
    const half = memory.length / 2;
    for (let i = 0; i < half; i++) memory[i] = (i * 7 + (i >>> 10)) & 0xff;
    return fabric.connect(fabric.registerMemory(0, 0, half), fabric.registerMemory(1, half, memory.length));
  }

  function all(fabric: NativeFabric, count: number): Completion[] {
    const ended: Completion[] = [];
    while (ended.length < count) {
      ended.push(...fabric.poll());
      if (ended.length < count) fabric.rest();
    }
    return ended;
  }

  describe.skipIf(missing)(`within a process${note}`, () => {
    test('a post returns before the bytes have moved', () => {
      const memory = new Uint8Array(64 * MIB);
      const fabric = open(memory);
      const connection = halves(fabric, memory);
      for (let id = 0; id < 8; id++) fabric.post(connection, 'write', [0, 0, 32 * MIB], id);
      expect(fabric.poll().length).toBeLessThan(8);
    });

    test.each(['write', 'read'] as const)(
      'close while busy with %ss: every batch ends once, and nothing moves any more',
      async (operation) => {
        const memory = new Uint8Array(32 * MIB);
        const fabric = open(memory);
        const connection = halves(fabric, memory);
        for (let id = 0; id < 300; id++) fabric.post(connection, operation, [0, 0, 16 * MIB], id);
        const early = all(fabric, 1);
        await fabric.close();
        memory.fill(0);
        const ended = [...early, ...fabric.poll()];
        expect(ended.map(({ id }) => id).sort((a, b) => a - b)).toEqual(
          Array.from({ length: 300 }, (_, id) => id),
        );
        const codes = new Set(ended.map(({ code }) => code));
        expect(codes).toEqual(new Set([StatusCode.SUCCESS, StatusCode.ERR_BAD_STATE]));
        await new Promise((resolve) => setTimeout(resolve, 30));
        expect(memory.every((byte) => byte === 0)).toBe(true);
        fabric.post(connection, operation, [0, 0, 1], 1000);
        expect(fabric.poll()).toEqual([
          { id: 1000, code: StatusCode.ERR_BAD_STATE, message: 'the fabric is closed' },
        ]);
        expect(() => fabric.registerMemory(1, 0, 1)).toThrow(UsageError);
        fabric.deregisterMemory(connection.target);
      },
    );

    test('a region taken back in mid-flight: its batches end once, later ones are refused', () => {
      const memory = new Uint8Array(32 * MIB);
      const fabric = open(memory);
      const connection = halves(fabric, memory);
      for (let id = 0; id < 50; id++) fabric.post(connection, 'write', [0, 0, 16 * MIB], id);
      fabric.deregisterMemory(connection.target);
      fabric.post(connection, 'write', [0, 0, 16], 50);
      const ended = all(fabric, 51);
      expect(new Set(ended.map(({ id }) => id)).size).toBe(51);
      for (const { code } of ended) expect([StatusCode.SUCCESS, StatusCode.ERR_RDMA_OP]).toContain(code);
      expect(ended.find(({ id }) => id === 50)!.code).toBe(StatusCode.ERR_RDMA_OP);
      // MoRI takes batches as fast as they are posted, so the last one may be the NIC's before the region is dead.
      if (provider !== 'mori') expect(ended.find(({ id }) => id === 49)!.code).toBe(StatusCode.ERR_RDMA_OP);
      const again = fabric.connect(
        fabric.registerMemory(0, 0, 16 * MIB),
        fabric.registerMemory(1, 16 * MIB, 32 * MIB),
      );
      fabric.post(again, 'write', [5, 5, 100], 60);
      expect(all(fabric, 1)).toEqual([{ id: 60, code: StatusCode.SUCCESS, message: 'success' }]);
    });

    test('1,024 batches may be unpolled; one more ends with ERR_BAD_STATE, and there is room after a poll', () => {
      const memory = new Uint8Array(MIB);
      const fabric = open(memory);
      const connection = halves(fabric, memory);
      for (let id = 0; id < 1025; id++) fabric.post(connection, 'write', [id, id, 1], id);
      const ended = all(fabric, 1025);
      expect(ended.filter(({ code }) => code !== StatusCode.SUCCESS)).toEqual([
        { id: 1024, code: StatusCode.ERR_BAD_STATE, message: '1024 batches in flight are the most' },
      ]);
      fabric.post(connection, 'write', [0, 0, 1], 2000);
      expect(all(fabric, 1)[0]!.code).toBe(StatusCode.SUCCESS);
    });

    test('many engines at once, of both providers and over one memory, do not get into each other', async () => {
      const memory = new Uint8Array(MIB);
      const engines = (['shm', 'tcp', provider, provider] as const).map((which) => open(memory, which));
      const quarter = MIB / 8;
      engines.forEach((fabric, index) => {
        const from = fabric.registerMemory(0, 0, quarter);
        const to = fabric.registerMemory(1, (index + 1) * quarter, (index + 2) * quarter);
        memory.fill(0x11, 0, quarter);
        fabric.post(fabric.connect(from, to), 'write', [0, 0, quarter], index);
      });
      engines.forEach((fabric, index) => {
        expect(all(fabric, 1)).toEqual([{ id: index, code: StatusCode.SUCCESS, message: 'success' }]);
      });
      expect(memory.subarray(0, 5 * quarter).every((byte) => byte === 0x11)).toBe(true);
      await engines[0]!.close();
      const last = engines[3]!;
      const connection = last.connect(last.registerMemory(0, 0, 64), last.registerMemory(1, MIB - 64, MIB));
      last.post(connection, 'write', [0, 0, 64], 9);
      expect(all(last, 1)[0]!.code).toBe(StatusCode.SUCCESS);
    });

    test('a memory that was transferred is refused at the next call', () => {
      const memory = new Uint8Array(MIB);
      const fabric = open(memory);
      const connection = halves(fabric, memory);
      const moved = structuredClone(memory.buffer, { transfer: [memory.buffer] });
      expect(() => fabric.post(connection, 'write', [0, 0, 1], 1)).toThrow(/grown or transferred/);
      expect(() => fabric.registerMemory(0, 0, 1)).toThrow(/grown or transferred/);
      expect(moved.byteLength).toBe(MIB);
    });

    test('part of a buffer is refused', () => {
      expect(() => open(new Uint8Array(new ArrayBuffer(128), 64))).toThrow(/whole of its buffer/);
      expect(() => open(new Uint8Array(0))).toThrow(/not empty/);
    });

    test('resting with nothing in flight is a false belief', () => {
      expect(() => open(new Uint8Array(64)).rest()).toThrow(/INV-NATIVE-1/);
    });
  });

  describe.skipIf(missing)(`of its own process${note}`, () => {
    const children: number[] = [];
    type Case = [string, number | string, object | null];
    const givenBack: Case = ['closed, and its memory given back', 0, { keeps: false }];
    const cases: Case[] = [
      ['exit', 7, { busy: true }],
      ['run off the end', 0, { busy: true }],
      ['throw', 1, { busy: true }],
      ['close twice, then exit', 7, { busy: true }],
      ['exit during close', 7, { busy: true }],
      ['memory dropped', 0, { early: false, completions: 60, after: true }],
      ['fabric dropped', 0, provider === 'mori' ? { gone: true } : { gone: true, more: 1, left: 0 }],
      ['signal with a listener', 0, { signal: 'SIGINT', completions: 60 }],
      ['signal', 'SIGINT', { busy: true }],
      ['caught signals', 0, { same: true }],
      ['kill', 'SIGKILL', null],
      ['out of bounds in WebAssembly', 0, { caught: 'memory access out of bounds' }],
      ['workers', 0, { left: 0, completions: 60 }],
      // What MoRI and HIP keep is theirs.
      ...(provider === 'mori' ? [] : [givenBack]),
    ];
    const kinds = ['wasm', 'bridge'] as const;
    const all = kinds.flatMap((kind) => cases.map(([way, ...rest]) => [way, kind, ...rest] as const));
    test.each(all)('%s, memory of %s', (way, kind, code, told) => {
      const args = ['--expose-gc', SCRIPT, way, provider];
      const { pid, status, signal, stdout, stderr } = spawnSync(process.execPath, args, {
        cwd: ROOT,
        encoding: 'utf8',
        timeout: 60_000,
        env: { ...process.env, MEMORY: kind },
      });
      children.push(pid);
      expect({ ended: signal ?? status, told: stdout }).toEqual({
        ended: code,
        told: told === null ? '' : JSON.stringify(told),
      });
      if (way !== 'throw') expect(stderr).toBe('');
    });

    test('none of these, killed or not, left a file in /dev/shm', () => {
      const left = readdirSync('/dev/shm').filter((name) =>
        children.some((pid) => name.startsWith(`${pid}:`)),
      );
      expect(left).toEqual([]);
      expect(children).toHaveLength(all.length);
    });
  });
});

const found = findNativeAddon();
describe.skipIf(found.addon === null)('the addon by itself', () => {
  const addon = found.addon!;

  test.each([
    ['no arguments', []],
    ['a provider that is no text', [1, new ArrayBuffer(64), new ArrayBuffer(65_536), 2, 1, '', 1000]],
    ['a memory that is no buffer', ['shm', {}, new ArrayBuffer(65_536), 2, 1, '', 1000]],
    ['an empty memory', ['shm', new ArrayBuffer(0), new ArrayBuffer(65_536), 2, 1, '', 1000]],
    ['a control block that is too short', ['shm', new ArrayBuffer(64), new ArrayBuffer(240), 2, 1, '', 1000]],
    ['slots that are no power of two', ['shm', new ArrayBuffer(64), new ArrayBuffer(65_536), 3, 1, '', 1000]],
    ['slots without end', ['shm', new ArrayBuffer(64), new ArrayBuffer(65_536), 2 ** 40, 1, '', 1000]],
    ['no runs', ['shm', new ArrayBuffer(64), new ArrayBuffer(65_536), 2, 0, '', 1000]],
  ])('refuses to open with %s', (_, args) => {
    expect(() => Reflect.apply(addon.open, addon, args)).toThrow(TypeError);
  });

  test('refuses handles that are not its own', () => {
    for (const handle of [undefined, null, 1, {}, addon]) {
      expect(() => Reflect.apply(addon.addRegion, addon, [handle, 0, 1])).toThrow(TypeError);
      expect(Reflect.apply(addon.post, addon, [handle, 1, 2, true, 1, 1])).toBe(4);
      expect(() => Reflect.apply(addon.post, addon, [handle])).toThrow(TypeError);
      expect(Reflect.apply(addon.release, addon, [handle])).toBe(true);
    }
  });

  test('an unknown provider is said to be unknown', () => {
    const control = new ArrayBuffer(192 + 2 * 16 + 24);
    const engine = addon.open('no-such-provider', new ArrayBuffer(64), control, 2, 1, '', 1000);
    const header = new Int32Array(control, 0, 48);
    while (Atomics.load(header, 0) === 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    expect(header[0]).toBe(2);
    expect(addon.errorText(header[1]!)).not.toBe('');
    expect(addon.release(engine)).toBe(true);
    expect(() => addon.addRegion(engine, 0, 1)).toThrow(TypeError);
  });
});

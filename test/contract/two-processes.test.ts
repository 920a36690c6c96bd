import { spawnSync } from 'node:child_process';
import { connect } from 'node:net';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { StatusCode } from '../../src/io/codes.ts';
import {
  packEngineDesc,
  packMemoryDesc,
  unpackEngineDesc,
  unpackMemoryDesc,
} from '../../src/io/descriptors.ts';
import { type NativeRegion, openNativeEngine } from '../../src/node/native-engine.ts';
import { availability } from '../helpers/native.ts';
import { digestOf, LONG_MILLIS, later, TwoEngines } from '../helpers/two-engines.ts';
import { fill } from './engine-talk.mjs';

/** Engines in two processes, this one and test/contract/engine-child.mjs: what moves, and what is refused. */

const MIB = 1024 * 1024;
const { SUCCESS, ERR_RDMA_OP, ERR_INVALID_ARGS } = StatusCode;

function dice(seed: number): (below: number) => number {
  let state = (seed * 2_654_435_761 + 1) >>> 0;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** Runs whose targets do not overlap: triples (source, target, bytes). */
function disjointRuns(roll: (below: number) => number, region: number): [number, number, number][] {
  const runs: [number, number, number][] = [];
  for (let at = roll(3000); at < region && runs.length < 40; ) {
    const bytes = Math.min(roll(3) === 0 ? roll(60_000) : roll(700), region - at);
    runs.push([roll(region - bytes + 1), at, bytes]);
    at += bytes + roll(4000);
  }
  return runs;
}

describe.each(['shm', 'tcp'] as const)('engines of two processes over %s', (provider) => {
  const { missing, note } = availability(provider);

  describe.skipIf(missing)(`parent and child${note}`, () => {
    const two = new TwoEngines(provider);
    beforeEach(() => two.startOther());
    afterEach(() => two.stop());

    test(
      '200 random batches, both ways and posted by both, move what they say and nothing else',
      async () => {
        const bytes = 256 * 1024;
        const { local, remote } = await two.pair(bytes);
        await two.openOurs(local);
        const mine = new Uint8Array(bytes);
        const theirs = new Uint8Array(bytes);
        fill(mine, 1);
        fill(theirs, 2);
        two.memory.set(mine);
        await two.other.ask('fill', { start: 0, end: bytes, seed: 2 });
        for (let seed = 0; seed < 200; seed++) {
          const roll = dice(seed);
          const operation = roll(2) === 0 ? 'write' : 'read';
          const ours = roll(2) === 0;
          const runs = disjointRuns(roll, bytes);
          // Whoever posts has the source of a write and the target of a read.
          const [source, target] = ours === (operation === 'write') ? [mine, theirs] : [theirs, mine];
          for (const [from, to, size] of runs) target.set(source.slice(from, from + size), to);
          const triples = runs.flatMap(([from, to, size]) =>
            operation === 'write' ? [from, to, size] : [to, from, size],
          );
          if (ours) {
            two.engine.post(local, remote, operation, triples, seed);
            expect(await two.end()).toEqual({ id: seed, code: SUCCESS, message: 'success' });
          } else {
            const batch = { local: 'all', remote: 'ours', operation, runs: triples, id: seed };
            expect(await two.other.ask('carry', { batches: [batch] })).toEqual({
              codes: { [seed]: SUCCESS },
            });
          }
          expect({ seed, bytes: digestOf(two.memory) }).toEqual({ seed, bytes: digestOf(mine) });
          expect({ seed, bytes: await two.theirDigest(0, bytes) }).toEqual({ seed, bytes: digestOf(theirs) });
        }
      },
      LONG_MILLIS,
    );

    test(
      'sizes from one byte to 16 MiB arrive whole, written and read',
      async () => {
        const bytes = 32 * MIB;
        const { local, remote } = await two.pair(bytes);
        for (const size of [1, 64, 4095, 4096, 4097, 65_536, MIB + 1, 16 * MIB]) {
          fill(two.memory.subarray(0, size), size);
          two.engine.post(local, remote, 'write', [0, 7, size], size);
          expect((await two.end()).code).toBe(SUCCESS);
          const wanted = digestOf(two.memory.subarray(0, size));
          expect(await two.theirDigest(7, 7 + size)).toBe(wanted);
          two.engine.post(local, remote, 'read', [16 * MIB, 7, size], size);
          expect((await two.end()).code).toBe(SUCCESS);
          expect(digestOf(two.memory.subarray(16 * MIB, 16 * MIB + size))).toBe(wanted);
        }
      },
      LONG_MILLIS,
    );

    test('of many batches each ends once, delivered in fewer calls than there are batches', async () => {
      const { local, remote } = await two.pair(MIB);
      let calls = 0;
      const ids: number[] = [];
      const all = new Promise<void>((resolve) => {
        two.engine.onCompletions((ended) => {
          calls++;
          ids.push(...ended.map(({ id }) => id));
          for (const { code } of ended) expect(code).toBe(SUCCESS);
          if (ids.length >= 900) resolve();
        });
      });
      for (let id = 0; id < 900; id++)
        two.engine.post(local, remote, id % 2 === 0 ? 'write' : 'read', [id, MIB - 1000 + id, 1], id);
      // While this thread does something else, ends gather.
      for (const until = performance.now() + 50; performance.now() < until; );
      await all;
      expect(ids.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 900 }, (_, id) => id));
      expect(calls).toBeLessThan(900);
      expect(two.engine.inFlight).toBe(0);
    });

    test('what lies outside of a region is refused here', async () => {
      const { local, remote } = await two.pair(MIB);
      const before = await two.theirDigest(0, MIB);
      for (const runs of [
        [0, MIB - 7, 8],
        [MIB - 7, 0, 8],
        [0, -1, 8],
        [0, 0.5, 8],
        [0, 2 ** 53, 8],
      ]) {
        two.engine.post(local, remote, 'write', runs, 1);
        expect(await two.end()).toMatchObject({ code: ERR_INVALID_ARGS });
      }
      // Theirs is no memory that a batch can come from.
      two.engine.post(remote as unknown as NativeRegion, remote, 'write', [0, 0, 8], 2);
      expect(await two.end()).toMatchObject({ code: ERR_RDMA_OP });
      expect(await two.theirDigest(0, MIB)).toBe(before);
    });

    test('a region taken back there is refused, also by its old descriptor; a new one is not', async () => {
      const { peer, local, remote } = await two.pair(MIB);
      fill(two.memory, 3);
      const old = await two.theirMemory(4096, 8192, 'part');
      const part = peer.importMemory(old);
      two.engine.post(local, part, 'write', [0, 0, 4096], 1);
      expect((await two.end()).code).toBe(SUCCESS);
      await two.other.ask('deregister', { name: 'part' });
      const before = await two.theirDigest(0, MIB);
      two.engine.post(local, part, 'write', [100, 0, 4096], 2);
      expect(await two.end()).toMatchObject({ id: 2, code: ERR_RDMA_OP });
      two.engine.post(local, peer.importMemory(old), 'write', [100, 0, 4096], 3);
      expect(await two.end()).toMatchObject({ id: 3, code: ERR_RDMA_OP });
      expect(await two.theirDigest(0, MIB)).toBe(before);
      const fresh = await two.theirMemory(4096, 8192, 'part again');
      expect(unpackMemoryDesc(fresh).id).not.toBe(unpackMemoryDesc(old).id);
      two.engine.post(local, peer.importMemory(fresh), 'write', [100, 0, 4096], 4);
      expect((await two.end()).code).toBe(SUCCESS);
      expect(await two.theirDigest(4096, 8192)).toBe(digestOf(two.memory.subarray(100, 4196)));
      two.engine.post(local, remote, 'write', [0, 0, 64], 5);
      expect((await two.end()).code).toBe(SUCCESS);
    });

    test('a region is taken back under load: when that is said nothing moves there any more', async () => {
      const { local, remote } = await two.pair(8 * MIB);
      fill(two.memory, 5);
      const all = two.ends(200);
      for (let id = 0; id < 200; id++) two.engine.post(local, remote, 'write', [0, 0, 8 * MIB], id);
      await two.other.ask('deregister', { name: 'all' });
      await two.other.ask('fill', { start: 0, end: 8 * MIB, seed: 6 });
      const before = await two.theirDigest(0, 8 * MIB);
      const ended = await all;
      for (const { code } of ended) expect([SUCCESS, ERR_RDMA_OP]).toContain(code);
      expect(ended.some(({ code }) => code === ERR_RDMA_OP)).toBe(true);
      expect(await two.theirDigest(0, 8 * MIB)).toBe(before);
    });

    test('a region that we gave up may be asked for again', async () => {
      const { peer, local, remote } = await two.pair(MIB);
      const desc = await two.theirMemory(0, 4096, 'part');
      for (let id = 0; id < 20; id++) {
        const part = peer.importMemory(desc);
        expect(peer.importMemory(desc).key).toBe(part.key);
        two.engine.post(local, part, 'write', [0, 0, 4096], id);
        if (id % 2 === 0) peer.releaseMemory(part);
        const { code } = await two.end();
        // Given up under way, it ends either way.
        expect(id % 2 === 0 ? [SUCCESS, ERR_RDMA_OP] : [SUCCESS]).toContain(code);
        if (id % 2 === 1) peer.releaseMemory(part);
      }
      await two.other.ask('deregister', { name: 'part' });
      two.engine.post(local, remote, 'write', [0, 0, 64], 99);
      expect((await two.end()).code).toBe(SUCCESS);
    });

    test('a connection can be ended, and made again', async () => {
      const theirs = await two.open(MIB);
      const desc = await two.theirMemory(0, MIB);
      const local = two.engine.registerMemory(0, MIB);
      for (let round = 0; round < 3; round++) {
        const peer = await two.engine.connect(theirs);
        const remote = peer.importMemory(desc);
        two.engine.post(local, remote, 'write', [0, 0, MIB], round);
        expect((await two.end()).code).toBe(SUCCESS);
        peer.disconnect();
        while (peer.lost() === null) await later(2);
        two.engine.post(local, remote, 'write', [0, 0, MIB], round);
        expect((await two.end()).code).toBe(ERR_RDMA_OP);
      }
    });

    test('bytes that are no descriptor are refused with a code', async () => {
      const theirs = await two.open(MIB);
      const peer = await two.engine.connect(theirs);
      const whole = await two.theirMemory(0, MIB);
      const cut = Array.from({ length: 12 }, (_, i) =>
        whole.subarray(0, Math.floor((whole.length * i) / 12)),
      );
      const noise = Array.from({ length: 50 }, (_, seed) => {
        const bytes = new Uint8Array(seed * 7);
        fill(bytes, seed);
        return bytes;
      });
      for (const bytes of [...cut, ...noise, new Uint8Array(1 << 20)]) {
        expect(() => peer.importMemory(bytes)).toThrow(expect.objectContaining({ code: 'PEER-DESC' }));
        await expect(two.engine.connect(bytes)).rejects.toMatchObject({ code: 'PEER-DESC' });
      }
      const desc = unpackEngineDesc(theirs);
      for (const odd of [
        { key: 'x' },
        { key: desc.key.toUpperCase().replaceAll(/[0-9]/g, 'G') },
        { host: 'localhost' },
        { host: '127.0.0.1.5' },
        { host: '192.0.2.1' },
        { port: 0 },
        { port: -1 },
        { port: 65_536 },
      ])
        await expect(two.engine.connect(packEngineDesc({ ...desc, ...odd }))).rejects.toMatchObject({
          code: 'PEER-DESC',
        });
      const region = unpackMemoryDesc(whole);
      for (const odd of [{ engineKey: 'x' }, { loc: 2 }, { size: 2n ** 60n }, { data: 2n ** 64n - 5n }])
        expect(() => peer.importMemory(packMemoryDesc({ ...region, ...odd }))).toThrow(
          expect.objectContaining({ code: 'PEER-DESC' }),
        );
    });

    test('a descriptor that says what is not so gets no connection, and no byte', async () => {
      const theirs = await two.open(MIB);
      const desc = unpackEngineDesc(theirs);
      const stranger = { ...desc, key: '0'.repeat(32) };
      await expect(two.engine.connect(packEngineDesc(stranger))).rejects.toMatchObject({ code: 'PEER-LOST' });
      await expect(
        two.engine.connect(packEngineDesc({ ...desc, host: '127.0.0.999' })),
      ).rejects.toMatchObject({
        code: 'PEER-REFUSED',
      });
      const peer = await two.engine.connect(theirs);
      const local = two.engine.registerMemory(0, MIB);
      const region = unpackMemoryDesc(await two.theirMemory(4096, 8192));
      fill(two.memory, 8);
      const before = await two.theirDigest(0, MIB);
      for (const odd of [{ id: 77 }, { data: region.data - 4096n }, { size: 4097n }, { size: 4095n }]) {
        two.engine.post(
          local,
          peer.importMemory(packMemoryDesc({ ...region, ...odd })),
          'write',
          [0, 0, 64],
          1,
        );
        expect(await two.end()).toMatchObject({ code: ERR_RDMA_OP });
      }
      expect(await two.theirDigest(0, MIB)).toBe(before);
      two.engine.post(local, peer.importMemory(packMemoryDesc(region)), 'write', [0, 0, 64], 2);
      expect((await two.end()).code).toBe(SUCCESS);
    });

    test('noise at the port of an engine is hung up on, and harms nobody', async () => {
      const { local, remote } = await two.pair(MIB);
      const { port } = unpackEngineDesc(two.engine.describe());
      for (let seed = 0; seed < 30; seed++) {
        const bytes = Buffer.alloc(5 + seed * 97);
        fill(bytes, seed);
        // Every third has the length that it says; every second of those a known type.
        if (seed % 3 === 0) bytes.writeUInt32LE(bytes.length - 4);
        if (seed % 6 === 0) bytes[4] = 1 + (seed % 9);
        await new Promise<void>((resolve) => {
          const socket = connect(port, '127.0.0.1', () => socket.end(bytes));
          socket.on('error', () => {});
          socket.on('close', () => resolve());
          socket.resume();
        });
      }
      two.engine.post(local, remote, 'write', [0, 0, 64], 1);
      expect((await two.end()).code).toBe(SUCCESS);
      await two.openOurs(local);
    });
  });
});

test('over MoRI-IO engines of two processes are refused with a code', async () => {
  const options = { provider: 'mori' as never, memory: new Uint8Array(64), runsMax: 1 };
  await expect(openNativeEngine(options)).rejects.toMatchObject({ code: 'PEER-MORI' });
});

test.each(['verbs', 'efa', 'cxi', 'none such'])(
  'over %s engines of two processes are refused with a code',
  async (provider) => {
    const options = { provider: provider as never, memory: new Uint8Array(64), runsMax: 1 };
    const wanted = {
      code: expect.stringMatching(/^PEER-PROVIDER$/),
      message: expect.stringContaining(provider),
    };
    await expect(openNativeEngine(options)).rejects.toMatchObject(wanted);
  },
);

const { missing, note } = availability('shm');
test.skipIf(missing)(`the example does what the documents say${note}`, () => {
  const example = fileURLToPath(new URL('../../examples/two-processes.mjs', import.meta.url));
  for (const provider of ['shm', 'tcp']) {
    const { status, stdout, stderr } = spawnSync(process.execPath, [example, provider], {
      encoding: 'utf8',
      timeout: 60_000,
    });
    expect({ status, stderr, lines: stdout.trim().split('\n') }).toEqual({
      status: 0,
      stderr: '',
      lines: ['batch 1: SUCCESS, success', 'the target has 4194304 bytes of 7'],
    });
  }
});

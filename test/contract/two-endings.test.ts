import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { StatusCode } from '../../src/io/codes.ts';
import { availability } from '../helpers/native.ts';
import { digestOf, LONG_MILLIS, later, TwoEngines } from '../helpers/two-engines.ts';
import { fill } from './engine-talk.mjs';

/** Engines in two processes, and the ways in which one of them ends: native-bridge/README.md says what becomes of the other. */

const MIB = 1024 * 1024;
const { SUCCESS, ERR_RDMA_OP, ERR_BAD_STATE } = StatusCode;

describe.each(['shm', 'tcp'] as const)('of two engines over %s', (provider) => {
  const { missing, note } = availability(provider);

  describe.skipIf(missing)(`parent and child${note}`, () => {
    const two = new TwoEngines(provider);
    beforeEach(() => two.startOther());
    afterEach(() => two.stop());

    test.each(['write', 'read'] as const)(
      'killed in the middle of a %s: every batch ends, and we go on',
      async (operation) => {
        for (let round = 0; round < 4; round++) {
          const { peer, local, remote } = await two.pair(8 * MIB);
          const all = two.ends(100);
          for (let id = 0; id < 100; id++) two.engine.post(local, remote, operation, [0, 0, 8 * MIB], id);
          await later(3 * round);
          expect(await two.other.ended('SIGKILL')).toBe('SIGKILL');
          const ended = await all;
          expect(new Set(ended.map(({ id }) => id)).size).toBe(100);
          for (const { code } of ended) expect([SUCCESS, ERR_RDMA_OP]).toContain(code);
          expect(ended.some(({ code }) => code === ERR_RDMA_OP)).toBe(true);
          while (peer.lost() === null) await later(5);
          two.engine.post(local, remote, operation, [0, 0, 8], 200);
          expect(await two.end()).toMatchObject({ id: 200, code: ERR_RDMA_OP });
          expect(() => peer.importMemory(new Uint8Array(1))).toThrow(
            expect.objectContaining({ code: 'PEER-DESC' }),
          );
          // The engine itself is whole: another process can be met.
          await two.startOther();
          const again = await two.engine.connect(await two.openOther(MIB));
          two.engine.post(
            local,
            again.importMemory(await two.theirMemory(0, MIB)),
            'write',
            [0, 0, MIB],
            300,
          );
          expect((await two.end()).code).toBe(SUCCESS);
          await two.engine.close();
        }
      },
      LONG_MILLIS,
    );

    test.each(['write', 'read'] as const)(
      'killed while it posts %ss to us: our regions are ours again',
      async (operation) => {
        for (let round = 0; round < 3; round++) {
          await two.open(8 * MIB);
          await two.theirMemory(0, 8 * MIB);
          const ours = two.engine.registerMemory(0, 8 * MIB);
          await two.beBusy(operation, ours);
          await later(2 * round);
          await two.other.ended('SIGKILL');
          await two.engine.deregisterMemory(ours);
          fill(two.memory, 9);
          const before = digestOf(two.memory);
          await later(30);
          expect(digestOf(two.memory)).toBe(before);
          await two.engine.close();
          await two.startOther();
        }
      },
      LONG_MILLIS,
    );

    test('a process that exits while busy exits as it wished, and the other one knows', async () => {
      const { peer, local } = await two.pair(8 * MIB);
      await two.beBusy('write', local);
      two.other.tell('exit', { code: 7 });
      expect(await two.other.ended()).toBe(7);
      while (peer.lost() === null) await later(5);
      expect(peer.lost()).not.toBe('');
    });

    test('closed while another writes to it: its batches end, and not a byte comes afterwards', async () => {
      await two.open(8 * MIB);
      await two.theirMemory(0, 8 * MIB);
      await two.beBusy('write', two.engine.registerMemory(0, 8 * MIB));
      await two.engine.close();
      fill(two.memory, 11);
      const before = digestOf(two.memory);
      const { lost, reason } = await two.other.next();
      expect(lost).toBeGreaterThan(0);
      expect(reason).toEqual(expect.any(String));
      expect(digestOf(two.memory)).toBe(before);
    });

    test('closed while it writes to another: every batch ends', async () => {
      const { local, remote } = await two.pair(8 * MIB);
      for (let id = 0; id < 300; id++)
        two.engine.post(local, remote, id % 2 === 0 ? 'write' : 'read', [0, 0, 8 * MIB], id);
      const early = await two.ends(1);
      await two.engine.close();
      const ended = [...early, ...two.engine.poll()];
      expect(new Set(ended.map(({ id }) => id)).size).toBe(300);
      expect(new Set(ended.map(({ code }) => code))).toEqual(new Set([SUCCESS, ERR_BAD_STATE]));
      two.engine.post(local, remote, 'write', [0, 0, 1], 301);
      expect(two.engine.poll()).toMatchObject([{ id: 301, code: ERR_BAD_STATE }]);
      await expect(two.engine.connect(two.engine.describe())).rejects.toMatchObject({
        code: 'FABRIC-CLOSED',
      });
    });

    test('one that stands still is given up after the patience that was asked for', async () => {
      const { peer, local, remote } = await two.pair(MIB, 1000);
      two.engine.post(local, remote, 'write', [0, 0, MIB], 1);
      expect((await two.end()).code).toBe(SUCCESS);
      two.other.child.kill('SIGSTOP');
      for (let id = 2; id < 10; id++) two.engine.post(local, remote, 'write', [0, 0, MIB], id);
      const ended = await two.ends(8);
      expect(ended.some(({ code }) => code === ERR_RDMA_OP)).toBe(true);
      for (const { code } of ended) expect([SUCCESS, ERR_RDMA_OP]).toContain(code);
      expect(peer.lost()).not.toBeNull();
    });

    test.each([
      ['deliver nothing', { idle: true }],
      ['deliver all', { delivered: 60, inFlight: 0 }],
      ['deliver to a worker that is ended', { delivered: 60 }],
    ])(
      '%s: a process ends by itself when nothing is in flight, and not before',
      (way, told) => {
        const script = fileURLToPath(new URL('endings.mjs', import.meta.url));
        const { status, stdout, stderr } = spawnSync(
          process.execPath,
          ['--expose-gc', script, way, provider],
          {
            encoding: 'utf8',
            timeout: LONG_MILLIS,
          },
        );
        expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: JSON.stringify(told), stderr: '' });
      },
      LONG_MILLIS,
    );

    test('none of these, killed or not, left a file in /dev/shm', () => {
      const left = readdirSync('/dev/shm').filter((name) =>
        two.pids.some((pid) => name.startsWith(`${pid}:`)),
      );
      expect(left).toEqual([]);
      expect(two.pids.length).toBeGreaterThan(20);
    });
  });
});

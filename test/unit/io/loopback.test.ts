import { describe, expect, test } from 'vitest';
import * as io from '../../../src/io/index.ts';

/** Engines on a loopback: what a user of the package waits for, and what time it is then. */

const { SUCCESS, IN_PROGRESS, INIT, ERR_RDMA_OP } = io.StatusCode;
const MILLI = 1_000_000;

interface Two {
  readonly loopback: io.Loopback;
  readonly engines: readonly io.IOEngine[];
  readonly buffers: readonly Uint8Array[];
  readonly memories: readonly io.MemoryDesc[];
}

function two(
  config: Partial<io.RdmaBackendConfig> = {},
  options: io.LoopbackOptions & { readonly other?: Partial<io.RdmaBackendConfig> } = {},
): Two {
  const { other = config, ...rest } = options;
  const loopback = io.createLoopback(rest);
  const engines = ['a', 'b'].map((key) => io.addEngine(loopback, key));
  [config, other].forEach((settings, index) => {
    expect(io.createBackend(engines[index], io.BackendType.RDMA, settings)).toBeNull();
  });
  io.registerRemoteEngine(engines[0], engines[1].desc);
  io.registerRemoteEngine(engines[1], engines[0].desc);
  const buffers = [1, 2].map((value) => new Uint8Array(65_536).fill(value));
  const memories = engines.map((engine, index) => io.addMemory(loopback, engine, buffers[index]));
  return { loopback, engines, buffers, memories };
}

/** Starts requests of 64 bytes that never join, from one engine to the other. */
function begin({ engines, memories }: Two, from: number, count: number, id: number): io.TransferStatus {
  const status = io.createStatus();
  const offsets = Array.from({ length: count }, (_, at) => at * 100);
  const entries = {
    localOffsets: offsets,
    remoteOffsets: offsets.map((at) => 2 * at),
    sizes: offsets.map(() => 64),
  };
  const [local, remote] = [memories[from], memories[1 - from]];
  io.transfer(engines[from], { operation: 'write', local, remote, entries, transferId: id, status });
  return status;
}

describe('a wait on a loopback', () => {
  test('ends with the transfer, at the time that the NIC takes, and other work goes on meanwhile', () => {
    const pair = two({}, { times: io.NICS.cx7 });
    const { loopback, engines, buffers } = pair;
    const [back, there] = [begin(pair, 1, 1, 1), begin(pair, 0, 2, 1)];
    expect([there.code, loopback.sim.nowNanos > 0]).toEqual([IN_PROGRESS, true]);
    const posted = loopback.sim.nowNanos;
    expect(io.waitFor(loopback, engines[0], there)).toBe(SUCCESS);
    expect(loopback.sim.nowNanos).toBeGreaterThan(posted);
    expect(loopback.sim.nowNanos).toBeLessThan(MILLI);
    expect(back.code).toBe(SUCCESS);
    expect([...buffers[1].subarray(199, 202), buffers[1][264]]).toEqual([2, 1, 1, 2]);
  });

  test('that can never end says so by IN_PROGRESS, or takes all of its time', () => {
    const pair = two({}, { other: { enableNotification: false } });
    const { loopback, engines } = pair;
    expect(io.waitFor(loopback, engines[0], begin(pair, 0, 1, 1))).toBe(SUCCESS);
    const stuck = begin(pair, 0, 1, 2);
    expect(io.waitFor(loopback, engines[0], stuck)).toBe(IN_PROGRESS);
    expect(loopback.sim.nowNanos).toBeLessThan(MILLI);
    expect(io.waitFor(loopback, engines[0], stuck, 30)).toBe(IN_PROGRESS);
    expect(loopback.sim.nowNanos).toBe(30 * MILLI);
  });

  test('for no time lands nothing', () => {
    const pair = two();
    const status = begin(pair, 0, 1, 1);
    expect(io.waitFor(pair.loopback, pair.engines[0], status, 0)).toBe(IN_PROGRESS);
    expect(io.waitFor(pair.loopback, pair.engines[0], io.createStatus())).toBe(INIT);
  });

  test('for room in the send queue ends with its timer, after five seconds', () => {
    const pair = two({ maxSendWr: 8, postBatchSize: 5 });
    const { loopback, engines } = pair;
    const status = begin(pair, 0, 10, 1);
    const early = io.waitFor(loopback, engines[0], status, 4999);
    expect([early, loopback.sim.nowNanos]).toEqual([IN_PROGRESS, 4999 * MILLI]);
    expect(io.waitFor(loopback, engines[0], status)).toBe(ERR_RDMA_OP);
    expect(loopback.sim.nowNanos).toBe(5000 * MILLI);
  });

  test('for room starts from when the call was made, not from when something last happened', () => {
    const pair = two({ maxSendWr: 8, postBatchSize: 5 });
    const { loopback, engines } = pair;
    const first = begin(pair, 0, 10, 1);
    expect(io.waitFor(loopback, engines[0], first, 2000)).toBe(IN_PROGRESS);
    const second = begin(pair, 0, 4, 2);
    expect(io.waitAll(loopback, engines[0], [first, second], 4000)).toBe(ERR_RDMA_OP);
    expect([first.code, second.code, loopback.sim.nowNanos]).toEqual([
      ERR_RDMA_OP,
      IN_PROGRESS,
      6000 * MILLI,
    ]);
    expect(io.waitFor(loopback, engines[0], second)).toBe(ERR_RDMA_OP);
    expect(loopback.sim.nowNanos).toBe(7000 * MILLI);
  });

  test('leaves timers alone that nobody waits for any more', () => {
    const pair = two({ maxSendWr: 2 });
    const { loopback, engines } = pair;
    expect(io.waitFor(loopback, engines[0], begin(pair, 0, 6, 1))).toBe(SUCCESS);
    while (io.advance(loopback));
    expect(loopback.timers).toEqual([]);
    expect(loopback.sim.nowNanos).toBeLessThan(MILLI);
  });

  test('with a limit takes all of it for a copy that ended long before, since nobody tells of it', () => {
    const loopback = io.createLoopback({ gpus: 2 });
    const engine = io.addEngine(loopback, 'a');
    io.createBackend(engine, io.BackendType.XGMI);
    const target = new Uint8Array(64);
    const source = Uint8Array.from({ length: 64 }, (_, at) => at);
    const [local, remote] = [
      io.addMemory(loopback, engine, target, 0),
      io.addMemory(loopback, engine, source, 1),
    ];
    const entries = { localOffsets: [8, 0], remoteOffsets: [0, 32], sizes: [8, 4] };
    const copy = (): io.TransferStatus => {
      const status = io.createStatus();
      io.transfer(engine, { operation: 'read', local, remote, entries, transferId: 1, status });
      return status;
    };
    expect(io.waitFor(loopback, engine, copy(), 300)).toBe(SUCCESS);
    expect(loopback.sim.nowNanos).toBe(300 * MILLI);
    expect([...target.subarray(0, 16)]).toEqual([32, 33, 34, 35, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7]);
    expect(io.waitFor(loopback, engine, copy())).toBe(SUCCESS);
    expect(loopback.sim.nowNanos).toBe(300 * MILLI);
  });
});

describe('a wait for all', () => {
  test('of a success, of a failure among successes, and of none', () => {
    const pair = two({ qpPerTransfer: 2 });
    const { loopback, engines } = pair;
    const [engine] = engines;
    expect(io.waitAll(loopback, engine, [null])).toBe(SUCCESS);
    const good = [1, 2, 3].map((id) => begin(pair, 0, 3, id));
    expect(io.waitAll(loopback, engine, good, 0)).toBe(IN_PROGRESS);
    expect(io.waitAll(loopback, engine, good)).toBe(SUCCESS);
    const [queuePair] = [...loopback.sim.queuePairs.keys()];
    loopback.sim.failing.set(queuePair, 'REM_ACCESS_ERR');
    const mixed = [4, 5].map((id) => begin(pair, 0, 4, id));
    expect(io.waitAll(loopback, engine, mixed)).toBe(ERR_RDMA_OP);
    expect(mixed.every(({ code }) => code !== IN_PROGRESS)).toBe(true);
  });

  test('with a limit shares it, and gives what failed before it ran out', () => {
    const pair = two({ maxSendWr: 8, postBatchSize: 5 });
    const { loopback, engines } = pair;
    const [engine] = engines;
    const [failed, running] = [io.createStatus(), begin(pair, 0, 10, 1)];
    io.updateStatus(failed, io.StatusCode.ERR_GPU_OP, 'earlier');
    expect(io.waitAll(loopback, engine, [running, running], 50)).toBe(IN_PROGRESS);
    expect(loopback.sim.nowNanos).toBe(50 * MILLI);
    expect(io.waitAll(loopback, engine, [failed, running], 50)).toBe(io.StatusCode.ERR_GPU_OP);
    expect(loopback.sim.nowNanos).toBe(100 * MILLI);
  });
});

describe('a copy in a list', () => {
  function withCopy() {
    const pair = two({}, { other: { enableNotification: false } });
    const { loopback, engines } = pair;
    const [engine] = engines;
    io.createBackend(engine, io.BackendType.XGMI);
    const memory = io.addMemory(loopback, engine, new Uint8Array(64), 0);
    const [copy, stuck] = [io.createStatus(), begin(pair, 0, 1, 1)];
    const entries = { localOffsets: [0], remoteOffsets: [32], sizes: [8] };
    io.transfer(engine, {
      operation: 'write',
      local: memory,
      remote: memory,
      entries,
      transferId: 9,
      status: copy,
    });
    expect(io.waitFor(loopback, engine, stuck)).toBe(SUCCESS);
    const waiting = begin(pair, 0, 1, 2);
    while (io.advance(loopback));
    return { loopback, engine, copy, waiting };
  }

  test('that has ended is seen by a poll', () => {
    const { loopback, engine, copy } = withCopy();
    expect(copy.code).toBe(IN_PROGRESS);
    expect(io.waitAll(loopback, engine, [copy], 0)).toBe(SUCCESS);
  });

  test('is not even polled when it stands behind the one that took all the time', () => {
    const { loopback, engine, copy, waiting } = withCopy();
    expect(io.waitAll(loopback, engine, [waiting, copy], 20)).toBe(IN_PROGRESS);
    expect(copy.code).toBe(IN_PROGRESS);
  });
});

describe('a loopback', () => {
  test('does the same twice, to the nanosecond and the byte', () => {
    const runs = [0, 1].map(() => {
      const pair = two({ qpPerTransfer: 3, numWorkerThreads: 2 }, { times: io.NICS.thor2, nics: 2 });
      const codes = [1, 2, 3, 4].map((id) => {
        const status = begin(pair, id % 2, id * 5, id);
        const code = io.waitFor(pair.loopback, pair.engines[id % 2], status);
        return [code, status.message, pair.loopback.sim.nowNanos];
      });
      return { codes, bytes: pair.buffers.map((bytes) => bytes.join()), log: pair.loopback.log };
    });
    expect(runs[1]).toEqual(runs[0]);
  });

  test('gives each engine a port of its own, and one that is taken ends the process', () => {
    const { loopback, engines } = two();
    expect(new Set(engines.map(({ desc }) => desc.port)).size).toBe(2);
    const chosen = io.addEngine(loopback, 'chosen', { port: loopback.nextPort });
    const after = io.addEngine(loopback, 'after');
    for (const engine of [chosen, after]) io.createBackend(engine, io.BackendType.RDMA);
    expect(after.desc.port).toBe(chosen.desc.port + 1);
    const third = io.addEngine(loopback, 'c', { port: engines[0].desc.port });
    expect(io.createBackend(third, io.BackendType.RDMA)).toContain('in use');
    expect(loopback.log.at(-1)).toContain('exit 255');
  });

  test('finds nobody behind the port of an engine that has no backend any more', () => {
    const { loopback, engines, memories } = two();
    io.removeBackend(engines[1], io.BackendType.RDMA);
    let outcome: io.CreationOutcome = { kind: 'none' };
    io.createSession(engines[0], memories[0], memories[1], (made) => {
      outcome = made;
    });
    const text = `connect(127.0.0.1:${engines[1].desc.port}): Connection refused`;
    expect(outcome).toEqual({ kind: 'threw', text });
    expect(loopback.sim.nowNanos).toBe(0);
  });

  test('gives a buffer one address, however often it is registered, and never one inside another', () => {
    const { loopback, engines, buffers, memories } = two();
    const again = io.addMemory(loopback, engines[0], buffers[0]);
    expect([again.data, again.id]).toEqual([memories[0].data, 1]);
    expect(memories[1].data).toBeGreaterThanOrEqual(memories[0].data + memories[0].size);
  });
});

import { describe, expect, test } from 'vitest';
import type { PostedChain, WorkCompletion } from '../../../src/io/engine/host.ts';
import { INSTANT, NICS, type NicTimes } from '../../../src/io/profiles.ts';
import { hasWork, landHead, landNext } from '../../../src/io/verbs-land.ts';
import {
  createVerbs,
  endProcess,
  queuePairOf,
  type SimQueuePair,
  type VerbsPart,
  type VerbsSim,
  verbsOf,
} from '../../../src/io/verbs-sim.ts';

/** What the simulated NIC does to one queue pair, looked at between its landings. */

interface Wire {
  readonly sim: VerbsSim;
  readonly near: VerbsPart;
  readonly far: VerbsPart;
  readonly queuePair: SimQueuePair;
  readonly target: Uint8Array;
  readonly chain: (
    runs: readonly (readonly [number, number, number])[],
    more?: Partial<PostedChain>,
  ) => PostedChain;
}

const SIZES = { sendWr: 8, recvWr: 2, sge: 4, inlineBytes: 64, cqe: 16 };

function wireOf(times: NicTimes = INSTANT): Wire {
  const buffers = new Map<bigint, Uint8Array>([
    [1n, new Uint8Array(256).fill(7)],
    [2n, new Uint8Array(256)],
  ]);
  const sim = createVerbs(times, (source, target, runs, count) => {
    for (let at = 0; at < count * 3; at += 3) {
      const bytes = buffers.get(source.address)!.subarray(runs[at]!, runs[at]! + runs[at + 2]!);
      buffers.get(target.address)!.set(bytes, runs[at + 1]!);
    }
    return true;
  });
  const [near, far] = [verbsOf(sim, 'near', () => 'nic-near'), verbsOf(sim, 'far', () => 'nic-far')];
  const [here, there] = [near.createQueuePair(0, SIZES), far.createQueuePair(0, SIZES)];
  far.connectQueuePair(there.qpn, here);
  near.connectQueuePair(here.qpn, there);
  const { lkey } = near.registerRegion(0, 1n, 256n);
  const { rkey } = far.registerRegion(0, 2n, 256n);
  return {
    sim,
    near,
    far,
    queuePair: queuePairOf(sim, here.qpn),
    target: buffers.get(2n)!,
    chain: (runs, more = {}) => ({
      operation: 'write',
      transferId: 1,
      lkey,
      rkey,
      workRequests: runs.map(([offset, remoteOffset, bytes]) => ({
        remoteOffset,
        bytes,
        sges: [{ offset, bytes }],
        credits: 1,
      })),
      first: 0,
      end: runs.length,
      signaled: true,
      tailId: 9,
      innerId: 9,
      ...more,
    }),
  };
}

function seen({ sim }: Wire): (readonly [WorkCompletion['opcode'], number, string])[] {
  return sim.completions
    .splice(0)
    .map(({ completion: { opcode, wrId, status } }) => [opcode, wrId, status] as const);
}

const sevens = (wire: Wire): number => wire.target.filter((byte) => byte === 7).length;

describe('a torn chain', () => {
  test('of one work request lands in halves, and its completion comes with the last', () => {
    const wire = wireOf();
    wire.near.postSend(wire.queuePair.qpn, wire.chain([[0, 10, 11]]));
    wire.queuePair.queue[0]!.fate = 'torn';
    expect([landHead(wire.sim, wire.queuePair), sevens(wire), seen(wire)]).toEqual(['partly', 5, []]);
    expect(landHead(wire.sim, wire.queuePair)).toBe('ended');
    expect([sevens(wire), seen(wire)]).toEqual([11, [['data', 9, 'SUCCESS']]]);
  });

  test.each([
    [2, [10, 20]],
    [3, [10, 20, 30]],
    [4, [10, 20, 30, 40]],
    [7, [10, 30, 50, 70]],
  ])('of %i work requests has landed %j bytes after each piece', (count, after) => {
    const wire = wireOf();
    const runs = Array.from({ length: count }, (_, at) => [at * 20, at * 20, 10] as const);
    wire.near.postSend(wire.queuePair.qpn, wire.chain(runs));
    wire.queuePair.queue[0]!.fate = 'torn';
    const landed = [];
    while (hasWork(wire.queuePair)) {
      landHead(wire.sim, wire.queuePair);
      landed.push(sevens(wire));
    }
    expect(landed).toEqual(after);
    expect(seen(wire)).toEqual([['data', 9, 'SUCCESS']]);
  });

  test('whose key dies between its pieces keeps what has landed and fails', () => {
    const wire = wireOf();
    const chain = wire.chain([
      [0, 0, 10],
      [20, 20, 10],
    ]);
    wire.near.postSend(wire.queuePair.qpn, chain);
    wire.queuePair.queue[0]!.fate = 'torn';
    landHead(wire.sim, wire.queuePair);
    wire.sim.regions.delete(chain.rkey);
    landHead(wire.sim, wire.queuePair);
    expect([sevens(wire), wire.queuePair.broken]).toEqual([10, true]);
    expect(seen(wire)[0]).toEqual(['data', 9, 'REM_ACCESS_ERR']);
  });

  test('of no bytes lands whole', () => {
    const wire = wireOf();
    wire.near.postSend(wire.queuePair.qpn, wire.chain([[0, 0, 0]]));
    wire.queuePair.queue[0]!.fate = 'torn';
    expect(landHead(wire.sim, wire.queuePair)).toBe('ended');
  });
});

describe('a chain', () => {
  const twice = (fate: 'ackLost' | 'silent' | 'overflow' | 'told'): unknown[] => {
    const wire = wireOf();
    wire.near.postSend(wire.queuePair.qpn, wire.chain([[0, 0, 10]]));
    wire.near.postSend(wire.queuePair.qpn, wire.chain([[0, 20, 10]], { tailId: 10 }));
    wire.queuePair.queue[0]!.fate = fate;
    while (landNext(wire.sim));
    return [sevens(wire), seen(wire)];
  };

  test('whose acknowledgement is lost has landed, and what is behind it is flushed', () => {
    expect(twice('ackLost')).toEqual([
      10,
      [
        ['data', 9, 'RETRY_EXC_ERR'],
        ['data', 10, 'WR_FLUSH_ERR'],
      ],
    ]);
  });

  test('without a completion has landed, like what is behind it, and neither is seen', () => {
    expect(twice('silent')).toEqual([20, []]);
  });

  test('that overflows the completion queue has landed, and nothing is seen of its queue pair any more', () => {
    expect(twice('overflow')).toEqual([10, []]);
  });

  test('whose completion was told before is not told again', () => {
    expect(twice('told')).toEqual([20, [['data', 10, 'SUCCESS']]]);
  });

  test('whose second work request is out of bounds moves the first, and each that failed has an entry', () => {
    const wire = wireOf();
    const chain = wire.chain([
      [0, 0, 10],
      [0, 250, 10],
      [0, 40, 10],
    ]);
    wire.near.postSend(wire.queuePair.qpn, chain);
    landNext(wire.sim);
    expect(sevens(wire)).toBe(10);
    expect(seen(wire)).toEqual([
      ['data', 9, 'REM_ACCESS_ERR'],
      ['data', 9, 'WR_FLUSH_ERR'],
    ]);
  });

  test('that the mover cannot move is an error of the remote side', () => {
    const wire = wireOf();
    Object.assign(wire.sim, { move: () => false });
    wire.near.postSend(wire.queuePair.qpn, wire.chain([[0, 0, 10]]));
    landNext(wire.sim);
    expect(seen(wire)).toEqual([['data', 9, 'REM_OP_ERR']]);
  });
});

describe('a dead process', () => {
  test('is not reached, by data or notifications, also one that waited for a receive', () => {
    const wire = wireOf();
    wire.near.postNotification(wire.queuePair.qpn, -2, { id: 1, qpIndex: 0, totalNum: 1 });
    expect([landNext(wire.sim), wire.queuePair.stalled, seen(wire)]).toEqual([true, true, []]);
    expect(landNext(wire.sim)).toBe(false);
    endProcess(wire.sim, 'far');
    expect(landNext(wire.sim)).toBe(true);
    expect(seen(wire)).toEqual([['send', -2, 'RETRY_EXC_ERR']]);
  });

  test('has its writes land and its reads flushed', () => {
    for (const [operation, status] of [
      ['write', 'SUCCESS'],
      ['read', 'WR_FLUSH_ERR'],
    ] as const) {
      const wire = wireOf();
      wire.near.postSend(wire.queuePair.qpn, wire.chain([[0, 0, 10]], { operation }));
      endProcess(wire.sim, 'near');
      landNext(wire.sim);
      expect(seen(wire)).toEqual([['data', 9, status]]);
    }
  });
});

describe('a slow NIC', () => {
  test('takes as many times longer, base and wire alike', () => {
    const dueOf = (slowness: number): number => {
      const wire = wireOf(NICS.cx7);
      wire.sim.slowness.set('nic-near', slowness);
      wire.near.postSend(wire.queuePair.qpn, wire.chain([[0, 0, 200]]));
      return wire.queuePair.queue[0]!.landAt - NICS.cx7.workRequestNanos - NICS.cx7.postNanos;
    };
    expect(dueOf(10)).toBe(10 * dueOf(1));
  });
});

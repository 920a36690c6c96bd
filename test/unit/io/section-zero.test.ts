import { describe, expect, test } from 'vitest';
import { PollCqMode, StatusCode } from '../../../src/io/codes.ts';
import {
  deregisterRemoteEngine,
  popInboundTransferStatus,
  sessionTransfer,
  transfer,
} from '../../../src/io/engine/engine.ts';
import { type Fidelity, QUIRKS } from '../../../src/io/engine/quirks.ts';
import { beginWait } from '../../../src/io/engine/wait.ts';
import { createStatus, waitAllPoll } from '../../../src/io/transfer-status.ts';
import {
  addPair,
  apart,
  createRig,
  entriesOf,
  finishCall,
  makeSession,
  pump,
  type Rig,
  start,
} from './rig.ts';

/**
 * The twenty facts of mori-io.md section 0. Most are switches, and quirks.test.ts shows each of them on and off; the
 * rest, which belong to the protocol itself, are shown here as both fidelities have them.
 */

const FACTS = Array.from({ length: 20 }, (_, index) => index + 1);

/** Facts that are no switch. */
const SHOWN_HERE = [1, 7, 17];

function factsOf(says: string): number[] {
  return [...says.matchAll(/\b0\.(\d+)/g)].map((hit) => Number(hit[1]));
}

test('each of the twenty facts is a switch or is shown here, never both', () => {
  const switched = new Set(Object.values(QUIRKS).flatMap(({ says }) => factsOf(says)));
  expect([...switched, ...SHOWN_HERE].sort((left, right) => left - right)).toEqual(FACTS);
});

const BOTH: readonly Fidelity[] = ['mori', 'sound'];
const { SUCCESS, INIT, ERR_BAD_STATE, ERR_RDMA_OP } = StatusCode;

function code(rig: Rig, ...args: Parameters<typeof start>): StatusCode {
  const call = start(...args);
  finishCall(rig, call);
  return call.status.code;
}

describe('0.1: a notification is a message of its own', () => {
  test.each(BOTH)('on every queue pair of the session, whichever carried data: %s', (fidelity) => {
    const rig = createRig();
    const sends: number[] = [];
    const data: number[] = [];
    rig.hooks.notified = (qpn) => void sends.push(qpn);
    rig.hooks.posted = (qpn) => void data.push(qpn);
    const { initiator, session } = addPair(rig, { qpPerTransfer: 4 }, { fidelity });
    expect(code(rig, initiator, session, { rows: apart(1), id: 1, single: true })).toBe(SUCCESS);
    expect([data.length, new Set(sends).size, sends.length]).toEqual([1, 4, 4]);
  });

  test.each([
    ['mori', [true, false]],
    ['sound', [false, false]],
  ] as const)('the target of a READ may hear of it before the data has arrived: %s', (fidelity, wanted) => {
    const rig = createRig();
    const { initiator, target, local, session } = addPair(rig, { qpPerTransfer: 2 }, { fidelity });
    rig.buffers.get(local.data)!.fill(0);
    const call = start(initiator, session, { rows: apart(1), operation: 'read', id: 1 });
    // The completion of the data is on its way to the initiator; the target's entries are seen at once.
    pump(rig, target);
    const early = popInboundTransferStatus(target, 'initiator', 1, createStatus());
    expect([early, call.status.code === SUCCESS]).toEqual(wanted);
    finishCall(rig, call);
    expect(popInboundTransferStatus(target, 'initiator', 1, createStatus())).toBe(true);
  });
});

describe('0.7: INIT ends a wait, and is an error to those who wait for all', () => {
  test.each([
    ['mori', INIT],
    ['sound', ERR_BAD_STATE],
  ] as const)('so a status that a failed call has left alone tells the waiter %s: %d', (fidelity, wanted) => {
    const rig = createRig();
    const { initiator, local, remote } = addPair(rig, {}, { fidelity });
    const status = createStatus();
    expect([beginWait(status, 0, -1), waitAllPoll([status])]).toEqual([INIT, INIT]);
    const unknown = { ...remote, id: 99 };
    const entries = entriesOf(apart(1));
    transfer(initiator, { operation: 'write', local, remote: unknown, entries, transferId: 1, status });
    expect([beginWait(status, 0, -1), waitAllPoll([status])]).toEqual([wanted, wanted]);
  });
});

describe('0.17: both directions share the queue pairs of a pair of memories that look alike', () => {
  test.each([
    ['mori', [ERR_RDMA_OP, ERR_RDMA_OP, ERR_RDMA_OP]],
    ['sound', [ERR_RDMA_OP, ERR_RDMA_OP, SUCCESS]],
  ] as const)('so one that breaks takes the other direction with it, %s', (fidelity, wanted) => {
    const rig = createRig();
    const { initiator, target, local, remote, session } = addPair(rig, {}, { fidelity });
    const made = rig.sim.nextQpn;
    const back = makeSession(target, remote, local);
    if (back.kind !== 'session') throw back;
    expect(rig.sim.nextQpn).toBe(made);
    rig.sim.failing.set(session.endpoints[0].local.qpn, 'RETRY_EXC_ERR');
    const codes = [
      code(rig, initiator, session, { rows: apart(1), id: 1 }),
      code(rig, target, back.session, { rows: apart(1), id: 1 }),
      code(rig, target, back.session, { rows: apart(1), id: 2 }),
    ];
    expect(codes).toEqual(wanted);
  });

  test('and a session goes on when the address of its peer is taken away', () => {
    const rig = createRig();
    const { initiator, target, session } = addPair(rig);
    deregisterRemoteEngine(initiator, target.desc.key);
    expect(code(rig, initiator, session, { rows: apart(1), id: 1 })).toBe(SUCCESS);
  });
});

describe('0.19, the other half: the mode of polling', () => {
  test.each(BOTH)('changes nothing that a user of the library can see: %s', (fidelity) => {
    const seen = Object.values(PollCqMode).map((pollCqMode) => {
      const rig = createRig();
      const { initiator, target, session } = addPair(rig, { pollCqMode, qpPerTransfer: 2 }, { fidelity });
      const log: string[] = [];
      rig.hooks.posted = (qpn, { first, end }) => void log.push(`data ${qpn} ${first} ${end}`);
      rig.hooks.notified = (qpn, wrId) => void log.push(`send ${qpn} ${wrId}`);
      const codes = [1, 2].map((id) => code(rig, initiator, session, { rows: apart(5), id }));
      return [codes, popInboundTransferStatus(target, 'initiator', 2, createStatus()), log];
    });
    expect(seen[1]).toEqual(seen[0]);
    expect(seen[0][1]).toBe(true);
  });
});

test('0.4: worker threads given lists of different lengths are undefined behaviour, or an error', () => {
  const codes = (['mori', 'sound'] as const).map((fidelity) => {
    const rig = createRig();
    const { initiator, session } = addPair(rig, { qpPerTransfer: 2, numWorkerThreads: 2 }, { fidelity });
    const status = createStatus();
    const entries = { localOffsets: [0], remoteOffsets: [0, 1], sizes: [1, 1] };
    sessionTransfer(initiator, session, { operation: 'write', entries, transferId: 1, status });
    return [status.code, rig.ends.map((end) => end.split(':')[0])];
  });
  expect(codes).toEqual([
    [StatusCode.IN_PROGRESS, ['undefined behaviour']],
    [StatusCode.ERR_INVALID_ARGS, []],
  ]);
});

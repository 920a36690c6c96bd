import { expect, test } from 'vitest';
import { BackendType, StatusCode } from '../../../src/io/codes.ts';
import { createBackend } from '../../../src/io/engine/backends.ts';
import { createSession, registerRemoteEngine, sessionTransfer } from '../../../src/io/engine/engine.ts';
import type { RdmaSession } from '../../../src/io/engine/state.ts';
import { addEngine, addMemory, createLoopback, waitFor } from '../../../src/io/loopback.ts';
import { createStatus } from '../../../src/io/transfer-status.ts';
import { addPair, apart, createRig, entriesOf, finishCall, pump, start } from './rig.ts';

/** A transfer that fails on two queue pairs: 0 by its remote key, 1 by silence. */
function messageWhenPolled(first: 0 | 1 | null): string {
  const loopback = createLoopback();
  const [initiator, target] = ['initiator', 'target'].map((key) => addEngine(loopback, key));
  const config = { qpPerTransfer: 2, enableNotification: false };
  for (const engine of [initiator, target]) createBackend(engine, BackendType.RDMA, config);
  registerRemoteEngine(initiator, target.desc);
  registerRemoteEngine(target, initiator.desc);
  const [local, remote] = [initiator, target].map((engine) =>
    addMemory(loopback, engine, new Uint8Array(8192)),
  );
  const made: RdmaSession[] = [];
  createSession(initiator, local, remote, (outcome) => {
    if (outcome.kind === 'session') made.push(outcome.session as RdmaSession);
  });
  const qpns = made[0].endpoints.map((endpoint) => endpoint.local.qpn);
  loopback.sim.failing.set(qpns[0], 'REM_ACCESS_ERR').set(qpns[1], 'RETRY_EXC_ERR');
  loopback.pollFrom = first === null ? null : qpns[first];
  const status = createStatus();
  const entries = entriesOf(apart(2));
  sessionTransfer(initiator, made[0], { operation: 'write', entries, transferId: 0, status });
  expect(waitFor(loopback, initiator, status)).toBe(StatusCode.ERR_RDMA_OP);
  return status.message.split(' Hint')[0];
}

test('the message of a transfer that fails on two queue pairs is that of the one polled first', () => {
  expect(messageWhenPolled(null)).toBe('remote access error');
  expect(messageWhenPolled(0)).toBe('remote access error');
  expect(messageWhenPolled(1)).toBe('transport retry counter exceeded');
});

test('a post towards a peer in error ends for want of an answer and moves nothing, the next one is flushed', () => {
  const rig = createRig();
  const { initiator, session, remote } = addPair(rig, { enableNotification: false });
  const ours = rig.sim.queuePairs.get(session.endpoints[0].local.qpn)!;
  ours.peer!.broken = true;
  const messages = [1, 2].map((id) => {
    const call = start(initiator, session, { rows: apart(1), id });
    finishCall(rig, call);
    pump(rig);
    return call.status.message.split(' Hint')[0];
  });
  expect(messages).toEqual(['transport retry counter exceeded', 'Work Request Flushed Error']);
  expect([ours.broken, rig.buffers.get(remote.data)![0]]).toEqual([true, 0]);
});

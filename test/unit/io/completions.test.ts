import { expect, test } from 'vitest';
import { StatusCode } from '../../../src/io/codes.ts';
import { deregisterMemory, registerMemory } from '../../../src/io/engine/engine.ts';
import { complete } from '../../../src/io/engine/inputs.ts';
import { setStatusCode } from '../../../src/io/transfer-status.ts';
import { landNext } from '../../../src/io/verbs-land.ts';
import { addPair, apart, createRig, finishCall, makeSession, pump, start } from './rig.ts';

/** Corners of mori-io.md A8 to A11 and A14 that no trace shows. */

test('an error drops the status, which the same transfer never touches again', () => {
  const rig = createRig();
  const { initiator, session } = addPair(rig, { qpPerTransfer: 2, enableNotification: false });
  for (const { local } of session.endpoints) rig.sim.failing.set(local.qpn, 'REM_ACCESS_ERR');
  const { status } = start(initiator, session, { rows: apart(2), id: 0 });
  while (landNext(rig.sim));
  const [first, second] = rig.sim.completions.splice(0);
  complete(initiator, first.completion);
  expect(status.code).toBe(StatusCode.ERR_RDMA_OP);
  setStatusCode(status, StatusCode.IN_PROGRESS);
  complete(initiator, second.completion);
  expect(status.code).toBe(StatusCode.IN_PROGRESS);
});

test('a degraded queue pair recovers by a failed completion that has a record', () => {
  const rig = createRig();
  const { initiator, session } = addPair(rig, { enableNotification: false });
  const [endpoint] = session.endpoints;
  rig.sim.failing.set(endpoint.local.qpn, 'REM_ACCESS_ERR');
  start(initiator, session, { rows: apart(1), id: 0 });
  rig.sim.postFailure = { posted: 2, errno: 22 };
  start(initiator, session, { rows: apart(4), id: 1 });
  expect([endpoint.degraded, endpoint.depth]).toEqual([true, 3]);
  pump(rig);
  expect([endpoint.degraded, endpoint.depth]).toEqual([false, 0]);
});

test('a notification that fails gives its slot back and leaves the status alone', () => {
  const rig = createRig();
  const { initiator, session } = addPair(rig);
  const [endpoint] = session.endpoints;
  const { status } = start(initiator, session, { rows: apart(1), id: 0 });
  landNext(rig.sim);
  rig.sim.failing.set(endpoint.local.qpn, 'RETRY_EXC_ERR');
  pump(rig);
  expect([status.code, endpoint.depth]).toEqual([StatusCode.SUCCESS, 0]);
});

test.each([
  ['mori', StatusCode.ERR_RDMA_OP],
  ['sound', StatusCode.SUCCESS],
] as const)('deregistering an old holder of a pointer and a newer region of it: %s', (fidelity, wanted) => {
  const rig = createRig();
  const { initiator, local, remote } = addPair(rig, {}, { fidelity });
  const { data: address, size: bytes, loc } = local;
  const second = registerMemory(initiator, { address, bytes, loc });
  makeSession(initiator, second, remote);
  deregisterMemory(initiator, local);
  const third = registerMemory(initiator, { address, bytes, loc });
  const made = makeSession(initiator, third, remote);
  deregisterMemory(initiator, second);
  if (made.kind !== 'session') throw made;
  const call = start(initiator, made.session, { rows: apart(1), id: 0 });
  finishCall(rig, call);
  expect(call.status.code).toBe(wanted);
});

test('of several failed slices the last one counts', () => {
  const rig = createRig();
  const { initiator, session } = addPair(rig, { qpPerTransfer: 2, numWorkerThreads: 2 });
  const rows = [
    [0, 2 ** 30, 8],
    [0, 0, 2 ** 32],
  ] as const;
  expect(start(initiator, session, { rows, id: 0 }).status.message).toContain('UINT32_MAX');
});

test('an unsignaled work request that fails is logged, and nothing else', () => {
  const rig = createRig();
  const { initiator, session } = addPair(rig, { enableNotification: false });
  const [endpoint] = session.endpoints;
  rig.sim.failing.set(endpoint.local.qpn, 'LOC_PROT_ERR');
  const { status } = start(initiator, session, { rows: apart(2), id: 0 });
  while (landNext(rig.sim));
  complete(initiator, rig.sim.completions[0].completion);
  expect([status.code, endpoint.depth, rig.logs.length]).toEqual([StatusCode.IN_PROGRESS, 2, 1]);
  rig.sim.completions.splice(0);
  complete(initiator, { qpn: endpoint.local.qpn, opcode: 'data', wrId: 999, status: 'SUCCESS' });
  complete(initiator, { qpn: 77, opcode: 'data', wrId: 0, status: 'SUCCESS' });
  expect([endpoint.depth, rig.logs.length]).toEqual([2, 3]);
});

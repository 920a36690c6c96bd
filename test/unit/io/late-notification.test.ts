import { expect, test } from 'vitest';
import { StatusCode } from '../../../src/io/codes.ts';
import { popInboundTransferStatus } from '../../../src/io/engine/engine.ts';
import { createStatus } from '../../../src/io/transfer-status.ts';
import { addPair, apart, createRig, finishCall, pump, start } from './rig.ts';

/** The sound engine sends the notification of a READ after its data, when a queue pair may have gone down meanwhile. */

test('a queue pair that is down when the data of a READ is here is asked for again, so no timer is waited for', () => {
  const rig = createRig();
  const { initiator, target, session } = addPair(rig, { qpPerTransfer: 2 }, { fidelity: 'sound' });
  rig.hold = true;
  // Its data goes over the second queue pair.
  const read = start(initiator, session, { rows: apart(1), operation: 'read', id: 1, single: true });
  pump(rig);
  rig.deaf = true;
  rig.hold = false;
  const held = rig.sim.completions.splice(0);
  rig.sim.failing.set(session.endpoints[0].local.qpn, 'RETRY_EXC_ERR');
  finishCall(rig, start(initiator, session, { rows: apart(1), id: 2, single: true }));
  expect([session.endpoints[0].health, read.phase, read.status.code]).toEqual([
    'down',
    'returned',
    StatusCode.IN_PROGRESS,
  ]);
  rig.deaf = false;
  rig.timers.length = 0;
  rig.sim.completions.push(...held);
  pump(rig);
  expect([read.status.code, session.endpoints[0].health, rig.timers]).toEqual([StatusCode.SUCCESS, 'up', []]);
  expect(popInboundTransferStatus(target, 'initiator', 1, createStatus())).toBe(true);
});

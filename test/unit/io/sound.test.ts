import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { failed, StatusCode } from '../../../src/io/codes.ts';
import { quirksOf } from '../../../src/io/engine/quirks.ts';
import type { Call } from '../../../src/io/engine/state.ts';
import { addPair, createRig, finishCall, fireNext, pump, type Row, start } from './rig.ts';

/**
 * What the sound engine promises whatever fails: every call ends and moves nothing after its end, all credit comes back,
 * every queue pair heals.
 */

const action = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('call' as const),
      count: fc.integer({ min: 0, max: 30 }),
      read: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('failWork' as const),
      at: fc.nat(3),
      cause: fc.constantFrom('RETRY_EXC_ERR' as const, 'REM_ACCESS_ERR' as const, 'LOC_PROT_ERR' as const),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('failPost' as const),
      posted: fc.nat(4),
      errno: fc.constantFrom(12, 22),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('failNotification' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('hold' as const), on: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('deaf' as const), on: fc.boolean() }) },
);

const config = fc.record({
  qpPerTransfer: fc.integer({ min: 1, max: 3 }),
  postBatchSize: fc.constantFrom(-1, 1, 3, 5),
  maxSendWr: fc.constantFrom(1, 2, 8, 64),
  numWorkerThreads: fc.constantFrom(1, 2),
  enableNotification: fc.boolean(),
});

const STRETCH = 1024;

/** Row i of call c: its own stretch on both sides, so that nobody else writes there. */
function rowsOf(call: number, count: number): Row[] {
  return Array.from({ length: count }, (_, index) => [
    call * STRETCH + index * 32,
    call * STRETCH + index * 33,
    16,
  ]);
}

describe('the sound engine', () => {
  test('ends every call, gives all credit back and heals its queue pairs', () => {
    fc.assert(
      fc.property(config, fc.array(action, { minLength: 1, maxLength: 25 }), (settings, actions) => {
        const rig = createRig();
        const pair = addPair(rig, settings, { fidelity: 'sound' });
        const local = rig.buffers.get(pair.local.data)!;
        local.fill(0x11);
        const calls: { call: Call; rows: Row[] }[] = [];
        rig.hooks.moved = (runs, count) => {
          for (let at = 0; at < count * 3; at += 3) {
            const owner = calls[Math.floor(runs[at + 1] / STRETCH)];
            // The one that is being started is not in the list yet.
            if (owner !== undefined) expect(owner.call.status.code).toBe(StatusCode.IN_PROGRESS);
          }
        };
        for (const step of actions) {
          const { endpoints } = pair.session;
          if (step.kind === 'failWork')
            rig.sim.failing.set(endpoints[step.at % endpoints.length].local.qpn, step.cause);
          else if (step.kind === 'failPost') rig.sim.postFailure = step;
          else if (step.kind === 'failNotification') rig.hooks.failNotification = 12;
          else if (step.kind === 'hold') rig.hold = step.on;
          else if (step.kind === 'deaf') rig.deaf = step.on;
          else {
            const rows = rowsOf(calls.length, step.count);
            const operation = step.read ? 'read' : 'write';
            const call = start(pair.initiator, pair.session, { rows, id: calls.length, operation });
            calls.push({ call, rows });
            finishCall(rig, call);
          }
          // A reservation would mend a count below zero, and so hide it.
          for (const { depth } of endpoints) expect(depth).toBeGreaterThanOrEqual(0);
        }
        rig.hold = false;
        rig.deaf = false;
        rig.sim.failing.clear();
        rig.sim.postFailure = null;
        delete rig.hooks.failNotification;
        pump(rig);
        // The notification of a READ may have waited since its peer was out of reach; its timer ends it.
        while (rig.timers.length > 0) fireNext(rig);
        pump(rig);
        for (const { call, rows } of calls) {
          expect(call.phase).toBe('returned');
          const { code } = call.status;
          expect(code === StatusCode.SUCCESS || failed(code)).toBe(true);
          if (code !== StatusCode.SUCCESS || call.operation === 'read') continue;
          const remote = rig.buffers.get(pair.remote.data)!;
          for (const [, offset, bytes] of rows) {
            expect(remote.subarray(offset, offset + bytes).every((byte) => byte === 0x11)).toBe(true);
          }
        }
        // One more call brings up what could not reach its peer before.
        const last = start(pair.initiator, pair.session, { rows: rowsOf(40, 4), id: 1000 });
        finishCall(rig, last);
        pump(rig);
        expect(last.status.code).toBe(StatusCode.SUCCESS);
        for (const { depth, health, degraded, ledger, waiters } of pair.session.endpoints) {
          expect({
            depth,
            health,
            degraded,
            open: ledger.records.size,
            orphans: ledger.orphans,
            waiting: waiters.length,
          }).toEqual({ depth: 0, health: 'up', degraded: false, open: 0, orphans: 0, waiting: 0 });
        }
      }),
      { numRuns: 300 },
    );
  });

  test('has no quirk on', () => {
    expect(Object.values(quirksOf('sound')).some(Boolean)).toBe(false);
    expect(Object.values(quirksOf('mori')).every(Boolean)).toBe(true);
  });
});

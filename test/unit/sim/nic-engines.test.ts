import { expect, test } from 'vitest';
import { StatusCode } from '../../../src/io/codes.ts';
import { resetQueuePairs, sessionTransfer } from '../../../src/io/engine/engine.ts';
import { complete } from '../../../src/io/engine/inputs.ts';
import { INSTANT } from '../../../src/io/profiles.ts';
import { createStatus } from '../../../src/io/transfer-status.ts';
import { landNext } from '../../../src/io/verbs-land.ts';
import { createVerbs, type VerbsSim, verbsOf } from '../../../src/io/verbs-sim.ts';
import type { Setup } from '../../../src/sim/draws.ts';
import {
  createRankEngine,
  describeTo,
  LISTEN_PORT,
  lendAnew,
  openSession,
  type RankEngine,
} from '../../../src/sim/nic-engines.ts';

const SETUP = { queuePairs: 1, spreads: false, sendQueueDepth: 8, notifies: false } as Setup;
const SOURCE = 1;
const TARGET = 2;

/** Two ranks' engines over one NIC simulation. */
function twoEngines(): { readonly sim: VerbsSim; readonly source: RankEngine; readonly target: RankEngine } {
  const sim = createVerbs(INSTANT, () => true);
  const engines = new Map<number, RankEngine>();
  const create = (actor: number, name: string): RankEngine => {
    const rank = createRankEngine({
      actor,
      name,
      setup: SETUP,
      fidelity: 'sound',
      regionStart: actor * 4096,
      regionEnd: actor * 4096 + 1024,
      verbs: verbsOf(sim, name, () => name),
      arm: () => undefined,
      disarm: () => undefined,
      engineAt: (port) => engines.get(port - LISTEN_PORT)?.engine ?? null,
    });
    engines.set(actor, rank);
    return rank;
  };
  return { sim, source: create(SOURCE, 'P0'), target: create(TARGET, 'D0') };
}

/** How a write of 64 bytes over the session towards the target ends. */
function write({ sim, source }: ReturnType<typeof twoEngines>): StatusCode {
  const session = source.sessions.get(TARGET)!;
  const status = createStatus();
  const entries = { localOffsets: [0], remoteOffsets: [0], sizes: [64] };
  sessionTransfer(source.engine, session!, { operation: 'write', entries, transferId: nextId++, status });
  while (landNext(sim))
    for (const { completion } of sim.completions.splice(0)) complete(source.engine, completion);
  return status.code;
}

let nextId = 0;

test('what the peer says now leads into its memory, and what it said before its key was revoked does not', () => {
  const engines = twoEngines();
  const { source, target } = engines;
  const before = describeTo(target, SOURCE);
  openSession(source, TARGET, before);
  expect(write(engines)).toBe(StatusCode.SUCCESS);
  lendAnew(target, SOURCE);
  const after = describeTo(target, SOURCE);
  expect(after.engineDesc).toEqual(before.engineDesc);
  expect(after.memoryDesc).not.toEqual(before.memoryDesc);
  openSession(source, TARGET, before);
  expect(write(engines)).toBe(StatusCode.ERR_RDMA_OP);
  resetQueuePairs(source.engine, 'D0');
  openSession(source, TARGET, after);
  expect(write(engines)).toBe(StatusCode.SUCCESS);
});

test('each peer has a key of its own, and what it says twice is the same', () => {
  const { target } = twoEngines();
  expect(describeTo(target, SOURCE)).toEqual(describeTo(target, SOURCE));
  expect(describeTo(target, SOURCE).memoryDesc).not.toEqual(describeTo(target, 7).memoryDesc);
});

test('an address where nobody listens, and bytes that say nothing, make no session', () => {
  const { source, target } = twoEngines();
  const said = describeTo(target, SOURCE);
  const other = describeTo(source, TARGET);
  expect(openSession(source, TARGET, { ...said, engineDesc: said.engineDesc.subarray(1) })).toMatch(/^DESC-/);
  openSession(source, TARGET, { ...said, engineDesc: other.engineDesc });
  expect(source.sessions.get(TARGET)).toBeNull();
});

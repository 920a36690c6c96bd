import { describe, expect, test } from 'vitest';
import { runCampaign } from '../../../src/explore/campaign.ts';
import { runTape } from '../../../src/explore/run.ts';
import { NO_HAZARDS } from '../../../src/faults/hazards.ts';
import {
  NIC_FAULT_NAMES,
  NIC_FAULTS,
  type NicEffect,
  type NicFaultName,
} from '../../../src/faults/nic-faults.ts';
import { StatusCode } from '../../../src/io/codes.ts';
import type { Fidelity } from '../../../src/io/engine/quirks.ts';
import type { CarriedRow, EventRow } from '../../../src/record/events.ts';
import type { StepRow } from '../../../src/record/record.ts';
import type { RunResult } from '../../../src/sim/run-spec.ts';
import type { Scenario } from '../../../src/sim/scenario.ts';
import { DRAW, type TapeEntry } from '../../../src/sim/tape.ts';
import { SHIPPED_MIX } from '../../../src/zoo/shipped.ts';
import { newMemory, ONE_OF_EACH } from '../../helpers/world.ts';

/** Each fault of the NIC hits the shipped connector, matters to somebody, and is survived on the sound engine. */

const memory = newMemory();

function attack(
  nic: readonly NicFaultName[],
  schedules: number,
  engine: Fidelity = 'sound',
): ReturnType<typeof runCampaign> {
  const scenario: Scenario = { ...SHIPPED_MIX, engine, hazards: { ...NO_HAZARDS, nic } };
  return runCampaign(memory, { scenario, seedFrom: 0, goOn: (done) => done < schedules, stopAtFirst: false });
}

/** What a fault leads to at a connector that lives through it. */
const LEADS_TO: { readonly [fault in NicFaultName]?: string } = {
  error: 'load-failed-recomputed',
  ackLost: 'load-failed-recomputed',
  silent: 'queue-pair-reset',
  refused: 'load-failed-recomputed',
  overflow: 'load-failed-recomputed',
  staleKey: 'load-failed-recomputed',
};

/** What it leads to on the library as it is, with this very connector: the invariants that are broken. */
const BREAKS_THE_LIBRARY: { readonly [fault in NicFaultName]?: readonly string[] } = {
  // Told at once, although other queue pairs of the same transfer still write: the blocks are reused too early.
  error: ['I1'],
  ackLost: ['I1'],
  staleKey: ['I1'],
  // Slots of what was posted before the refusal never come back.
  refused: ['I1', 'I3'],
  // Nobody takes the queue pair down.
  silent: ['I2', 'I3'],
  overflow: ['I2', 'I3'],
};

describe('the shipped connector on the sound engine', () => {
  test.each(NIC_FAULT_NAMES.filter((fault) => fault !== 'early'))(
    'survives %s, and was hit by it',
    (fault) => {
      const { findings, goals } = attack([fault], 1200);
      expect(findings).toEqual([]);
      expect(goals.get('request-completed')).toBeGreaterThan(1000);
      const goal = LEADS_TO[fault];
      if (goal !== undefined) expect(goals.get(goal)).toBeGreaterThan(20);
    },
  );

  test('cannot survive completions that come before the bytes, and the judges say so', () => {
    const { findings } = attack(['early'], 500);
    const seen = findings.map(({ violation }) => violation.invariant);
    expect(seen).toContain('I10');
    expect(seen.every((invariant) => invariant === 'I10' || invariant === 'I1')).toBe(true);
  });

  test('fails no load when the NIC does nothing out of the ordinary', () => {
    const { goals, findings } = attack([], 500);
    expect(findings).toEqual([]);
    // Goals that a calm world has no way to are not even listed.
    expect([goals.get('load-failed-recomputed') ?? 0, goals.get('queue-pair-reset') ?? 0]).toEqual([0, 0]);
  });
});

describe('the same connector on the library as it is', () => {
  test.each(Object.keys(BREAKS_THE_LIBRARY) as NicFaultName[])('does not survive %s', (fault) => {
    const seen = attack([fault], 1200, 'mori').findings.map(({ violation }) => violation.invariant);
    expect([...new Set(seen)].sort()).toEqual(BREAKS_THE_LIBRARY[fault]);
  });

  test('is fine as long as the NIC is', () => {
    expect(attack([], 500, 'mori').findings).toEqual([]);
  });
});

/** One request of two layers. */
const TINY: Scenario = { ...ONE_OF_EACH, layers: [2], requestsMax: 1 };
const NOTIFIES: TapeEntry = {
  draw: DRAW.shape,
  who: 'cluster',
  kind: 'notifies',
  object: 0,
  occurrence: 0,
  value: 1,
};
/** The rank of P, and of D, in that topology. */
const [P_RANK, D_RANK] = [2, 4];

function fateOf(kind: number | string, object: number, effect: string): TapeEntry {
  const effects: readonly NicEffect[] = NIC_FAULTS.flatMap((fault) => [...fault.effects]);
  const { value } = effects.find(({ name }) => name === effect)!;
  return { draw: DRAW.nicFate, who: 'P0.r0', kind: String(kind), object, occurrence: 0, value };
}

/** Runs a tape all of whose draws were asked for. */
function play(entries: readonly TapeEntry[], scenario: Scenario = TINY): RunResult {
  const { result, tape } = runTape(memory, scenario, entries, { record: true });
  expect(tape.recorded).toEqual(entries);
  expect(result.violation).toBeNull();
  return result;
}

type Of<K extends EventRow['kind']> = Extract<EventRow, { readonly kind: K }>;

/** The steps in which an event of a kind came with these fields. */
function steps<K extends EventRow['kind']>(
  { record }: RunResult,
  kind: K,
  fields: Partial<Of<K>>,
): StepRow[] {
  return record.steps.filter(({ event }) => event.kind === kind && matches(event as Of<K>, fields));
}

/** The landings of what one carries, in the order in which their time came. */
function landings(
  { record }: RunResult,
  carried: Partial<CarriedRow>,
  fields: Partial<Of<'land'>> = {},
): StepRow[] {
  return record.steps.filter(
    ({ event }) => event.kind === 'land' && matches(event.carried, carried) && matches(event, fields),
  );
}

function matches<T extends object>(row: T, fields: Partial<T>): boolean {
  return Object.entries(fields).every(([name, value]) => row[name as keyof T] === value);
}

describe('a single fault', () => {
  test.each([
    ['error', 'RETRY_EXC_ERR'],
    ['localLength', 'LOC_LEN_ERR'],
    ['localProtection', 'LOC_PROT_ERR'],
    ['remoteAccess', 'REM_ACCESS_ERR'],
    ['remoteOperation', 'REM_OP_ERR'],
    ['notReadyTooLong', 'RNR_RETRY_EXC_ERR'],
  ] as const)('of class %s is seen as %s, and the load is computed again', (fate, status) => {
    const result = play([fateOf(0, 1, fate)]);
    expect(steps(result, 'completion', { layer: 0, transfer: 1, status })).toHaveLength(1);
    expect(result.goals.get('load-failed-recomputed')).toBe(1);
  });

  test('flushes what is behind it on its queue pair', () => {
    const result = play([fateOf(0, 1, 'error')]);
    const behind = { layer: 1, transfer: 1, workRequests: 2, operation: 'write' } as const;
    expect(landings(result, behind, { from: P_RANK, state: 'flushed' })).toHaveLength(1);
    const told = { layer: 1, transfer: 1, status: 'WR_FLUSH_ERR' };
    expect(steps(result, 'completion', told).length).toBeGreaterThan(0);
  });

  test('of a refused post is told without anything on the wire', () => {
    const result = play([fateOf(0, 1, 'refused')]);
    expect(landings(result, { layer: 0, transfer: 1 })).toEqual([]);
    expect(steps(result, 'ended', { layer: 0, transfer: 1, code: StatusCode.ERR_RDMA_OP })).toHaveLength(1);
  });

  test('of a partly refused post is told when the part that was posted has landed', () => {
    const result = play([fateOf(0, 1, 'partlyRefused')]);
    const part = { layer: 0, transfer: 1, workRequests: 1 };
    const [landed] = landings(result, part, { nicFault: 'partlyRefused' });
    const [drained] = steps(result, 'completion', { layer: -1, opcode: 'data', status: 'SUCCESS' });
    expect(drained!.atMicros).toBeGreaterThan(landed!.atMicros);
    // The poster hears of the failure with it, and not before.
    expect(result.goals.get('load-failed-recomputed')).toBe(1);
  });

  test('of a torn write lets pieces of one work request be seen, one by one', () => {
    const pieces = landings(play([fateOf(0, 1, 'torn')]), {}, { nicFault: 'torn' });
    expect(pieces.length).toBeGreaterThan(1);
    expect(new Set(pieces.map(({ atMicros }) => atMicros)).size).toBe(pieces.length);
  });

  test('of a completion queue takes the queue pair down, and all on it ends', () => {
    const result = play([fateOf(0, 1, 'overflow')]);
    expect(steps(result, 'overflow', {})).toHaveLength(1);
    expect(steps(result, 'completion', { transfer: 1 })).toEqual([]);
    expect(result.goals.get('load-failed-recomputed')).toBe(1);
  });

  test('of a key that is stale refuses the write and all that was posted with it', () => {
    const result = play([fateOf(0, 1, 'staleKey')]);
    expect(steps(result, 'completion', { layer: 0, transfer: 1, status: 'REM_ACCESS_ERR' })).toHaveLength(1);
    expect(result.goals.get('load-failed-recomputed')).toBe(1);
  });

  test('of a receiver that is not ready holds up the work behind the notification', () => {
    const [plain, late] = [play([NOTIFIES]), play([NOTIFIES, fateOf('send0', 0, 'notReady')])];
    const landing = (result: RunResult): number =>
      landings(result, { layer: 1, transfer: 1 }, { state: 'lands', from: P_RANK })[0]!.atMicros;
    expect(landing(late) - landing(plain)).toBeGreaterThan(1900);
    expect(late.goals.get('load-failed-recomputed') ?? 0).toBe(0);
  });

  test('of a slow NIC makes the same request later', () => {
    const slow: TapeEntry = {
      draw: DRAW.slowNic,
      who: 'P0.r0',
      kind: '0',
      object: 0,
      occurrence: 0,
      value: 99,
    };
    const landing = (entries: TapeEntry[]): number =>
      landings(play(entries), { layer: 1, transfer: 1 })[0]!.atMicros;
    // A base latency of 5 us takes 500.
    expect(landing([slow]) - landing([])).toBeGreaterThan(450);
  });

  test('may be any number of a tape; one that a post does not know is no fault', () => {
    expect(D_RANK).toBeGreaterThan(P_RANK);
    const result = play([{ ...fateOf(0, 1, 'error'), value: 77 }]);
    expect(result.goals.get('load-failed-recomputed') ?? 0).toBe(0);
  });
});

describe('receives that run out', () => {
  test('stall a sender until its target has looked, without any fault', () => {
    const hold: TapeEntry = {
      draw: DRAW.completeDelay,
      who: 'D0.r0',
      kind: 'entry',
      object: 1,
      occurrence: 0,
      value: 5000,
    };
    // Three layers notify, and a queue pair has two receives.
    const scenario = { ...TINY, layers: [3] };
    const held = play([NOTIFIES, hold], scenario);
    const [waits] = landings(held, {}, { state: 'not-ready' });
    const third = { carries: 'notification', engineTransfer: 2 } as const;
    const landed = landings(held, third, { state: 'lands', from: P_RANK });
    expect(landed).toHaveLength(1);
    expect(landed[0]!.atMicros - waits!.atMicros).toBeGreaterThan(4000);
    expect(held.goals.get('load-failed-recomputed') ?? 0).toBe(0);
    expect(landings(play([NOTIFIES], scenario), {}, { state: 'not-ready' })).toEqual([]);
  });
});

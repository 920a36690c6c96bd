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
import type { Fidelity } from '../../../src/io/engine/surprises.ts';
import type { RunResult } from '../../../src/sim/run-spec.ts';
import type { Scenario } from '../../../src/sim/scenario.ts';
import { DRAW, type TapeEntry } from '../../../src/sim/tape.ts';
import type { Goal } from '../../../src/wire/machine.ts';
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
const LEADS_TO: { readonly [fault in NicFaultName]?: Goal } = {
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
    expect(goals.get('load-failed-recomputed')).toBe(0);
    expect(goals.get('queue-pair-reset')).toBe(0);
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
const NOTIFIES: TapeEntry = { draw: DRAW.shape, actor: 0, kind: 13, object: 0, occurrence: 0, value: 1 };
/** The rank of P, and of D, in that topology. */
const [P_RANK, D_RANK] = [2, 4];

function fateOf(kind: number, object: number, effect: string): TapeEntry {
  const effects: readonly NicEffect[] = NIC_FAULTS.flatMap((fault) => [...fault.effects]);
  const { value } = effects.find(({ name }) => name === effect)!;
  return { draw: DRAW.nicFate, actor: P_RANK, kind, object, occurrence: 0, value };
}

/** Runs a tape all of whose draws were asked for. */
function play(entries: readonly TapeEntry[], scenario: Scenario = TINY): RunResult {
  const { result, tape } = runTape(memory, scenario, entries, { record: true });
  expect(tape.recorded).toEqual(entries);
  expect(result.violation).toBeNull();
  return result;
}

function steps({ record }: RunResult, text: string): { what: string; atMicros: number }[] {
  return record.steps.filter(({ what }) => what.includes(text));
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
    expect(steps(result, `layer 0 (transfer 1): ${status}`)).toHaveLength(1);
    expect(result.goals.get('load-failed-recomputed')).toBe(1);
  });

  test('flushes what is behind it on its queue pair', () => {
    const result = play([fateOf(0, 1, 'error')]);
    const flushed = '2 writes of layer 1 (transfer 1) from P0.r0 are flushed: their queue pair is broken';
    expect(steps(result, flushed)).toHaveLength(1);
    expect(steps(result, 'layer 1 (transfer 1): WR_FLUSH_ERR').length).toBeGreaterThan(0);
  });

  test('of a refused post is told without anything on the wire', () => {
    const result = play([fateOf(0, 1, 'refused')]);
    expect(steps(result, 'of layer 0 (transfer 1) from').map(({ what }) => what)).toEqual([]);
    expect(steps(result, 'has ended: status 13, ibv_post_send failed with 12')).toHaveLength(1);
  });

  test('of a partly refused post is told when the part that was posted has landed', () => {
    const result = play([fateOf(0, 1, 'partlyRefused')]);
    const [landed] = steps(result, 'FAULT partlyRefused: 1 writes of layer 0 (transfer 1)');
    const [drained] = steps(result, 'sees the completion of an empty write: SUCCESS');
    expect(drained!.atMicros).toBeGreaterThan(landed!.atMicros);
    // The poster hears of the failure with it, and not before.
    expect(result.goals.get('load-failed-recomputed')).toBe(1);
  });

  test('of a torn write lets pieces of one work request be seen, one by one', () => {
    const pieces = steps(play([fateOf(0, 1, 'torn')]), 'FAULT torn');
    expect(pieces.length).toBeGreaterThan(1);
    expect(new Set(pieces.map(({ atMicros }) => atMicros)).size).toBe(pieces.length);
  });

  test('of a completion queue takes the queue pair down, and all on it ends', () => {
    const result = play([fateOf(0, 1, 'overflow')]);
    expect(steps(result, 'completion queue has overflowed')).toHaveLength(1);
    expect(steps(result, 'sees the completion of layer')).toEqual([]);
    expect(result.goals.get('load-failed-recomputed')).toBe(1);
  });

  test('of a key that is stale refuses the write and all that was posted with it', () => {
    const result = play([fateOf(0, 1, 'staleKey')]);
    expect(steps(result, 'layer 0 (transfer 1): REM_ACCESS_ERR')).toHaveLength(1);
    expect(result.goals.get('load-failed-recomputed')).toBe(1);
  });

  test('of a receiver that is not ready holds up the work behind the notification', () => {
    const [plain, late] = [play([NOTIFIES]), play([NOTIFIES, fateOf(1000, 0, 'notReady')])];
    const landings = (result: RunResult): number[] =>
      steps(result, 'of layer 1 (transfer 1) from P0.r0 land here').map(({ atMicros }) => atMicros);
    expect(landings(late)[0]! - landings(plain)[0]!).toBeGreaterThan(1900);
    expect(late.goals.get('load-failed-recomputed') ?? 0).toBe(0);
  });

  test('of a slow NIC makes the same request later', () => {
    const slow: TapeEntry = {
      draw: DRAW.slowNic,
      actor: P_RANK,
      kind: 0,
      object: 0,
      occurrence: 0,
      value: 99,
    };
    const landing = (entries: TapeEntry[]): number =>
      steps(play(entries), 'of layer 1 (transfer 1) from')[0]!.atMicros;
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
      actor: D_RANK,
      kind: 1000,
      object: 1,
      occurrence: 0,
      value: 5000,
    };
    // Three layers notify, and a queue pair has two receives.
    const scenario = { ...TINY, layers: [3] };
    const held = play([NOTIFIES, hold], scenario);
    const [waits] = steps(held, 'finds no receive here');
    const landed = steps(held, "notification of the engine's transfer 2 from P0.r0 lands here");
    expect(landed).toHaveLength(1);
    expect(landed[0]!.atMicros - waits!.atMicros).toBeGreaterThan(4000);
    expect(held.goals.get('load-failed-recomputed') ?? 0).toBe(0);
    expect(steps(play([NOTIFIES], scenario), 'finds no receive here')).toEqual([]);
  });
});

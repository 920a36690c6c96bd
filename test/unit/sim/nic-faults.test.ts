import { describe, expect, test } from 'vitest';
import { runCampaign } from '../../../src/explore/campaign.ts';
import { NIC_FAULTS, type NicFaultName, type Scenario, SHIPPED_MIX } from '../../../src/sim/scenario.ts';
import { NO_HAZARDS, newMemory } from '../../helpers/world.ts';

const memory = newMemory();

function attack(nic: readonly NicFaultName[], schedules: number): ReturnType<typeof runCampaign> {
  const scenario: Scenario = { ...SHIPPED_MIX, hazards: { ...NO_HAZARDS, nic } };
  return runCampaign(memory, { scenario, seedFrom: 0, goOn: (done) => done < schedules, stopAtFirst: true });
}

describe('the shipped connector', () => {
  test.each(NIC_FAULTS.filter((fault) => fault !== 'early'))('survives %s, and was hit by it', (fault) => {
    const { findings, goals } = attack([fault], 1500);
    expect(findings).toEqual([]);
    const hit = {
      error: 'load-failed-recomputed',
      ackLost: 'load-failed-recomputed',
      silent: 'queue-pair-reset',
    } as const;
    // A torn write does no harm to a protocol that waits for the completion: nothing failed for it.
    const goal = hit[fault as keyof typeof hit] ?? 'request-completed';
    expect(goals.get(goal)).toBeGreaterThan(20);
  });

  test('answers right after a torn write although somebody could have read the half of it', () => {
    const { goals } = attack(['torn'], 500);
    expect(goals.get('load-failed-recomputed')).toBe(0);
    expect(goals.get('request-completed')).toBeGreaterThan(500);
  });

  test('cannot survive completions that come before the bytes, and the judges say so', () => {
    const { findings } = attack(['early'], 500);
    expect(findings.map(({ violation }) => violation.invariant)).toEqual(['I10']);
  });

  test('fails no load when the NIC does nothing out of the ordinary', () => {
    expect(attack([], 500).goals.get('load-failed-recomputed')).toBe(0);
  });
});

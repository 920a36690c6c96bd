import { describe, expect, test } from 'vitest';
import type { Connector } from '../../src/connector/plug.ts';
import type { InvariantId } from '../../src/oracle/registry.ts';
import { type ChoicePolicy, IN_TURN } from '../../src/proxy/choose.ts';
import type { Scenario } from '../../src/sim/scenario.ts';
import { SHIPPED_MIX } from '../../src/zoo/shipped.ts';
import { newMemory, runConnector } from '../helpers/world.ts';

const memory = newMemory();

/** A bug planted in the shipped connector; one that somebody could make. The judges must find it. */
export interface Canary {
  readonly bug: string;
  readonly connector: Connector;
  /** Any of these may be seen first. */
  readonly found: readonly InvariantId[];
  readonly seedsMax: number;
  readonly scenario?: Scenario;
  readonly policy?: ChoicePolicy;
}

/** The first seed that shows a violation, and which; null when none does. */
function firstFinding(canary: Canary): { seed: number; invariant: InvariantId } | null {
  const { connector, policy = IN_TURN, scenario = SHIPPED_MIX, seedsMax } = canary;
  for (let seed = 0; seed < seedsMax; seed++) {
    const { violation } = runConnector(memory, scenario, connector, seed, policy);
    if (violation !== null) return { seed, invariant: violation.invariant };
  }
  return null;
}

export function expectFound(canaries: readonly Canary[]): void {
  describe('a planted bug is found:', () => {
    test.each(canaries)('$bug', (canary) => {
      const finding = firstFinding(canary);
      expect(finding, `not found in ${canary.seedsMax} seeds`).not.toBeNull();
      expect(canary.found, `first seen at seed ${finding!.seed}`).toContain(finding!.invariant);
    });
  });
}

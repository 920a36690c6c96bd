import { describe, expect, test } from 'vitest';
import { BrokenBelief } from '../../src/base/failure.ts';
import type { Connector } from '../../src/connector/plug.ts';
import { shipped } from '../../src/connector/shipped/index.ts';
import { TIMER } from '../../src/connector/shipped/timers.ts';
import { SHIPPED_MIX } from '../../src/zoo/shipped.ts';
import { isNamed } from '../helpers/messages.ts';
import { newMemory, runConnector } from '../helpers/world.ts';
import { plantInBatches, plantInEffects, plantInMessages, plantInScheduler, plantInWorker } from './plant.ts';

const memory = newMemory();

/** What the protocol is built to live with, and the goal that shows that it had to. */
const SURVIVED: readonly { readonly defect: string; readonly connector: Connector; readonly goal: string }[] =
  [
    {
      defect: 'seals are never acknowledged',
      connector: plantInMessages((message, to) => (isNamed(message, 'sealAck') ? null : { to, message })),
      goal: 'seal-repeated',
    },
    {
      defect: 'a handshake has no time limit of its own: that of the transfer stands in for it',
      connector: plantInEffects(() => (effect, pass) => {
        if (effect.kind !== 'arm' || effect.timer !== TIMER.handshake) pass(effect);
      }),
      goal: 'load-failed-recomputed',
    },
    {
      defect: 'every message between peers is sent twice',
      connector: plantInEffects(({ topology, self }) => (effect, pass) => {
        pass(effect);
        if (effect.kind === 'send' && topology.actors[effect.to]!.engine !== topology.actors[self]!.engine)
          pass(effect);
      }),
      goal: 'request-completed',
    },
    {
      defect: 'a revoke does not say which grant it means',
      connector: plantInMessages((message, to) => ({
        to,
        message: isNamed(message, 'revoke') ? { ...message, grant: 0 } : message,
      })),
      goal: 'revoke-confirmed',
    },
  ];

describe('the protocol lives with this:', () => {
  test.each(SURVIVED)('$defect', ({ connector, goal }) => {
    let reached = 0;
    for (let seed = 0; seed < 400; seed++) {
      const { violation, goals } = runConnector(memory, SHIPPED_MIX, connector, seed);
      expect([seed, violation]).toEqual([seed, null]);
      reached += goals.get(goal) ?? 0;
    }
    expect(reached).toBeGreaterThan(10);
  });
});

describe('without a planted bug', () => {
  test('the same wraps and the same schedules find nothing', () => {
    const wraps: readonly Connector[] = [
      shipped,
      plantInScheduler(() => ({})),
      plantInWorker(() => ({})),
      plantInEffects(() => (effect, pass) => pass(effect)),
      plantInBatches((batch) => batch),
      plantInMessages((message, to) => ({ message, to })),
    ];
    const digests = new Set<string>();
    for (let seed = 0; seed < 100; seed++) {
      const results = wraps.map((connector) => runConnector(memory, SHIPPED_MIX, connector, seed));
      expect(results.map(({ violation }) => violation)).toEqual(wraps.map(() => null));
      expect(new Set(results.map(({ digest }) => digest)).size).toBe(1);
      digests.add(results[0]!.digest);
    }
    expect(digests.size).toBeGreaterThan(95);
  });
});

test('a broken belief of the harness is never taken for a bug of the connector', () => {
  const connector = plantInWorker(() => ({
    startLoadKv: () => {
      throw new BrokenBelief('INV-TEST-1', 'x');
    },
  }));
  expect(() => runConnector(memory, SHIPPED_MIX, connector, 1)).toThrow('INV-TEST-1');
});

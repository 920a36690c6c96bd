import { describe, expect, test } from 'vitest';
import { below, finish, mix } from '../../src/base/mix.ts';
import type { ActorId } from '../../src/base/topology.ts';
import type { WorkerEnv } from '../../src/connector/plug.ts';
import { NO_HAZARDS } from '../../src/faults/hazards.ts';
import type { Message } from '../../src/wire/messages.ts';
import { SHIPPED_MIX } from '../../src/zoo/shipped.ts';
import { plantInWorker } from '../canary/plant.ts';
import { frameOf } from '../helpers/messages.ts';
import { newMemory, runConnector } from '../helpers/world.ts';

// Whole clusters in which ranks get frames that no honest peer sends, with a true checksum and a peer's name on them. Only what
// a peer says about a transfer of its own is left out: that is believed.

const MOST = Number.MAX_SAFE_INTEGER;
const NUMBERS = [0, 1, 2, 3, 63, 1024, 1025, 2 ** 32, MOST];
const KINDS = ['metaRequest', 'claim', 'grant', 'refuse', 'seal', 'sealAck', 'revoke'] as const;

function asFrame(message: object): Message {
  return { kind: 'bytes', port: 'notify', bytes: frameOf(message) };
}

/** Ranks of other engines; which of them are peers is for the rank to know. */
function others({ topology, spec }: WorkerEnv): ActorId[] {
  return topology.engines.flatMap(({ engine, ranks }) => (engine === spec.engine ? [] : [...ranks]));
}

/** A forged message by the numbers that `pick` gives. */
function forge(env: WorkerEnv, pick: (count: number) => number): object {
  const number = (): number => NUMBERS[pick(NUMBERS.length)]!;
  const name = KINDS[pick(KINDS.length)]!;
  const fields = { attempt: number(), tpSize: 1 + pick(2), ok: pick(2) === 0, epoch: number() };
  const range = { firstSlot: number(), slotFrom: number(), slotTo: number(), blocks: [number(), number()] };
  const all = { name, ...fields, ...range, grant: number(), transfer: 1000 + pick(50) };
  // Of a live transfer what the other half or the other mode would say, and numbers that no target has reached.
  if (pick(3) > 0) return all;
  const transfer = 1 + pick(5);
  const initiates = (env.mode === 'read') === (env.spec.role === 'decode');
  if (pick(2) === 0 && initiates)
    return { ...all, name: pick(2) === 0 ? 'grant' : 'revoke', transfer, grant: MOST - pick(3) };
  const wrong = initiates
    ? (['metaRequest', 'claim', 'seal'] as const)
    : (['grant', 'refuse', 'sealAck', 'revoke'] as const);
  return { ...all, name: wrong[pick(wrong.length)]!, transfer };
}

/** One forged frame before every fourth input. */
function forging(count: { forged: number }) {
  return plantInWorker((inner, env) => {
    let state = mix(0xf0f, env.self);
    const from = others(env);
    const pick = (most: number): number => {
      state = finish(mix(state, most));
      return below(state, most);
    };
    return {
      step(at, input, emit) {
        if (pick(4) === 0) {
          count.forged++;
          const message = asFrame(forge(env, pick));
          inner.step(at, { kind: 'message', from: from[pick(from.length)]!, message }, emit);
        }
        inner.step(at, input, emit);
      },
    };
  });
}

describe.each(['write', 'read'] as const)('in %s mode', (mode) => {
  test('forged frames break no promise, fail no load and cost no request', () => {
    const memory = newMemory();
    const count = { forged: 0 };
    let refused = 0;
    for (let seed = 0; seed < 80; seed++) {
      const scenario = { ...SHIPPED_MIX, mode, prefillTp: [1, 2, 4], hazards: NO_HAZARDS };
      const { violation, goals } = runConnector(memory, scenario, forging(count), seed);
      expect([seed, violation]).toEqual([seed, null]);
      expect([seed, goals.get('lease-expired') ?? 0]).toEqual([seed, 0]);
      refused += goals.get('message-refused') ?? 0;
    }
    expect(count.forged).toBeGreaterThan(1000);
    expect(refused).toBeGreaterThan(400);
  });
});

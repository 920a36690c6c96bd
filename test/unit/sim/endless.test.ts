import { describe, expect, test } from 'vitest';
import type { Progress } from '../../../src/connector/plug.ts';
import { plantInWorker } from '../../canary/plant.ts';
import { newMemory, ONE_OF_EACH, runConnector } from '../../helpers/world.ts';

const memory = newMemory();

describe('a run without an end names who keeps it going', () => {
  test.each(['startLoadKv', 'waitForLayerLoad', 'saveKvLayer', 'waitForSave'] as const)(
    '%s that answers again for ever',
    (hook) => {
      const connector = plantInWorker((_, { spec }) =>
        spec.role === 'prefill' ? { [hook]: (): Progress => 'again' } : {},
      );
      const { violation } = runConnector(memory, ONE_OF_EACH, connector, 1);
      expect(violation).toMatchObject({
        ...{ invariant: 'I9', site: 'hook', role: 'prefill', machine: 'rank', part: hook },
        breach: 'hook-never-done',
        ids: { hook, guest: 'connector "canary"', turns: expect.any(Number), since: expect.any(Number) },
      });
    },
  );

  test('a timer that is armed again whenever it fires', () => {
    const connector = plantInWorker((inner, { spec }) => {
      if (spec.role === 'prefill') return {};
      return {
        startLoadKv(meta, at, emit) {
          emit({ kind: 'arm', timer: 15, object: 0, earliest: at + 1, latest: at + 1 });
          return inner.startLoadKv(meta, at, emit);
        },
        step(at, input, emit) {
          if (input.kind === 'timer' && input.timer === 15)
            emit({ kind: 'arm', timer: 15, object: 0, earliest: at + 1, latest: at + 1 });
          else inner.step(at, input, emit);
        },
      };
    });
    const { violation } = runConnector(memory, ONE_OF_EACH, connector, 1);
    expect(violation).toMatchObject({
      ...{ invariant: 'I9', site: 'event', role: 'decode', machine: 'rank', part: 'timer' },
      breach: 'too-many-steps',
      ids: { steps: 60_000, event: 'timer', count: expect.any(Number) },
    });
  });
});

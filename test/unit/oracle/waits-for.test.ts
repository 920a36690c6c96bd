import { describe, expect, test } from 'vitest';
import { layTopology, PROXY } from '../../../src/base/topology.ts';
import { type FailureKey, sameFailure } from '../../../src/oracle/verdict.ts';
import { waitChain } from '../../../src/oracle/waits-for.ts';
import type { Wait } from '../../../src/wire/machine.ts';

const TOPOLOGY = layTopology({
  mode: 'write',
  prefillInstances: 1,
  decodeInstances: 1,
  prefillDp: 1,
  decodeDp: 1,
  prefillTp: 1,
  decodeTp: 1,
});
const P = TOPOLOGY.engines[0]!;
const P_RANK = P.ranks[0]!;
const D_RANK = TOPOLOGY.engines[1]!.ranks[0]!;

describe('a chain of waits', () => {
  const wait = (who: number, whom: number): Wait => ({ who, what: 'grant', fields: { transfer: 12 }, whom });
  const actorsOf = (chain: readonly Wait[]): number[] => chain.map(({ who }) => who);

  test('ends at the one who waits for nobody', () => {
    const waits = [wait(D_RANK, -1), wait(PROXY, P.scheduler), wait(P.scheduler, D_RANK)];
    expect(actorsOf(waitChain(waits, PROXY))).toEqual([PROXY, P.scheduler, D_RANK]);
  });

  test('goes round a circle once', () => {
    const waits = [wait(PROXY, P_RANK), wait(P_RANK, D_RANK), wait(D_RANK, P_RANK)];
    expect(actorsOf(waitChain(waits, PROXY))).toEqual([PROXY, P_RANK, D_RANK]);
  });

  test('of nobody is empty', () => {
    expect(waitChain([wait(P_RANK, D_RANK)], PROXY)).toEqual([]);
  });
});

describe('two failures are the same', () => {
  const hang: FailureKey = { invariant: 'I2', site: 'wait', role: 'decode', machine: 'rank', part: 'grant' };

  test('when promise and part of the system are, whatever their numbers', () => {
    expect(sameFailure({ ...hang }, { ...hang, ...{ ids: { transfer: 9 }, step: 3 } })).toBe(true);
  });

  test.each<Partial<FailureKey>>([
    { invariant: 'I9' },
    { site: 'nobody' },
    { role: 'prefill' },
    { machine: 'scheduler' },
    { part: 'seal' },
  ])('and not when they differ in %o', (change) => {
    expect(sameFailure(hang, { ...hang, ...change })).toBe(false);
  });
});

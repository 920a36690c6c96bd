import { describe, expect, test } from 'vitest';
import { layTopology, PROXY } from '../../../src/base/topology.ts';
import { sameFailure } from '../../../src/oracle/verdict.ts';
import { placeOfHang, showChain, waitChain } from '../../../src/oracle/waits-for.ts';

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
  const wait = (who: number, whom: number, what = 'step 4 (1 ranks left)') => ({ who, what, whom });

  test('ends at the one who waits for nobody', () => {
    const chain = waitChain(
      [wait(D_RANK, -1, 'a grant for transfer 12'), wait(PROXY, P.scheduler), wait(P.scheduler, D_RANK)],
      PROXY,
    );
    expect(chain.map(({ who }) => who)).toEqual([PROXY, P.scheduler, D_RANK]);
    expect(placeOfHang(chain, TOPOLOGY)).toBe('decode rank waits for a grant for transfer n');
    expect(showChain(chain, TOPOLOGY)[2]).toBe(
      `${TOPOLOGY.actors[D_RANK]!.name} waits for a grant for transfer 12`,
    );
  });

  test('goes round a circle once', () => {
    const chain = waitChain([wait(PROXY, P_RANK), wait(P_RANK, D_RANK), wait(D_RANK, P_RANK)], PROXY);
    expect(chain.map(({ who }) => who)).toEqual([PROXY, P_RANK, D_RANK]);
    expect(placeOfHang(chain, TOPOLOGY)).toBe('decode rank waits for step n from prefill rank');
  });

  test('of nobody is empty', () => {
    expect(waitChain([wait(P_RANK, D_RANK)], PROXY)).toEqual([]);
    expect(placeOfHang([], TOPOLOGY)).toBe('nobody waits');
  });

  test('names equal hangs equally, whatever their numbers', () => {
    const place = (transfer: number) =>
      placeOfHang([wait(D_RANK, P_RANK, `a grant for transfer ${transfer}`)], TOPOLOGY);
    const at = { detail: '', step: 1, atMicros: 1, invariant: 'I2' } as const;
    expect(sameFailure({ ...at, place: place(1) }, { ...at, place: place(22), step: 9 })).toBe(true);
    expect(sameFailure({ ...at, place: place(1) }, { ...at, place: 'elsewhere' })).toBe(false);
    expect(sameFailure({ ...at, place: place(1) }, { ...at, place: place(1), invariant: 'I9' })).toBe(false);
  });
});

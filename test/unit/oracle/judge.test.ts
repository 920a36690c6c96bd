import { describe, expect, test } from 'vitest';
import { PROXY } from '../../../src/base/topology.ts';
import { INVARIANTS } from '../../../src/oracle/verdict.ts';
import {
  allocate,
  assign,
  D,
  D_RANK,
  CASES as OTHER_CASES,
  outcome,
  P_RANK,
  reported,
  setUp,
} from './cases.ts';
import { OPERATION_CASES } from './operation-cases.ts';

const CASES = [...OPERATION_CASES, ...OTHER_CASES];

describe('the judge', () => {
  test.each(CASES)('calls out $name', ({ illegal, says, setting }) => {
    const { judge, said } = setUp(setting);
    illegal(judge);
    expect(said).toEqual([says]);
  });

  test.each(CASES)('passes the legal neighbour of $name', ({ legal, legalSetting }) => {
    const { judge, said } = setUp(legalSetting);
    legal(judge);
    expect(said).toEqual([]);
  });

  test('calls out a block handed out while another request holds it', () => {
    const { judge, said } = setUp();
    judge.note(D.scheduler, allocate([3]));
    judge.note(D.scheduler, allocate([3], 1));
    expect(said).toHaveLength(1);
  });

  test('leaves a policy that claims no turns to choose as it likes', () => {
    const { judge, said } = setUp({ ranksTakeTurns: false });
    for (const transfer of [1, 2, 3, 4]) judge.note(PROXY, assign(0, 4, transfer));
    expect(said).toEqual([]);
  });

  test('does not mind that the load of a request fails that P has refused for its size', () => {
    const { judge, said } = setUp();
    judge.note(PROXY, outcome('failed', [], 2));
    judge.sent(D_RANK, D.scheduler, reported('failed', 2));
    expect(said).toEqual([]);
  });

  test('has a case here for every invariant it can raise by itself', () => {
    // I3 is the world's to raise: it looks at tables when nothing is left to happen.
    const covered = new Set(CASES.map(({ says }) => says.split(' ')[0]!));
    expect(Object.keys(INVARIANTS).filter((invariant) => !covered.has(invariant))).toEqual(['I3']);
  });

  test('counts goals and keeps the requests that have no end yet', () => {
    const { judge } = setUp();
    judge.note(P_RANK, { kind: 'goal', name: 'preemption' });
    judge.note(P_RANK, { kind: 'goal', name: 'preemption' });
    judge.note(PROXY, outcome('aborted', [], 1));
    judge.note(D_RANK, { kind: 'refused', cause: 'x' });
    expect([...judge.goals]).toEqual([
      ['preemption', 2],
      ['request-aborted', 1],
      ['message-refused', 1],
    ]);
    expect([...judge.unfinished]).toEqual([0, 2]);
    expect([...judge.outcomes()]).toEqual([[1, 'aborted']]);
  });
});

import { describe, expect, test } from 'vitest';
import { PROXY } from '../../../src/base/topology.ts';
import { IMPOSSIBLE, NOT_FOR_GUESTS } from '../../../src/oracle/invariants/i12-possible-request.ts';
import { INVARIANTS } from '../../../src/oracle/registry.ts';
import { assign, D, D_RANK, CASES as OTHER_CASES, outcome, P_RANK, reported, setUp } from './cases.ts';
import { END_CASES } from './end-cases.ts';
import { OPERATION_CASES } from './operation-cases.ts';

const CASES = [...OPERATION_CASES, ...OTHER_CASES, ...END_CASES];

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

  test('has a case here for every breach but those that the border of the world tells by itself', () => {
    const covered = new Set(
      CASES.flatMap(({ illegal, setting }) => {
        const { judge, breaches } = setUp(setting);
        illegal(judge);
        return breaches;
      }),
    );
    const guests = Object.keys({ ...IMPOSSIBLE, ...NOT_FOR_GUESTS }).map((name) => `I12 ${name}`);
    const atTheBorder = [
      ...guests,
      ...['chose-no-engine', 'chose-wrong-role', 'chose-engine-down'].map((name) => `I6 ${name}`),
      ...['threw', 'returned-no-answer', 'returned-wrong'].map((name) => `I7 ${name}`),
      ...['I9 effects-without-end', 'I10 loaded-what-is-not', 'I10 chose-none'],
    ];
    const all = INVARIANTS.flatMap(({ id, breaches }) =>
      Object.keys(breaches).map((name) => `${id} ${name}`),
    );
    expect(all.length).toBeGreaterThan(60);
    expect(all.filter((breach) => !covered.has(breach)).sort()).toEqual(atTheBorder.sort());
  });

  test('counts goals and keeps the requests that have no end yet', () => {
    const { judge } = setUp();
    judge.note(P_RANK, { kind: 'goal', name: 'preemption' });
    judge.note(P_RANK, { kind: 'goal', name: 'preemption' });
    judge.note(PROXY, outcome('aborted', [], 1));
    judge.note(D_RANK, { kind: 'refused', reason: 'x', fields: {} });
    expect([...judge.goals]).toEqual([
      ['preemption', 2],
      ['request-aborted', 1],
      ['message-refused', 1],
    ]);
    expect([...judge.unfinished]).toEqual([0, 2]);
    expect([...judge.outcomes]).toEqual([[1, 'aborted']]);
  });
});

import { describe, expect, test } from 'vitest';
import { StatusCode } from '../../../src/io/codes.ts';
import { beginWait, type StatusWait, stepWait } from '../../../src/io/engine/wait.ts';
import {
  createStatus,
  setStatusCode,
  type TransferStatus,
  updateStatus,
  waitAllAtDeadline,
  waitAllOutcome,
  waitAllPoll,
} from '../../../src/io/transfer-status.ts';

/** The behaviours of upstream's test_transfer_wait, in our words. */

const { SUCCESS, IN_PROGRESS, ERR_RDMA_OP, ERR_BAD_STATE } = StatusCode;

function running(): TransferStatus {
  const status = createStatus();
  setStatusCode(status, IN_PROGRESS);
  return status;
}

function counted(): { count: number; call: () => void } {
  const seen = { count: 0, call: () => {} };
  seen.call = () => {
    seen.count += 1;
  };
  return seen;
}

describe('waiting for one status', () => {
  test.each([SUCCESS, ERR_RDMA_OP, StatusCode.INIT])('returns a code %d that is there at once', (code) => {
    const status = createStatus();
    setStatusCode(status, code);
    expect(beginWait(status, 0, -1)).toBe(code);
  });

  test('for no time polls: progress runs, the wait callback does not', () => {
    const [progress, wait] = [counted(), counted()];
    expect(beginWait(running(), 0, 0, { progress: progress.call, wait: wait.call })).toBe(IN_PROGRESS);
    expect([progress.count, wait.count]).toEqual([1, 0]);
  });

  test('for a bounded time leaves the wait callback alone and ends at its deadline', () => {
    const wait = counted();
    const waiting = beginWait(running(), 100, 30, { wait: wait.call }) as StatusWait;
    expect([stepWait(waiting, 129, false), stepWait(waiting, 130, false)]).toEqual([null, IN_PROGRESS]);
    expect(wait.count).toBe(0);
  });

  test('for ever uses the wait callback', () => {
    const status = running();
    const wait = (): void => {
      setStatusCode(status, SUCCESS);
    };
    expect(beginWait(status, 0, -1, { wait })).toBe(SUCCESS);
  });

  test('for ever wakes on an update, for two waiters alike', () => {
    const status = running();
    const waits = [1, 2].map(() => beginWait(status, 0, -1) as StatusWait);
    expect(waits.map((wait) => stepWait(wait, 10_000, false))).toEqual([null, null]);
    const woke = updateStatus(status, ERR_BAD_STATE, 'late');
    expect(waits.map((wait) => stepWait(wait, 10_001, woke))).toEqual([ERR_BAD_STATE, ERR_BAD_STATE]);
  });

  test('times out, and sees a later update when asked again', () => {
    const status = running();
    const first = beginWait(status, 0, 5) as StatusWait;
    expect(stepWait(first, 5, false)).toBe(IN_PROGRESS);
    updateStatus(status, SUCCESS, 'success');
    expect(beginWait(status, 6, 5)).toBe(SUCCESS);
  });

  test('goes on through an update that only says it runs', () => {
    const status = running();
    const waiting = beginWait(status, 0, 50) as StatusWait;
    const woke = updateStatus(status, IN_PROGRESS, 'halfway');
    expect(stepWait(waiting, 10, woke)).toBeNull();
  });

  test('SetCode wakes with an end, not with IN_PROGRESS', () => {
    const status = running();
    expect(setStatusCode(status, IN_PROGRESS)).toBe(false);
    expect(setStatusCode(status, SUCCESS)).toBe(true);
  });

  test('takes the whole time where nobody notifies, though progress would have ended it', () => {
    const status = running();
    let now = 0;
    const progress = (): void => {
      if (now >= 10) setStatusCode(status, SUCCESS);
    };
    const waiting = beginWait(status, now, 300, { progress }) as StatusWait;
    now = 299;
    expect(stepWait(waiting, now, false)).toBeNull();
    now = 300;
    expect(stepWait(waiting, now, false)).toBe(SUCCESS);
  });
});

describe('waiting for all', () => {
  const ended = (code: StatusCode): TransferStatus => ({ code, message: '' });

  test('of none is a success', () => {
    expect([waitAllPoll([]), waitAllOutcome([]), waitAllAtDeadline([null])]).toEqual([
      SUCCESS,
      SUCCESS,
      SUCCESS,
    ]);
  });

  test('polls past what runs to a failure', () => {
    expect(waitAllPoll([running(), running()])).toBe(IN_PROGRESS);
    expect(waitAllPoll([running(), ended(ERR_RDMA_OP)])).toBe(ERR_RDMA_OP);
  });

  test('without a limit waits for every entry and gives the first that is no success', () => {
    const statuses = [running(), running(), ended(ERR_BAD_STATE)];
    expect(waitAllOutcome(statuses)).toBeUndefined();
    for (const status of statuses) updateStatus(status, SUCCESS, '');
    expect(waitAllOutcome(statuses)).toBe(ERR_BAD_STATE);
    expect(waitAllOutcome([ended(SUCCESS), ended(SUCCESS)])).toBe(SUCCESS);
  });

  test.each([
    [15, 120, SUCCESS],
    [30, 50, IN_PROGRESS],
  ])('shares one budget: four that end %d ms apart in %d ms', (apartMillis, budgetMillis, wanted) => {
    const statuses = [1, 2, 3, 4].map(() => running());
    statuses.forEach((status, index) => {
      if ((index + 1) * apartMillis <= budgetMillis) updateStatus(status, SUCCESS, '');
    });
    expect(waitAllOutcome(statuses) ?? waitAllAtDeadline(statuses)).toBe(wanted);
  });

  test('at the deadline tells a recorded failure before the time-out', () => {
    expect(waitAllAtDeadline([ended(SUCCESS), ended(ERR_RDMA_OP), running()])).toBe(ERR_RDMA_OP);
    expect(waitAllAtDeadline([running(), ended(ERR_RDMA_OP)])).toBe(IN_PROGRESS);
  });
});

import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  BackendType,
  failed,
  MemoryLocationType,
  PollCqMode,
  StatusCode,
  statusName,
} from '../../../src/io/codes.ts';
import { beginWait } from '../../../src/io/engine/wait.ts';
import * as status from '../../../src/io/transfer-status.ts';

const { SUCCESS, INIT, IN_PROGRESS, ERR_BEGIN, ERR_RDMA_OP, ERR_BAD_STATE, ERR_INVALID_ARGS } = StatusCode;
const ALL = Object.values(StatusCode);

function withCode(code: StatusCode): status.TransferStatus {
  return { code, message: '' };
}

function listOf(...codes: (StatusCode | null)[]): status.StatusList {
  return codes.map((code) => (code === null ? null : withCode(code)));
}

test('the enums have upstream numbers', () => {
  expect(Object.values(BackendType)).toEqual([0, 1, 2, 3, 4]);
  expect(Object.values(MemoryLocationType)).toEqual([0, 1, 2]);
  expect(ALL).toEqual([0, 1, 2, 10, 11, 12, 13, 14, 15]);
  expect(Object.values(PollCqMode)).toEqual([0, 1]);
});

test('only the codes beyond ERR_BEGIN have failed, and each code has its own name', () => {
  expect(ALL.filter(failed)).toEqual([11, 12, 13, 14, 15]);
  expect(ALL.map(statusName)).toEqual(Object.keys(StatusCode));
});

test('a new status is INIT without text', () => {
  expect(status.createStatus()).toEqual({ code: INIT, message: '' });
});

test('an update leaves no error, changes nothing and wakes nobody there', () => {
  for (const code of ALL.filter(failed)) {
    const failedStatus = { code, message: 'first' };
    expect(status.updateStatus(failedStatus, SUCCESS, 'second')).toBe(false);
    expect(failedStatus).toEqual({ code, message: 'first' });
  }
});

test('an update from any code that has not failed goes anywhere and wakes', () => {
  for (const from of ALL.filter((code) => !failed(code))) {
    for (const to of ALL) {
      const changed = withCode(from);
      expect(status.updateStatus(changed, to, 'text')).toBe(true);
      expect(changed).toEqual({ code: to, message: 'text' });
    }
  }
});

test('a failed notification turns a finished transfer into an error', () => {
  const finished = { code: SUCCESS as StatusCode, message: 'success' };
  status.updateStatus(finished, ERR_RDMA_OP, 'notification failed');
  expect(finished).toEqual({ code: ERR_RDMA_OP, message: 'notification failed' });
});

test('ERR_BEGIN is not sticky', () => {
  const mark = withCode(ERR_BEGIN);
  expect(status.updateStatus(mark, SUCCESS, '')).toBe(true);
  expect(mark.code).toBe(SUCCESS);
});

test('setting the code leaves even an error, and keeps the old text', () => {
  for (const from of ALL) {
    for (const to of ALL) {
      const reused = { code: from, message: 'old' };
      status.setStatusCode(reused, to);
      expect(reused).toEqual({ code: to, message: 'old' });
    }
  }
});

test('setting the code wakes for all codes but INIT and IN_PROGRESS', () => {
  const quiet = ALL.filter((code) => !status.setStatusCode(status.createStatus(), code));
  expect(quiet).toEqual([INIT, IN_PROGRESS]);
});

/** What a wait without a limit returns by now. */
const outcome = (one: status.TransferStatus) => {
  const wait = beginWait(one, 0, -1);
  return typeof wait === 'number' ? wait : undefined;
};

test('a wait goes on for IN_PROGRESS alone: INIT ends it at once', () => {
  for (const code of ALL) {
    expect(outcome(withCode(code))).toBe(code === IN_PROGRESS ? undefined : code);
  }
});

test('an IN_PROGRESS update does not complete a wait', () => {
  const running = withCode(IN_PROGRESS);
  status.updateStatus(running, IN_PROGRESS, 'still');
  expect(outcome(running)).toBe(undefined);
});

test('equal lines mean equal statuses', () => {
  const anyStatus = fc.record({
    code: fc.constantFrom(...ALL),
    message: fc.constantFrom('', 'a', 'a"', '" "'),
  });
  fc.assert(
    fc.property(anyStatus, anyStatus, (left, right) => {
      const same = left.code === right.code && left.message === right.message;
      expect(status.showStatus(left) === status.showStatus(right)).toBe(same);
    }),
    { seed: 42, numRuns: 500 },
  );
});

test('all three forms of WaitAll succeed on nothing, and on holes', () => {
  for (const list of [listOf(), listOf(null, null), listOf(null, SUCCESS)]) {
    expect(status.waitAllPoll(list)).toBe(SUCCESS);
    expect(status.waitAllOutcome(list)).toBe(SUCCESS);
    expect(status.waitAllAtDeadline(list)).toBe(SUCCESS);
  }
});

test('a poll is IN_PROGRESS while an entry runs, and scans past it to a failure', () => {
  expect(status.waitAllPoll(listOf(SUCCESS, IN_PROGRESS))).toBe(IN_PROGRESS);
  expect(status.waitAllPoll(listOf(IN_PROGRESS, SUCCESS, ERR_BAD_STATE, ERR_RDMA_OP))).toBe(ERR_BAD_STATE);
});

test('INIT counts as an error in every form', () => {
  expect(status.waitAllPoll(listOf(IN_PROGRESS, INIT))).toBe(INIT);
  expect(status.waitAllOutcome(listOf(SUCCESS, INIT, ERR_RDMA_OP))).toBe(INIT);
  expect(status.waitAllAtDeadline(listOf(INIT, IN_PROGRESS))).toBe(INIT);
});

test('a wait without limit is not over while an entry runs, even after a failure', () => {
  expect(status.waitAllOutcome(listOf(ERR_RDMA_OP, IN_PROGRESS))).toBe(undefined);
});

test('a wait without limit gives the first bad code in list order, not the worst', () => {
  expect(status.waitAllOutcome(listOf(SUCCESS, ERR_RDMA_OP, ERR_INVALID_ARGS))).toBe(ERR_RDMA_OP);
});

test('at the deadline a recorded failure beats the timeout, one behind the running entry does not', () => {
  expect(status.waitAllAtDeadline(listOf(ERR_RDMA_OP, IN_PROGRESS))).toBe(ERR_RDMA_OP);
  expect(status.waitAllAtDeadline(listOf(SUCCESS, IN_PROGRESS, ERR_RDMA_OP))).toBe(IN_PROGRESS);
});

test('poll and unlimited wait agree whenever nothing runs', () => {
  const anyList = fc.array(fc.option(fc.constantFrom(...ALL)), { maxLength: 5 });
  const seen = { over: 0, running: 0 };
  fc.assert(
    fc.property(anyList, (codes) => {
      const list = listOf(...codes);
      const outcome = status.waitAllOutcome(list);
      seen[outcome === undefined ? 'running' : 'over'] += 1;
      if (outcome !== undefined) expect(status.waitAllPoll(list)).toBe(outcome);
      if (outcome !== undefined) expect(status.waitAllAtDeadline(list)).toBe(outcome);
    }),
    { seed: 42, numRuns: 500 },
  );
  expect(seen.over).toBeGreaterThan(50);
  expect(seen.running).toBeGreaterThan(50);
});

import { describe, expect, test } from 'vitest';
import { PROXY } from '../../../src/base/topology.ts';
import { schedulerWaits } from '../../../src/serving/scheduler.ts';
import { Bench, type Options } from './bench.ts';

describe('a batch', () => {
  test('cuts a long prompt into chunks of the token budget', () => {
    const bench = new Bench();
    bench.ask(0, 19);
    expect(bench.runOut()).toEqual(['0:0-8', '0:8-16', '0:16-19']);
    expect(bench.goals().filter((goal) => goal === 'chunked-prefill')).toHaveLength(2);
    expect(bench.answers).toHaveLength(1);
  });

  test('takes running requests before waiting ones and gives the rest of the budget to the next', () => {
    const bench = new Bench();
    bench.ask(0, 11, { maxTokens: 3 });
    expect(bench.turn()!.map((item) => [item.request, item.tokenFrom, item.tokenTo])).toEqual([[0, 0, 8]]);
    bench.ask(1, 7);
    bench.done();
    expect(bench.turn()!.map((item) => [item.request, item.tokenFrom, item.tokenTo])).toEqual([
      [0, 8, 11],
      [1, 0, 5],
    ]);
    bench.done();
    expect(bench.runOut()).toEqual(['0:11-12 1:5-7', '0:12-13']);
  });

  test('has at most the allowed number of requests', () => {
    const bench = new Bench({ batchRequestsMax: 2 });
    for (const request of [0, 1, 2]) bench.ask(request, 2);
    expect(bench.runOut()).toEqual(['0:0-2 1:0-2', '2:0-2']);
  });

  test.each([
    [true, 1],
    [false, 12],
  ])('lends its block lists: %s; of one long request a connector then sees %d lists', (lendsLists, lists) => {
    const bench = new Bench({ lendsLists, batchTokensMax: 32 });
    bench.ask(0, 30, { maxTokens: 12 });
    const run = bench.runOut();
    expect(run).toHaveLength(12);
    const seen = bench.connector.seen.flatMap((items) => items.map(({ blocks }) => blocks));
    expect(new Set(seen).size).toBe(lists);
    const blocksFor = (tokens: number): number => Math.ceil(tokens / 4);
    expect(seen.map(({ length }) => length)).toEqual(
      run.map((step) => (lendsLists ? blocksFor(41) : blocksFor(Number(step.split('-')[1])))),
    );
  });

  test('is one at a time: nothing is scheduled while a step runs, and a stale end is ignored', () => {
    const bench = new Bench();
    bench.ask(0, 8);
    bench.turn();
    bench.ask(1, 4);
    expect(bench.turns).toBe(0);
    bench.tell(bench.ranks[0]!, { kind: 'stepDone', step: 7, tpRank: 0, sums: [9] });
    expect(bench.state.inFlight).not.toBeNull();
    bench.done();
    expect(bench.runOut()).toEqual(['1:0-4']);
  });

  test('ends when every rank has ended it, and a token is the sum over ranks', () => {
    const bench = new Bench({ tp: 2 });
    bench.ask(0, 4);
    bench.turn();
    const { step } = bench.state.inFlight!;
    bench.tell(bench.ranks[0]!, { kind: 'stepDone', step, tpRank: 0, sums: [0xffff_fffe] });
    expect(bench.answers).toEqual([]);
    bench.tell(bench.ranks[1]!, { kind: 'stepDone', step, tpRank: 1, sums: [7] });
    expect(bench.answers.map(({ ok, tokens }) => ({ ok, tokens }))).toEqual([{ ok: true, tokens: [5] }]);
  });

  test('marks the first step of a request as fresh, and no other', () => {
    const bench = new Bench();
    bench.ask(0, 12, { maxTokens: 2 });
    const fresh: boolean[] = [];
    for (let items = bench.turn(); items !== null; items = bench.turn()) {
      fresh.push(items[0]!.fresh);
      bench.done();
    }
    expect(fresh).toEqual([true, false, false]);
  });

  test('allocates look-ahead slots beyond the tokens it computes', () => {
    const plain = new Bench();
    plain.ask(0, 4);
    plain.turn();
    expect(plain.state.pool.freeCount).toBe(11);
    const ahead = new Bench({ lookAheadTokens: 3 });
    ahead.ask(0, 4);
    ahead.turn();
    expect(ahead.state.pool.freeCount).toBe(10);
  });
});

describe('the prefix cache', () => {
  test('shares full blocks of an equal prefix, never the whole prompt', () => {
    const bench = new Bench();
    const keys = [71, 72];
    bench.ask(0, 8, { keys });
    bench.runOut();
    bench.ask(1, 8, { keys });
    expect(bench.runOut()).toEqual(['1:4-8']);
    bench.ask(2, 9, { keys });
    expect(bench.runOut()).toEqual(['2:8-9']);
    expect(bench.notes.filter((note) => note.kind === 'prefixHit').map((note) => note.tokens)).toEqual([
      4, 8,
    ]);
    expect(bench.state.pool.freeCount).toBe(12);
  });

  test('shares with a request that is still running, and survives its end', () => {
    const bench = new Bench();
    bench.ask(0, 8, { keys: [71, 72], maxTokens: 2 });
    bench.turn();
    bench.done();
    bench.ask(1, 6, { keys: [71], maxTokens: 3 });
    const shared = bench.turn()!;
    expect(shared[1]!.blocks[0]).toBe(shared[0]!.blocks[0]);
    bench.done();
    expect(bench.runOut()).toEqual(['1:6-7', '1:7-8']);
    expect(bench.state.pool.freeCount).toBe(12);
  });

  test('holds only what has been computed: a prompt half done is half found', () => {
    const bench = new Bench();
    const keys = [71, 72, 73, 74];
    bench.ask(0, 16, { keys });
    bench.turn();
    bench.done();
    bench.ask(1, 16, { keys });
    expect(bench.turn()!.map((item) => [item.request, item.tokenFrom])).toEqual([[0, 8]]);
    bench.abort(0);
    bench.done();
    expect(bench.turn()!.map((item) => [item.request, item.tokenFrom])).toEqual([[1, 12]]);
  });
});

describe('preemption', () => {
  test('takes the youngest, which computes everything again and answers the same number of tokens', () => {
    const bench = new Bench({ blocks: 4 });
    bench.ask(0, 7, { maxTokens: 4 });
    bench.ask(1, 7, { maxTokens: 4, keys: [] });
    const steps = bench.runOut();
    expect(steps[0]).toBe('0:0-7 1:0-1');
    expect(bench.goals().filter((goal) => goal === 'preemption')).toHaveLength(1);
    const lastOfOld = steps.findIndex((step) => step.startsWith('0:9-10'));
    const again = steps.findLastIndex((step) => step.includes('1:0-'));
    expect(lastOfOld).toBeGreaterThan(0);
    expect(again).toBeGreaterThan(lastOfOld);
    expect(bench.answers.map(({ request, tokens }) => [request, tokens.length])).toEqual([
      [0, 4],
      [1, 4],
    ]);
    expect(bench.state.pool.freeCount).toBe(4);
  });

  test('resumes a request that had generated tokens from its first token on, without asking twice for remote KV', () => {
    const bench = new Bench({ blocks: 4, batchTokensMax: 16 });
    bench.ask(0, 7, { maxTokens: 4, keys: [] });
    bench.ask(1, 7, { maxTokens: 4, keys: [] });
    const steps = bench.runOut();
    expect(steps[0]).toBe('0:0-7 1:0-7');
    const resumed = steps.filter((step) => /^1:0-/.test(step));
    expect(resumed).toEqual(['1:0-9']);
    expect(bench.answers.map(({ tokens }) => tokens.length)).toEqual([4, 4]);
  });

  test('spares a prefill whose blocks are the source of a WRITE: the other waits for its end', () => {
    for (const [mode, preemptions, starts] of [
      ['write', 0, 1],
      ['read', 1, 2],
    ] as const) {
      const bench = new Bench({ mode, blocks: 6, batchTokensMax: 4 });
      bench.ask(0, 4, { maxTokens: 9, keys: [] });
      bench.turn();
      bench.done();
      bench.ask(1, 16, { leg: 'prefill', keys: [] });
      const steps = bench.runOut();
      expect(bench.goals().filter((goal) => goal === 'preemption')).toHaveLength(preemptions);
      expect([mode, steps.filter((step) => step.includes('1:0-')).length]).toEqual([mode, starts]);
      expect(steps.some((step) => step.includes('0:0-'))).toBe(false);
      expect(bench.answers.map(({ request, ok }) => [request, ok]).sort()).toEqual([
        [0, true],
        [1, true],
      ]);
      expect(bench.state.pool.freeCount).toBe(6);
    }
  });

  test('is never of the one that lacks the blocks: it sits the step out and computes nothing twice', () => {
    const bench = new Bench({ blocks: 3 });
    bench.connector.verdict = { keepBlocks: true, params: null };
    bench.ask(0, 4, { leg: 'prefill', keys: [] });
    bench.runOut();
    bench.ask(1, 7, { maxTokens: 4, keys: [] });
    expect(bench.runOut()).toEqual(['1:0-7', '1:7-8']);
    expect(bench.answers).toHaveLength(1);
    expect(bench.goals()).not.toContain('preemption');
    bench.report(0, 'sent', 0);
    expect(bench.runOut()).toEqual(['1:8-9', '1:9-10']);
    expect(bench.answers[1]!.tokens).toHaveLength(4);
  });
});

describe('an abort', () => {
  test('between steps frees at once', () => {
    const bench = new Bench();
    bench.ask(0, 16);
    bench.turn();
    bench.done();
    bench.abort(0);
    expect(bench.state.pool.freeCount).toBe(12);
    expect(bench.connector.calls).toEqual(['alloc 0 0', 'aborted 0', 'forgotten 0']);
    expect(bench.runOut()).toEqual([]);
  });

  test('during a step takes effect after it', () => {
    const bench = new Bench();
    bench.ask(0, 16);
    bench.turn();
    bench.abort(0);
    expect(bench.state.pool.freeCount).toBe(10);
    expect(bench.connector.calls).not.toContain('aborted 0');
    bench.done();
    expect(bench.state.pool.freeCount).toBe(12);
    expect(bench.runOut()).toEqual([]);
    expect(bench.answers).toEqual([]);
  });

  test('of a request that ends in the same step finds nothing left to end', () => {
    const bench = new Bench();
    bench.ask(0, 4);
    bench.turn();
    bench.abort(0);
    bench.done();
    expect(bench.answers).toHaveLength(1);
    expect(bench.connector.calls).not.toContain('aborted 0');
  });

  test('keeps the blocks until every rank has reported, if the connector says so', () => {
    const bench = new Bench({ tp: 2 });
    bench.connector.keepOnAbort = true;
    bench.ask(0, 16, { leg: 'prefill' });
    bench.turn();
    bench.done();
    bench.abort(0);
    expect(bench.state.pool.freeCount).toBe(8);
    bench.report(1, 'sent', 0);
    expect(bench.state.pool.freeCount).toBe(8);
    bench.report(1, 'sent', 0);
    expect(bench.state.pool.freeCount).toBe(8);
    bench.report(0, 'failed', 0);
    expect(bench.state.pool.freeCount).toBe(12);
    expect(bench.state.requests.size).toBe(0);
  });

  test('tells the ranks at the next turn even if nothing else is to be computed', () => {
    const bench = new Bench();
    bench.connector.keepOnAbort = true;
    bench.ask(0, 16);
    bench.turn();
    bench.done();
    bench.connector.meta = 'cancel';
    bench.abort(0);
    expect(bench.turn()).toEqual([]);
    expect(bench.step!.meta).toBe('cancel');
    expect(bench.state.inFlight).toBeNull();
  });

  test('of a request that is not here changes nothing', () => {
    const bench = new Bench();
    bench.abort(5);
    expect([bench.turns, bench.answers.length, bench.notes.length]).toEqual([0, 0, 0]);
  });
});

describe('blocks of a finished prefill', () => {
  test('stay until every rank has reported the end of the transfer', () => {
    const bench = new Bench({ tp: 2 });
    bench.connector.verdict = { keepBlocks: true, params: null };
    bench.ask(0, 8, { leg: 'prefill' });
    bench.runOut();
    expect(bench.answers).toHaveLength(1);
    expect(bench.state.pool.freeCount).toBe(10);
    expect(schedulerWaits(bench.state).map(({ whom }) => whom)).toEqual(bench.ranks);
    bench.report(0, 'sent', 0);
    expect(bench.state.pool.freeCount).toBe(10);
    expect(schedulerWaits(bench.state).map(({ whom }) => whom)).toEqual([bench.ranks[1]]);
    bench.report(1, 'sent', 0);
    expect(bench.state.pool.freeCount).toBe(12);
    expect(bench.connector.calls.at(-1)).toBe('forgotten 0');
  });

  test('go at once if every rank reported while the last step ran', () => {
    const bench = new Bench({ tp: 2 });
    bench.connector.verdict = { keepBlocks: true, params: null };
    bench.ask(0, 8, { leg: 'prefill' });
    bench.turn();
    bench.report(0, 'sent', 0);
    bench.report(1, 'sent', 0);
    bench.done();
    expect(bench.state.pool.freeCount).toBe(12);
  });
});

describe('a load', () => {
  const loading = (tokens: number, options: Options = {}): Bench => {
    const bench = new Bench({ tp: 2, ...options });
    let offered = false;
    bench.connector.matched = () => {
      const matched = { tokens: offered ? 0 : tokens, async: true };
      offered = true;
      return matched;
    };
    bench.ask(0, 9, { leg: 'decode', maxTokens: 2 });
    expect(bench.turn()).toBeNull();
    return bench;
  };

  test('keeps its request out of the batch until every rank has it, and then computes the last token only', () => {
    const bench = loading(9);
    expect(bench.connector.calls).toEqual(['alloc 0 9']);
    bench.report(0, 'received', 0);
    expect(bench.turn()).toBeNull();
    bench.report(1, 'received', 0);
    expect(bench.runOut()).toEqual(['0:8-9', '0:9-10']);
    expect(bench.state.pool.freeCount).toBe(12);
  });

  test('that fails at one rank is computed here from the first token on', () => {
    const bench = loading(9);
    bench.report(1, 'failed', 0);
    bench.report(0, 'received', 0);
    expect(bench.runOut()).toEqual(['0:0-8', '0:8-9', '0:9-10']);
    expect(bench.goals().filter((goal) => goal === 'load-failed-recomputed')).toHaveLength(1);
    expect(bench.answers[0]!.tokens).toHaveLength(2);
  });

  test('makes the loaded blocks findable, a failed one does not', () => {
    for (const [end, from] of [
      ['received', 8],
      ['failed', 0],
    ] as const) {
      const bench = loading(9, { batchTokensMax: 4 });
      bench.report(0, end, 0);
      bench.report(1, end, 0);
      bench.connector.matched = () => ({ tokens: 0, async: false });
      bench.ask(1, 9, { keys: [0, 1] });
      const items = bench.turn()!;
      const second = items.find((item) => item.request === 1);
      expect([end, second === undefined ? 0 : second.tokenFrom]).toEqual([end, from]);
    }
  });

  test('allocates for the whole prompt before it begins', () => {
    const bench = loading(9);
    expect(bench.state.pool.freeCount).toBe(9);
  });

  test('that was aborted is freed after the reports and never computed', () => {
    const bench = loading(9);
    bench.connector.keepOnAbort = true;
    bench.abort(0);
    expect(bench.state.pool.freeCount).toBe(9);
    bench.report(0, 'received', 0);
    bench.report(1, 'failed', 0);
    expect(bench.state.pool.freeCount).toBe(12);
    expect(bench.runOut()).toEqual([]);
  });

  test('reported for a request that is not here is refused and survived', () => {
    const bench = new Bench();
    bench.report(0, 'received', 77);
    expect(bench.refusals()).toEqual([['report-of-unknown-request', { request: 77 }]]);
  });
});

describe('admission', () => {
  test('refuses a request that can never fit, and says so', () => {
    const bench = new Bench({ blocks: 2 });
    bench.ask(0, 8, { maxTokens: 1 });
    expect(bench.answers.map(({ ok, cause }) => ({ ok, cause }))).toEqual([
      { ok: false, cause: 'the request needs more KV blocks than this engine has' },
    ]);
    bench.ask(1, 7, { maxTokens: 1 });
    expect(bench.runOut()).toEqual(['1:0-7']);
    expect(bench.state.requests.size).toBe(0);
  });

  test('counts look-ahead slots when it refuses', () => {
    const bench = new Bench({ blocks: 2, lookAheadTokens: 1 });
    bench.ask(0, 7, { maxTokens: 1 });
    expect(bench.answers[0]!.ok).toBe(false);
  });

  test('waits for blocks and goes on when they come back', () => {
    const bench = new Bench({ blocks: 3 });
    bench.connector.verdict = { keepBlocks: true, params: null };
    bench.ask(0, 8, { leg: 'prefill' });
    bench.runOut();
    bench.ask(1, 8, { leg: 'prefill', keys: [] });
    expect(bench.turn()).toBeNull();
    expect(bench.state.waiting).toHaveLength(1);
    const waits = schedulerWaits(bench.state).map(({ what, fields }) => [what, fields]);
    expect(waits).toContainEqual(['free-blocks', { request: 1 }]);
    bench.report(0, 'sent', 0);
    expect(bench.runOut()).toEqual(['1:0-8']);
  });

  test('refuses a message that is not for a scheduler and goes on', () => {
    const bench = new Bench();
    bench.tell(PROXY, { kind: 'engineDown', engine: 1 });
    bench.ask(0, 4);
    expect(bench.refusals()).toEqual([['not-for-a-scheduler', { message: 'engineDown', from: 0 }]]);
    expect(bench.runOut()).toEqual(['0:0-4']);
  });
});

import { describe, expect, test } from 'vitest';
import { layTopology, type Mode, PROXY, type Shape, type Topology } from '../../../src/base/topology.ts';
import { chooseInTurn, createChoice, IN_TURN } from '../../../src/proxy/choose.ts';
import { acceptRequest, createProxy, FLOW_MOVES, proxyWaits, stepProxy } from '../../../src/proxy/proxy.ts';
import type { Effect, Note } from '../../../src/wire/machine.ts';
import type { Answer, KvTransferParams, Leg, Message } from '../../../src/wire/messages.ts';

const PARAMS: KvTransferParams = { transfer: 1, remoteEngine: 0, remoteBlocks: [4, 5], remoteTokens: 7 };

function shapeOf(mode: Mode, change: Partial<Shape> = {}): Shape {
  return {
    mode,
    prefillInstances: 1,
    decodeInstances: 1,
    prefillDp: 1,
    decodeDp: 1,
    prefillTp: 1,
    decodeTp: 1,
    ...change,
  };
}

/** A proxy whose engines are played by the test. Every effect is written down in few words. */
class Bench {
  readonly topology: Topology;
  readonly state;
  readonly outcomes: Extract<Note, { kind: 'outcome' }>[] = [];
  readonly sent: { to: number; message: Message }[] = [];
  #log: string[] = [];

  constructor(mode: Mode, change: Partial<Shape> = {}) {
    this.topology = layTopology(shapeOf(mode, change));
    this.state = createProxy(this.topology, IN_TURN);
  }

  readonly #emit = (effect: Effect): void => {
    if (effect.kind === 'send') {
      const { to, message } = effect;
      this.sent.push({ to, message });
      const name = this.topology.actors[to]!.name;
      this.#log.push(
        message.kind === 'generate' ? `${message.leg} to ${name}` : `${message.kind} to ${name}`,
      );
    } else if (effect.kind === 'note' && effect.note.kind === 'outcome') {
      this.outcomes.push(effect.note);
      this.#log.push(`${effect.note.outcome} ${effect.note.request}`);
    } else if (effect.kind === 'note' && effect.note.kind === 'refused') {
      this.#log.push(`refused: ${effect.note.reason} ${effect.note.fields['message']}`);
    }
  };

  /** What has been emitted since the last call. */
  log(): string[] {
    const log = this.#log;
    this.#log = [];
    return log;
  }

  accept(request: number, ordinary: 'no' | 'prefill' | 'decode' = 'no'): string[] {
    const prompt = { request, promptTokens: 7, maxTokens: 3, lineageAddress: 0, blockKeys: [] };
    acceptRequest(this.state, { prompt, ordinary }, this.#emit);
    return this.log();
  }

  tell(message: Message): string[] {
    stepProxy(this.state, { kind: 'message', from: PROXY, message }, this.#emit);
    return this.log();
  }

  answer(request: number, leg: Leg, change: Partial<Answer> = {}): string[] {
    const transfer = this.transferOf(request);
    const params = leg === 'prefill' ? PARAMS : null;
    return this.tell({
      kind: 'answer',
      request,
      transfer,
      leg,
      ok: true,
      cause: '',
      tokens: [request, 1],
      params,
      ...change,
    });
  }

  transferOf(request: number): number {
    const sent = this.sent.find(({ message }) => message.kind === 'generate' && message.request === request);
    return (sent!.message as Extract<Message, { kind: 'generate' }>).transfer;
  }

  abort(request: number): string[] {
    return this.tell({ kind: 'abort', request, transfer: 0 });
  }

  down(engine: number): string[] {
    return this.tell({ kind: 'engineDown', engine });
  }

  generates(leg: Leg): Extract<Message, { kind: 'generate' }>[] {
    return this.sent.flatMap(({ message }) =>
      message.kind === 'generate' && message.leg === leg ? [message] : [],
    );
  }
}

describe('READ', () => {
  test('runs P first, hands its parameters to D, and ends with the answer of D', () => {
    const bench = new Bench('read');
    expect(bench.accept(0)).toEqual(['prefill to P0']);
    expect(bench.generates('prefill')[0]).toMatchObject({ maxTokens: 1, remoteEngine: -1, params: null });
    expect(bench.answer(0, 'prefill')).toEqual(['decode to D0']);
    expect(bench.generates('decode')[0]).toMatchObject({ maxTokens: 3, params: PARAMS });
    expect(bench.answer(0, 'decode')).toEqual(['completed 0']);
    expect(bench.outcomes.map(({ tokens }) => tokens)).toEqual([[0, 1]]);
    expect(bench.state.flows.size).toBe(0);
  });

  test('takes no answer of D before P has ended', () => {
    const bench = new Bench('read');
    bench.accept(0);
    expect(bench.answer(0, 'decode')).toEqual([]);
    expect(bench.answer(0, 'prefill')).toEqual(['decode to D0']);
  });

  test('fails with P and tells P; D has heard of nothing', () => {
    const bench = new Bench('read');
    bench.accept(0);
    expect(bench.answer(0, 'prefill', { ok: false, cause: 'too long' })).toEqual(['abort to P0', 'failed 0']);
    expect(bench.outcomes[0]!.cause).toBe('too long');
  });

  test('passes an abort on to P alone before the hand-over and to both after it', () => {
    const bench = new Bench('read');
    bench.accept(0);
    expect(bench.abort(0)).toEqual(['abort to P0', 'aborted 0']);
    bench.accept(1);
    bench.answer(1, 'prefill');
    expect(bench.abort(1)).toEqual(['abort to P0', 'abort to D0', 'aborted 1']);
    expect(bench.abort(1)).toEqual([]);
  });

  test('goes on when P goes down after its answer, fails when it goes down before', () => {
    const bench = new Bench('read');
    bench.accept(0);
    bench.answer(0, 'prefill');
    bench.accept(1);
    expect(bench.down(0)).toEqual(['failed 1']);
    expect(bench.answer(0, 'decode')).toEqual(['completed 0']);
  });

  test('gives the second leg to another D when the chosen one went down meanwhile', () => {
    const bench = new Bench('read', { decodeInstances: 2 });
    bench.accept(0);
    expect(bench.down(1)).toEqual([]);
    expect(bench.answer(0, 'prefill')).toEqual(['decode to D1']);
    expect(bench.answer(0, 'decode')).toEqual(['completed 0']);
  });

  test('fails, and tells P, when no D is left for the second leg', () => {
    const bench = new Bench('read');
    bench.accept(0);
    bench.down(1);
    expect(bench.answer(0, 'prefill')).toEqual(['abort to P0', 'failed 0']);
    expect(bench.outcomes[0]!.cause).toBe('no decode engine is up');
  });
});

describe('WRITE', () => {
  test('runs both at once, D first, each knowing the other', () => {
    const bench = new Bench('write');
    expect(bench.accept(0)).toEqual(['decode to D0', 'prefill to P0']);
    expect(bench.generates('decode')[0]).toMatchObject({ remoteEngine: 0, maxTokens: 3, params: null });
    expect(bench.generates('prefill')[0]).toMatchObject({ remoteEngine: 1, maxTokens: 1, params: null });
    expect(bench.generates('decode')[0]!.transfer).toBe(bench.generates('prefill')[0]!.transfer);
  });

  test('ends with the answer of D, whichever comes first', () => {
    const bench = new Bench('write');
    bench.accept(0);
    expect(bench.answer(0, 'prefill')).toEqual([]);
    expect(bench.answer(0, 'decode')).toEqual(['completed 0']);
    bench.accept(1);
    expect(bench.answer(1, 'decode')).toEqual(['completed 1']);
    expect(bench.answer(1, 'prefill')).toEqual([]);
    expect(bench.outcomes).toHaveLength(2);
  });

  test('fails with either leg and aborts the other', () => {
    const bench = new Bench('write');
    bench.accept(0);
    expect(bench.answer(0, 'prefill', { ok: false, cause: 'p' })).toEqual([
      'abort to P0',
      'abort to D0',
      'failed 0',
    ]);
    bench.accept(1);
    expect(bench.answer(1, 'decode', { ok: false, cause: 'd' })).toEqual(['abort to P0', 'failed 1']);
    expect(bench.outcomes.map(({ cause }) => cause)).toEqual(['p', 'd']);
  });

  test('passes an abort on to both', () => {
    const bench = new Bench('write');
    bench.accept(0);
    expect(bench.abort(0)).toEqual(['abort to P0', 'abort to D0', 'aborted 0']);
    expect(bench.answer(0, 'decode')).toEqual([]);
    expect(bench.answer(0, 'prefill')).toEqual([]);
    expect(bench.outcomes).toHaveLength(1);
  });

  test('fails when either engine goes down, and tells the one that is up', () => {
    for (const [engine, log] of [
      [0, ['abort to D0', 'failed 0']],
      [1, ['abort to P0', 'failed 0']],
    ] as const) {
      const bench = new Bench('write');
      bench.accept(0);
      expect(bench.down(engine)).toEqual(log);
      expect(bench.down(engine)).toEqual([]);
      expect(bench.accept(1)).toEqual(['failed 1']);
      expect(bench.outcomes[1]!.cause).toBe('no engine is up');
    }
  });

  test('does not mind that P goes down after its answer', () => {
    const bench = new Bench('write');
    bench.accept(0);
    bench.answer(0, 'prefill');
    expect(bench.down(0)).toEqual([]);
    expect(bench.answer(0, 'decode')).toEqual(['completed 0']);
  });
});

describe.each(['read', 'write'] as const)('in %s mode', (mode) => {
  test('an ordinary request has one leg at the engine that was asked for', () => {
    const bench = new Bench(mode);
    expect(bench.accept(0, 'prefill')).toEqual(['whole to P0']);
    expect(bench.accept(1, 'decode')).toEqual(['whole to D0']);
    expect(bench.generates('whole').map(({ remoteEngine, maxTokens }) => [remoteEngine, maxTokens])).toEqual([
      [-1, 3],
      [-1, 3],
    ]);
    expect(bench.answer(0, 'whole')).toEqual(['completed 0']);
    expect(bench.abort(1)).toEqual(['abort to D0', 'aborted 1']);
  });

  test('an ordinary request fails with its own engine and with no other', () => {
    const bench = new Bench(mode);
    bench.accept(0, 'prefill');
    bench.accept(1, 'decode');
    expect(bench.down(0)).toEqual(['failed 0']);
    expect(bench.answer(1, 'whole')).toEqual(['completed 1']);
  });

  test('an answer of another transfer or of nobody changes nothing', () => {
    const bench = new Bench(mode);
    bench.accept(0);
    expect(bench.answer(0, 'decode', { transfer: 99 })).toEqual([]);
    expect(
      bench.tell({
        kind: 'answer',
        request: 9,
        transfer: 1,
        leg: 'decode',
        ok: true,
        cause: '',
        tokens: [],
        params: null,
      }),
    ).toEqual([]);
    expect(bench.state.flows.size).toBe(1);
  });

  test('a message that is not for the proxy is refused and survived', () => {
    const bench = new Bench(mode);
    expect(bench.tell({ kind: 'peer', name: 'metaRequest', attempt: 0 })).toEqual([
      'refused: not-for-the-proxy metaRequest',
    ]);
    expect(bench.accept(0)).toHaveLength(mode === 'write' ? 2 : 1);
  });

  test('it waits for the legs that are open', () => {
    const bench = new Bench(mode);
    bench.accept(0);
    expect(proxyWaits(bench.state).map(({ whom }) => bench.topology.actors[whom]!.name)).toEqual(
      mode === 'write' ? ['P0', 'D0'] : ['P0'],
    );
    bench.answer(0, 'prefill');
    expect(proxyWaits(bench.state).map(({ whom }) => bench.topology.actors[whom]!.name)).toEqual(['D0']);
    bench.answer(0, 'decode');
    expect(proxyWaits(bench.state)).toEqual([]);
  });

  test('every request has one outcome, whatever comes in which order', () => {
    const moves = ['prefill', 'decode', 'badPrefill', 'badDecode', 'abort', 'downP', 'downD'] as const;
    let runs = 0;
    const ends = new Map<string, number>();
    const play = (path: readonly number[]): void => {
      const bench = new Bench(mode);
      bench.accept(0);
      for (const index of path) {
        const move = moves[index]!;
        if (move === 'abort') bench.abort(0);
        else if (move === 'downP') bench.down(0);
        else if (move === 'downD') bench.down(1);
        else if (move.startsWith('bad'))
          bench.answer(0, move === 'badPrefill' ? 'prefill' : 'decode', { ok: false, cause: 'x' });
        else bench.answer(0, move as Leg);
      }
      runs++;
      expect(bench.outcomes.length).toBeLessThanOrEqual(1);
      expect(bench.outcomes.length === 1).toBe(bench.state.flows.size === 0);
      const end = bench.outcomes[0]?.outcome ?? 'open';
      ends.set(end, (ends.get(end) ?? 0) + 1);
      // Nobody is told anything after the end but by the end itself, and nobody who is down is told at all.
      const told = bench.sent.filter(({ message }) => message.kind === 'abort').map(({ to }) => to);
      expect(new Set(told).size).toBe(told.length);
    };
    const visit = (path: readonly number[]): void => {
      play(path);
      if (path.length === 4) return;
      for (let index = 0; index < moves.length; index++) if (!path.includes(index)) visit([...path, index]);
    };
    visit([]);
    expect(runs).toBe(1 + 7 + 42 + 210 + 840);
    for (const end of ['completed', 'failed', 'aborted', 'open'])
      expect([end, (ends.get(end) ?? 0) > 0]).toEqual([end, true]);
  });
});

test('a flow that has ended has no move left', () => {
  const { Completed, Failed, Aborted } = FLOW_MOVES.moves;
  expect([Completed, Failed, Aborted]).toEqual([{}, {}, {}]);
});

describe('the choice in turn', () => {
  const cases = [1, 2, 3].flatMap((instances) => [1, 2, 3].map((dp) => [instances, dp] as const));

  test.each(cases)('of %i instances with %i DP ranks serves every rank equally', (instances, dp) => {
    const { engines } = layTopology(shapeOf('read', { decodeInstances: instances, decodeDp: dp }));
    const state = createChoice(engines, 'decode');
    const counts = new Map<number, number>();
    const order: number[] = [];
    for (let turn = 1; turn <= instances * dp * 4; turn++) {
      const chosen = chooseInTurn(state, new Set())!;
      expect(chosen.role).toBe('decode');
      order.push(chosen.instance);
      counts.set(chosen.engine, (counts.get(chosen.engine) ?? 0) + 1);
      const all = engines
        .filter(({ role }) => role === 'decode')
        .map(({ engine }) => counts.get(engine) ?? 0);
      expect(Math.max(...all) - Math.min(...all)).toBeLessThanOrEqual(1);
    }
    expect([...counts.values()]).toEqual(new Array(instances * dp).fill(4));
    expect(order).toEqual(order.map((_, index) => index % instances));
  });

  test.each(cases)(
    'of %i instances with %i DP ranks passes over those that are down, down to none',
    (instances, dp) => {
      const { engines } = layTopology(shapeOf('read', { prefillInstances: instances, prefillDp: dp }));
      const state = createChoice(engines, 'prefill');
      const ours = engines.filter(({ role }) => role === 'prefill');
      const down = new Set<number>();
      for (const { engine } of ours) {
        const up = ours.filter((other) => !down.has(other.engine));
        const served = new Set(
          Array.from({ length: 4 * instances * dp }, () => chooseInTurn(state, down)!.engine),
        );
        expect(served).toEqual(new Set(up.map((other) => other.engine)));
        down.add(engine);
      }
      expect(chooseInTurn(state, down)).toBeNull();
    },
  );

  test('numbers engines by instance and DP rank, prefill first', () => {
    const { engines, actors } = layTopology(
      shapeOf('write', { prefillInstances: 2, prefillDp: 2, decodeTp: 2 }),
    );
    expect(engines.map(({ role, instance, dpRank }) => `${role} ${instance}/${dpRank}`)).toEqual([
      'prefill 0/0',
      'prefill 0/1',
      'prefill 1/0',
      'prefill 1/1',
      'decode 0/0',
    ]);
    expect(actors.map(({ name }) => name)).toEqual([
      'proxy',
      'P0/0',
      'P0/0.r0',
      'P0/1',
      'P0/1.r0',
      'P1/0',
      'P1/0.r0',
      'P1/1',
      'P1/1.r0',
      'D0',
      'D0.r0',
      'D0.r1',
    ]);
    expect(actors.every(({ actor }, index) => actor === index)).toBe(true);
  });
});

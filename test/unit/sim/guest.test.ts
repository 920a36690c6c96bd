import { describe, expect, test } from 'vitest';
import type { Connector } from '../../../src/connector/plug.ts';
import { shipped } from '../../../src/connector/shipped/index.ts';
import { runSeed } from '../../../src/explore/run.ts';
import { NO_HAZARDS } from '../../../src/faults/hazards.ts';
import type { Violation } from '../../../src/oracle/verdict.ts';
import { type ChoicePolicy, IN_TURN } from '../../../src/proxy/choose.ts';
import type { Effect } from '../../../src/wire/machine.ts';
import { SHIPPED_MIX } from '../../../src/zoo/shipped.ts';
import { plantInScheduler, plantInWorker } from '../../canary/plant.ts';
import { newMemory, runConnector } from '../../helpers/world.ts';

// Whatever a connector or a policy throws, returns or asks for is a finding about it, with the place in its code; it never
// breaks the harness.

const memory = newMemory();
const CALM = { ...SHIPPED_MIX, hazards: NO_HAZARDS };

/** The violation of the first seed that has one; what leaves a run as an exception fails the test. */
function firstOf(connector: Connector, policy: ChoicePolicy = IN_TURN, scenario = CALM): Violation | null {
  for (let seed = 0; seed < 20; seed++) {
    const { violation } = runConnector(memory, scenario, connector, seed, policy);
    if (violation !== null) return violation;
  }
  return null;
}

const HERE = /guest\.test\.ts:\d+/;

/** A hook that does this instead of what it should. */
function hooked(hook: string, act: (...args: never[]) => unknown): Connector {
  const isScheduler = hook in shipped.createScheduler({ topology: { engines: [] }, spec: {} } as never);
  const plant = isScheduler ? plantInScheduler : plantInWorker;
  return plant(() => ({ [hook]: act }));
}

describe('what a hook throws', () => {
  const thrower = (): never => {
    throw new Error('no');
  };
  const unreadable = new Proxy({}, { get: thrower, getPrototypeOf: thrower });
  test.each([
    ['an error', () => new TypeError('boom'), 'threw TypeError: boom'],
    ['a text', () => 'x', 'threw the text "x"'],
    ['null', () => null, 'threw null'],
    ['nothing', () => undefined, 'threw undefined'],
    ['an error in colour', () => new Error('two\nlines \u001b[31mred'), 'threw two lines [31mred, at'],
    ['an object', () => ({}), 'threw an object {}'],
    ['what throws when it is looked at', () => unreadable, 'threw an object'],
    [
      'an error with getters that throw',
      () =>
        Object.defineProperties(new Error('x'), {
          stack: { get: thrower },
          message: { get: thrower },
        }),
      'threw an Error without a message',
    ],
  ])('%s', (_, make, says) => {
    const violation = firstOf(
      hooked('saveKvLayer', () => {
        throw make();
      }),
    );
    expect(violation).toMatchObject({ invariant: 'I7', place: 'prefill rank saveKvLayer' });
    expect(violation!.detail).toMatch(/^P\d(\/\d)?\.r\d: saveKvLayer of connector "canary" /);
    expect(violation!.detail).toContain(says);
  });

  const HOOKS = [
    'getNumNewMatchedTokens updateStateAfterAlloc buildConnectorMeta hasMeta requestFinished requestAborted',
    'requestForgotten census startLoadKv waitForLayerLoad saveKvLayer waitForSave getFinished step',
  ];
  test.each(HOOKS.join(' ').split(' '))('in %s has its place in the code', (hook) => {
    function faulty(): never {
      throw new RangeError('planted');
    }
    const scenario = hook === 'requestAborted' || hook === 'hasMeta' ? SHIPPED_MIX : CALM;
    const violation = firstOf(hooked(hook, faulty), IN_TURN, scenario);
    expect(violation).toMatchObject({ invariant: 'I7' });
    expect(violation!.place).toMatch(new RegExp(`^(prefill|decode) (rank|scheduler) ${hook}$`));
    expect(violation!.detail).toMatch(
      /threw RangeError: planted, at .*faulty.* \(.*guest\.test\.ts:\d+:\d+\)$/,
    );
    expect(violation!.stack!.length).toBeGreaterThan(0);
    for (const frame of violation!.stack!) expect(frame).toMatch(HERE);
  });

  test('while the connector is made is told before the first step', () => {
    for (const hook of ['createScheduler', 'createWorker'] as const) {
      const broken = () => {
        throw new Error('planted');
      };
      const { violation, steps } = runConnector(memory, CALM, { ...shipped, [hook]: broken }, 1);
      expect(violation).toMatchObject({ invariant: 'I7' });
      expect(violation!.place).toContain(hook);
      expect(violation!.detail).toMatch(HERE);
      expect(steps).toBe(0);
    }
  });

  test('is no part of the digest: two connectors that break alike have one', () => {
    const digestOf = (message: string): string =>
      runConnector(
        memory,
        CALM,
        hooked('saveKvLayer', () => {
          throw new Error(message);
        }),
        1,
      ).digest;
    expect(digestOf('one')).toBe(digestOf('other'));
  });
});

describe('what a hook returns', () => {
  const ODD: readonly [string, string, unknown, string][] = [
    ['a promise', 'saveKvLayer', () => Promise.reject(new Error('later')), 'returned a promise'],
    ['a generator', 'startLoadKv', () => [][Symbol.iterator](), 'returned a generator'],
    [
      'a misspelt answer',
      'waitForSave',
      () => 'agian',
      "the text \"agian\"; it must return 'done' or 'again'",
    ],
    ['nothing for what is finished', 'getFinished', () => undefined, 'returned undefined'],
    ['half of what is finished', 'getFinished', () => ({ sent: [] }), 'must return null or { sent'],
    [
      'the end of a request that there is not',
      'getFinished',
      () => ({ sent: [999], received: [], failed: [] }),
      'lists of requests that there are',
    ],
    ['no match', 'getNumNewMatchedTokens', () => null, 'returned null; it must return { tokens, async }'],
    ['NaN tokens', 'getNumNewMatchedTokens', () => ({ tokens: Number.NaN, async: true }), 'no more tokens'],
    ['too many tokens', 'getNumNewMatchedTokens', () => ({ tokens: 1e9, async: true }), 'no more tokens'],
    ['no verdict', 'requestFinished', () => undefined, 'must return { keepBlocks, params }'],
    ['a census that is no number', 'census', () => Number.NaN, 'a whole number from 0 up'],
  ];
  test.each(ODD)('%s', (_, hook, act, says) => {
    const violation = firstOf(hooked(hook, act as () => unknown));
    expect(violation).toMatchObject({ invariant: 'I7' });
    expect(violation!.place).toMatch(new RegExp(`${hook}$`));
    expect(violation!.detail).toContain(says);
    expect(violation!.detail).not.toContain('.ts:');
  });

  test('by a connector without its hooks', () => {
    const bare = { ...shipped, createWorker: () => ({ census: () => 0 }) } as unknown as Connector;
    expect(firstOf(bare)!.detail).toContain('must return an object with the methods startLoadKv');
  });
});

describe('what a hook asks for', () => {
  const send = (to: number) => ({
    kind: 'send',
    to,
    message: { kind: 'peer', name: 'sealAck', transfer: 1, attempt: 0 },
  });
  const own = (changes: object) => ({ ...send(3), message: { ...send(3).message, ...changes } });
  const endless = (): object => {
    const list: unknown[] = [];
    list.push(list);
    return list;
  };
  const note = (told: object) => ({ kind: 'note', note: told });
  const ODD: readonly [string, unknown, string, string][] = [
    ['no effect', null, 'effect', 'which is no effect'],
    ['an effect of an unknown kind', { kind: 'toString' }, 'effect', 'which is no effect'],
    ['a message to nobody', send(99), 'send', 'sends to actor 99'],
    ['a message of the engine', { ...send(1), message: { kind: 'report' } }, 'send', 'no message between'],
    ['a message of no name', own({ name: '' }), 'send', 'no message between'],
    [
      'a message that is not in its table',
      own({ name: 'hello' }),
      'send',
      'not among its messages: metaRequest',
    ],
    [
      'a message with a function',
      own({ transfer: () => 1 }),
      'send',
      'holds a function, which no socket carries',
    ],
    ['a message without a bottom', own({ transfer: endless() }), 'send', 'is nested deeper than'],
    ['a message of a class', own({ transfer: new Map() }), 'send', 'holds an object of a class'],
    ['a message with NaN', own({ transfer: [Number.NaN] }), 'send', 'which is no finite number'],
    [
      'a message without an end',
      own({ blocks: new Array(200_000).fill(0) }),
      'send',
      'more than 100000 values',
    ],
    [
      'a message with a megabyte',
      own({ page: new Uint8Array(2 ** 21) }),
      'send',
      'at most 1048576 are taken',
    ],
    [
      'a megabyte of bytes',
      { ...send(3), message: { kind: 'bytes', port: 'notify', bytes: new Uint8Array(2 ** 21) } },
      'send',
      'no message between',
    ],
    [
      'a timer that never comes',
      { kind: 'arm', timer: 0, object: 0, earliest: NaN, latest: 1 },
      'arm',
      'arms',
    ],
    ["a turn of the engine's loop", { kind: 'turn', thread: 0, delayMicros: 1 }, 'turn', 'turn of thread 0'],
    ['a place among the ranks', { kind: 'join', phase: 0, delayMicros: 1 }, 'join', 'joins the ranks'],
    ['a connection to the proxy', { kind: 'connect', peer: 0, epoch: 0 }, 'connect', 'connects to proxy'],
    ['a batch for nobody', { kind: 'post', batch: { peer: 77 } }, 'post', 'posts a batch that'],
    ['a note of the engine', note({ kind: 'free', request: 0, blocks: [0] }), 'note', 'not for a connector'],
    ['a goal of no name', note({ kind: 'goal', name: 'x' }), 'note', 'odd note'],
    [
      'a load of no request',
      note({ kind: 'loaded', request: 99, blocks: [], tokenTo: 0 }),
      'note',
      'odd note',
    ],
  ];

  test.each(ODD)('%s', (_, effect, kind, says) => {
    const violation = firstOf(
      hooked('startLoadKv', (_meta: never, _at: never, emit: (asked: unknown) => void) => {
        emit(effect);
        return 'done';
      }),
    );
    expect(violation!.invariant).toMatch(/^(I12|I10)$/);
    expect(violation!.place).toMatch(new RegExp(`^(prefill|decode) rank ${kind}$`));
    expect(violation!.detail).toContain(says);
    expect(violation!.detail).toMatch(/\(in startLoadKv of connector "canary", at .*guest\.test\.ts:\d+/);
  });

  test('is told even if the connector catches what emit throws', () => {
    const connector = hooked('startLoadKv', (_meta: never, _at: never, emit: (asked: unknown) => void) => {
      try {
        emit({ kind: 'shout' });
      } catch {}
      return 'done';
    });
    expect(firstOf(connector)!.detail).toContain('which is no effect');
  });

  test('without an end is I9', () => {
    const connector = hooked('startLoadKv', (_meta: never, _at: never, emit: (asked: Effect) => void) => {
      for (;;) emit({ kind: 'note', note: { kind: 'refused', cause: 'x' } });
    });
    expect(firstOf(connector)).toMatchObject({ invariant: 'I9' });
  });

  test('of the scheduler side is no more than messages and notes', () => {
    const connector = hooked(
      'updateStateAfterAlloc',
      (_view: never, _tokens: never, _at: never, emit: (asked: Effect) => void) => {
        emit({ kind: 'turn', thread: 1, delayMicros: 1 });
      },
    );
    expect(firstOf(connector)!.detail).toContain('the scheduler side may send and note');
  });
});

describe('what a hook is given', () => {
  test.each([
    ['no blocks', (view: { blocks: number[] }) => (view.blocks = [])],
    ['another prompt', (view: { prompt: { promptTokens: number } }) => view.prompt.promptTokens++],
  ])('cannot be changed: %s', (_, change) => {
    const connector = plantInScheduler((inner) => ({
      requestFinished(view) {
        change(view as never);
        return inner.requestFinished(view);
      },
    }));
    const violation = firstOf(connector);
    expect(violation).toMatchObject({ invariant: 'I7' });
    expect(violation!.place).toMatch(/scheduler requestFinished$/);
    expect(violation!.detail).toMatch(/TypeError: .*guest\.test\.ts/);
  });
});

describe('a policy', () => {
  const scenario = { ...CALM, prefillDp: [2], prefillInstances: 2, decodeInstances: 2 };
  const answering = (choose: ChoicePolicy['choose']): ChoicePolicy => ({ ...IN_TURN, name: 'mine', choose });
  const bad = (answer: unknown) => answering(() => answer as never);

  test.each([
    ['nothing', bad(undefined), 'I6', 'returned undefined instead of a prefill engine'],
    ['NaN', bad(Number.NaN), 'I6', 'returned NaN instead'],
    ['a number', bad(0), 'I6', 'returned 0 instead'],
    ['an engine that there is not', bad({ engine: 99 }), 'I6', 'instead of a prefill engine'],
    ['no engine although all are up', bad(null), 'I10', 'chose no prefill engine although all 4 are up'],
    ['a promise', bad(Promise.resolve(null)), 'I7', 'returned a promise'],
  ])('that returns %s is named', (_, policy, invariant, says) => {
    const violation = firstOf(shipped, policy, scenario);
    expect(violation).toMatchObject({ invariant, place: 'proxy choose' });
    expect(violation!.detail).toContain(`proxy: choose of policy "mine" `);
    expect(violation!.detail).toContain(says);
  });

  test('that chooses an engine of the wrong role, or one that is down, is named', () => {
    let decode: ReturnType<ChoicePolicy['choose']> = null;
    const wrong: ChoicePolicy = {
      create(engines, role) {
        decode ??= engines.find((spec) => spec.role === 'decode')!;
        return IN_TURN.create(engines, role);
      },
      choose: () => decode,
    };
    expect(firstOf(shipped, wrong, scenario)).toMatchObject({ invariant: 'I6', place: 'proxy choose' });
    const deaf = answering((state) => IN_TURN.choose(state, new Set()));
    const crashes = { ...scenario, hazards: { ...NO_HAZARDS, crashes: true } };
    const seen = Array.from({ length: 25 }, (_, seed) => runConnector(memory, crashes, shipped, seed, deaf));
    const details = seen.flatMap(({ violation }) => (violation === null ? [] : [violation.detail]));
    expect(details.some((detail) => detail.includes('which it was told is down'))).toBe(true);
  });

  test.each(['create', 'choose'] as const)(
    'that throws in %s is named with its place in the code',
    (hook) => {
      const policy: ChoicePolicy = {
        ...IN_TURN,
        [hook]: () => {
          throw new Error('planted');
        },
      };
      const violation = firstOf(shipped, policy, scenario);
      expect(violation).toMatchObject({ invariant: 'I7', place: `proxy ${hook}` });
      expect(violation!.detail).toMatch(/threw Error: planted|threw planted/);
      expect(violation!.detail).toMatch(HERE);
    },
  );

  test('that takes no turns and claims none runs clean', () => {
    const first: ChoicePolicy = {
      create: IN_TURN.create,
      choose: (state, down) =>
        state.instances.flatMap(({ engines }) => engines).find(({ engine }) => !down.has(engine)) ?? null,
    };
    let draws = 1;
    const random: ChoicePolicy = {
      create: IN_TURN.create,
      choose(state, down) {
        const up = state.instances.flatMap(({ engines }) =>
          engines.filter(({ engine }) => !down.has(engine)),
        );
        draws = (draws * 48_271) % 2_147_483_647;
        return up[draws % up.length] ?? null;
      },
    };
    for (const policy of [first, random])
      for (let seed = 0; seed < 20; seed++)
        expect(
          runConnector(memory, { ...SHIPPED_MIX, prefillDp: [2] }, shipped, seed, policy).violation,
        ).toBeNull();
  });
});

test('parts that are none are the mistake of the caller', () => {
  const run = (parts: unknown) => () => runSeed(memory, CALM, 1, { parts: parts as never });
  expect(run(() => ({ connector: shipped }))).toThrow(/policy/);
  expect(run(() => ({ connector: {}, policy: IN_TURN }))).toThrow(/createScheduler/);
  expect(
    run(() => {
      throw new Error('planted');
    }),
  ).toThrow(/parts\(\) threw planted/);
});

test('what a connector does to the lists that it is given changes nothing but its own copies', () => {
  const spoiler = plantInScheduler((inner) => ({
    buildConnectorMeta(items, view) {
      const meta = inner.buildConnectorMeta(items, view);
      for (const { request, blocks } of items) {
        (view(request).blocks as number[]).push(7);
        (blocks as number[]).length = 0;
      }
      return meta;
    },
  }));
  for (let seed = 0; seed < 10; seed++) {
    const spoiled = runConnector(memory, CALM, spoiler, seed);
    expect(spoiled).toMatchObject({ violation: null, digest: runSeed(memory, CALM, seed).result.digest });
  }
});

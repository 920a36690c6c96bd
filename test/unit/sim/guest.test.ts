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
    ['an error', () => new TypeError('boom'), /^TypeError: boom$/],
    ['a text', () => 'x', /^the text "x"$/],
    ['null', () => null, /^null$/],
    ['nothing', () => undefined, /^undefined$/],
    ['an error in colour', () => new Error('two\nlines \u001b[31mred'), /^two lines \[31mred$/],
    ['an object', () => ({}), /^an object {}$/],
    ['what throws when it is looked at', () => unreadable, /^an object/],
    [
      'an error with getters that throw',
      () =>
        Object.defineProperties(new Error('x'), {
          stack: { get: thrower },
          message: { get: thrower },
        }),
      /^an Error without a message$/,
    ],
  ])('%s', (_, make, thrown) => {
    const violation = firstOf(
      hooked('saveKvLayer', () => {
        throw make();
      }),
    );
    expect(violation).toMatchObject({
      ...{ invariant: 'I7', site: 'hook', role: 'prefill', machine: 'rank', part: 'saveKvLayer' },
      ...{ breach: 'threw', ids: { hook: 'saveKvLayer', guest: 'connector "canary"' } },
    });
    expect(violation!.ids['thrown']).toMatch(thrown);
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
    expect(violation).toMatchObject({ invariant: 'I7', site: 'hook', part: hook });
    expect(violation!.ids['thrown']).toBe('RangeError: planted');
    expect(violation!.stack![0]).toMatch(/faulty.* \(.*guest\.test\.ts:\d+:\d+\)$/);
    for (const frame of violation!.stack!) expect(frame).toMatch(HERE);
  });

  test('while the connector is made is told before the first step', () => {
    for (const hook of ['createScheduler', 'createWorker'] as const) {
      const broken = () => {
        throw new Error('planted');
      };
      const { violation, steps } = runConnector(memory, CALM, { ...shipped, [hook]: broken }, 1);
      expect(violation).toMatchObject({ invariant: 'I7', site: 'hook', part: hook, breach: 'threw' });
      expect(violation!.stack![0]).toMatch(HERE);
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
  const ODD: readonly [string, string, unknown, string | RegExp, RegExp?][] = [
    ['a promise', 'saveKvLayer', () => Promise.reject(new Error('later')), 'a promise'],
    ['a generator', 'startLoadKv', () => [][Symbol.iterator](), 'a generator'],
    ['a misspelt answer', 'waitForSave', () => 'agian', 'the text "agian"', /^'done', 'again' or 'blocked'$/],
    ['nothing for what is finished', 'getFinished', () => undefined, 'undefined'],
    ['half of what is finished', 'getFinished', () => ({ sent: [] }), /^an object/, /^null or { sent/],
    [
      'the end of a request that there is not',
      'getFinished',
      () => ({ sent: [999], received: [], failed: [] }),
      /^an object/,
      /lists of requests that there are$/,
    ],
    ['no match', 'getNumNewMatchedTokens', () => null, 'null', /^{ tokens, async }/],
    [
      'NaN tokens',
      'getNumNewMatchedTokens',
      () => ({ tokens: Number.NaN, async: true }),
      /^an object/,
      /no more tokens/,
    ],
    [
      'too many tokens',
      'getNumNewMatchedTokens',
      () => ({ tokens: 1e9, async: true }),
      /^an object/,
      /no more tokens/,
    ],
    ['no verdict', 'requestFinished', () => undefined, 'undefined', /^{ keepBlocks, params }/],
    ['a census that is no number', 'census', () => Number.NaN, 'NaN', /^a whole number from 0 up$/],
  ];
  test.each(ODD)('%s', (_, hook, act, value, must) => {
    const violation = firstOf(hooked(hook, act as () => unknown));
    const breach = must === undefined ? /^returned-/ : /^returned-wrong$/;
    expect(violation).toMatchObject({ invariant: 'I7', site: 'hook', part: hook });
    expect(violation!.breach).toMatch(breach);
    expect(violation!.ids['value']).toMatch(value);
    if (must !== undefined) expect(violation!.ids['must']).toMatch(must);
    // What was returned has no place in the code.
    expect(violation!.stack).toBeUndefined();
  });

  test('by a connector without its hooks', () => {
    const bare = { ...shipped, createWorker: () => ({ census: () => 0 }) } as unknown as Connector;
    expect(firstOf(bare)).toMatchObject({ breach: 'returned-wrong', part: 'createWorker' });
    expect(firstOf(bare)!.ids['must']).toMatch(/^an object with the methods startLoadKv/);
  });
});

const NOBODY = { engineDesc: new Uint8Array(), memoryDesc: new Uint8Array() };

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
  const ODD: readonly [string, unknown, string, string, string?][] = [
    ['no effect', null, 'effect', 'no-effect'],
    ['an effect of an unknown kind', { kind: 'toString' }, 'effect', 'no-effect'],
    ['a message to nobody', send(99), 'send', 'sends-to-nobody'],
    ['a message of the engine', { ...send(1), message: { kind: 'report' } }, 'send', 'not-between-peers'],
    ['a message of no name', own({ name: '' }), 'send', 'not-between-peers'],
    ['a message that is not in its table', own({ name: 'hello' }), 'send', 'message-without-form'],
    [
      'a message with a function',
      own({ transfer: () => 1 }),
      'send',
      'message-not-plain',
      'holds a function, which no socket carries',
    ],
    [
      'a message without a bottom',
      own({ transfer: endless() }),
      'send',
      'message-not-plain',
      'is nested deeper than',
    ],
    [
      'a message of a class',
      own({ transfer: new Map() }),
      'send',
      'message-not-plain',
      'holds an object of a class',
    ],
    [
      'a message with NaN',
      own({ transfer: [Number.NaN] }),
      'send',
      'message-not-plain',
      'which is no finite number',
    ],
    [
      'a message without an end',
      own({ blocks: new Array(200_000).fill(0) }),
      'send',
      'message-not-plain',
      'more than 100009 values',
    ],
    [
      'a message with a megabyte',
      own({ page: new Uint8Array(2 ** 21) }),
      'send',
      'message-not-plain',
      'at most 1048576 are taken',
    ],
    [
      'a megabyte of bytes',
      { ...send(3), message: { kind: 'bytes', port: 'notify', bytes: new Uint8Array(2 ** 21) } },
      'send',
      'not-between-peers',
    ],
    [
      'a timer that never comes',
      { kind: 'arm', timer: 0, object: 0, earliest: NaN, latest: 1 },
      'arm',
      'odd-time',
    ],
    ["a turn of the engine's loop", { kind: 'turn', thread: 0, delayMicros: 1 }, 'turn', 'turn-of-engine'],
    ['a place among the ranks', { kind: 'join', phase: 0, delayMicros: 1 }, 'join', 'joins-ranks'],
    ['a connection to the proxy', { kind: 'connect', peer: 0, ...NOBODY }, 'connect', 'peer-has-no-nic'],
    ['a batch for nobody', { kind: 'post', batch: { peer: 77 } }, 'post', 'peer-unknown'],
    ['a note of the engine', note({ kind: 'free', request: 0, blocks: [0] }), 'note', 'note-of-engine'],
    ['a goal of no name', note({ kind: 'goal', name: 'x' }), 'note', 'odd-note'],
    [
      'a load of no request',
      note({ kind: 'loaded', request: 99, blocks: [], tokenTo: 0 }),
      'note',
      'loaded-what-is-not',
    ],
  ];

  test.each(ODD)('%s', (_, effect, kind, breach, oddity) => {
    const violation = firstOf(
      hooked('startLoadKv', (_meta: never, _at: never, emit: (asked: unknown) => void) => {
        emit(effect);
        return 'done';
      }),
    );
    expect(violation!.invariant).toMatch(/^(I12|I10)$/);
    expect(violation).toMatchObject({ site: 'effect', machine: 'rank', part: kind, breach });
    expect(violation!.ids).toMatchObject({ hook: 'startLoadKv', guest: 'connector "canary"' });
    if (oddity !== undefined) expect(violation!.ids['oddity']).toContain(oddity);
    expect(violation!.stack![0]).toMatch(HERE);
  });

  test('is told even if the connector catches what emit throws', () => {
    const connector = hooked('startLoadKv', (_meta: never, _at: never, emit: (asked: unknown) => void) => {
      try {
        emit({ kind: 'shout' });
      } catch {}
      return 'done';
    });
    expect(firstOf(connector)).toMatchObject({ breach: 'no-effect', ids: { value: 'shout' } });
  });

  test('without an end is I9', () => {
    const connector = hooked('startLoadKv', (_meta: never, _at: never, emit: (asked: Effect) => void) => {
      for (;;) emit({ kind: 'note', note: { kind: 'refused', reason: 'x', fields: {} } });
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
    expect(firstOf(connector)).toMatchObject({ breach: 'not-of-scheduler-side', ids: { effect: 'turn' } });
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
    expect(violation).toMatchObject({ invariant: 'I7', machine: 'scheduler', part: 'requestFinished' });
    expect(violation!.ids['thrown']).toMatch(/^TypeError: /);
    expect(violation!.stack![0]).toMatch(HERE);
  });
});

describe('a policy', () => {
  const scenario = { ...CALM, prefillDp: [2], prefillInstances: 2, decodeInstances: 2 };
  const answering = (choose: ChoicePolicy['choose']): ChoicePolicy => ({ ...IN_TURN, name: 'mine', choose });
  const bad = (answer: unknown) => answering(() => answer as never);

  test.each([
    ['nothing', bad(undefined), 'I6', 'chose-no-engine'],
    ['NaN', bad(Number.NaN), 'I6', 'chose-no-engine'],
    ['a number', bad(0), 'I6', 'chose-no-engine'],
    ['an engine that there is not', bad({ engine: 99 }), 'I6', 'chose-no-engine'],
    ['no engine although all are up', bad(null), 'I10', 'chose-none'],
    ['a promise', bad(Promise.resolve(null)), 'I7', 'returned-no-answer'],
  ])('that returns %s is named', (_, policy, invariant, breach) => {
    const violation = firstOf(shipped, policy, scenario);
    expect(violation).toMatchObject({
      ...{ invariant, breach, site: 'hook', role: 'proxy', part: 'choose' },
      ids: { hook: 'choose', guest: 'policy "mine"' },
    });
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
    expect(firstOf(shipped, wrong, scenario)).toMatchObject({ breach: 'chose-wrong-role' });
    const deaf = answering((state) => IN_TURN.choose(state, new Set()));
    const crashes = { ...scenario, hazards: { ...NO_HAZARDS, crashes: true } };
    const seen = Array.from({ length: 80 }, (_, seed) => runConnector(memory, crashes, shipped, seed, deaf));
    expect(seen.map(({ violation }) => violation?.breach)).toContain('chose-engine-down');
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
      expect(violation).toMatchObject({ invariant: 'I7', role: 'proxy', part: hook, breach: 'threw' });
      expect(violation!.ids['thrown']).toMatch(/^(Error: )?planted$/);
      expect(violation!.stack![0]).toMatch(HERE);
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

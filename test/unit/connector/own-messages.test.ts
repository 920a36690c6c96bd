import { describe, expect, test } from 'vitest';
import type { Connector } from '../../../src/connector/plug.ts';
import { shipped } from '../../../src/connector/shipped/index.ts';
import { FORMS } from '../../../src/connector/shipped/messages.ts';
import { runSeed } from '../../../src/explore/run.ts';
import { NO_HAZARDS } from '../../../src/faults/hazards.ts';
import { MESSAGE_FAULTS } from '../../../src/faults/message-faults.ts';
import { IN_TURN } from '../../../src/proxy/choose.ts';
import { EVERYTHING, timeline } from '../../../src/report/timeline.ts';
import type { Scenario } from '../../../src/sim/scenario.ts';
import { SHIPPED_MIX } from '../../../src/zoo/shipped.ts';
import { newMemory } from '../../helpers/world.ts';

// What a connector sends is its own affair: a table describes it, and without one it goes as it is.

const memory = newMemory();
const CALM: Scenario = { ...SHIPPED_MIX, hazards: NO_HAZARDS, mode: 'write' };
const DAMAGED: Scenario = { ...CALM, hazards: { ...NO_HAZARDS, corruption: true } };

const { messages: _, ...bare } = shipped;
const untold: Connector = { ...bare, name: 'untold' };

function run(connector: Connector, scenario: Scenario, seed: number) {
  return runSeed(memory, scenario, seed, { parts: () => ({ connector, policy: IN_TURN }), record: true })
    .result;
}

describe('a connector without a table of its messages', () => {
  test('is served and told by the fields of what it sends', () => {
    const { violation, record } = run(untold, CALM, 1);
    expect(violation).toBeNull();
    const lines = timeline(record, EVERYTHING).join('\n');
    expect(lines).toMatch(/sends to P0\.r0: grant \{transfer 1, grant \d+, blocks [\d ]+, epoch 0/);
    expect(timeline(run(shipped, CALM, 1).record, EVERYTHING).join('\n')).toMatch(
      /sends to P0\.r0: grant \d+ for transfer 1: blocks [\d ]+, slots from 0 below \d+/,
    );
  });

  test('survives damage of its messages as one with a table does', () => {
    let refused = 0;
    for (let seed = 0; seed < 80; seed++) {
      const { violation, goals } = run(untold, DAMAGED, seed);
      expect([seed, violation]).toEqual([seed, null]);
      refused += goals.get('message-refused') ?? 0;
    }
    expect(refused).toBeGreaterThan(20);
  });
});

test('damage changes one byte of what is sent in bytes, keeps its socket, and leaves nothing as it is', () => {
  const { harm } = MESSAGE_FAULTS.find(({ name }) => name === 'corruption')!;
  const bytes = Uint8Array.of(1, 2, 3);
  expect(harm!({ kind: 'bytes', port: 'handshake', bytes }, 4, FORMS)).toEqual({
    kind: 'bytes',
    port: 'handshake',
    bytes: Uint8Array.of(1, 2 ^ 0x55, 3),
  });
  expect(bytes).toEqual(Uint8Array.of(1, 2, 3));
  const empty = { kind: 'bytes', port: 'notify', bytes: new Uint8Array(0) } as const;
  expect(harm!(empty, 4, FORMS)).toEqual(empty);
});

test.each([
  ['a list', [], 'is no object'],
  ['a name with a blank', { 'a b': { fields: {} } }, 'has a row "a b"'],
  ['a row without fields', { ask: {} }, 'has a row "ask"'],
  ['a field that is no function', { ask: { fields: { transfer: 'index' } } }, 'has a row "ask"'],
  ['words that are no text', { ask: { fields: {}, says: () => 'x' } }, 'has a row "ask"'],
  [
    'a thousand rows',
    Object.fromEntries([...new Array(1000).keys()].map((at) => [at, { fields: {} }])),
    '1000 rows',
  ],
])('a table that is none is refused before anything runs: %s', (_, messages, says) => {
  const odd = { ...shipped, messages } as unknown as Connector;
  expect(() => run(odd, CALM, 1)).toThrow(
    expect.objectContaining({ code: 'PARTS', message: expect.stringContaining(says) }),
  );
});

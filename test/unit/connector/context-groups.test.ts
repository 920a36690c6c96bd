import { expect, test } from 'vitest';
import { type ContextView, WHOLE_CONTEXT } from '../../../src/base/cache-view.ts';
import { onMetaReply } from '../../../src/connector/shipped/session.ts';
import { emptyMemoryDesc, packEngineDesc, packMemoryDesc } from '../../../src/io/descriptors.ts';
import { type LayerView, layView } from '../../../src/kv/view.ts';
import type { Effect } from '../../../src/wire/machine.ts';

function viewsOf(context: ContextView): LayerView[] {
  const shape = { blockCount: 4, blockUnits: 4, unitTokens: 1, cellBytes: 16, headFirst: 0, headCount: 1 };
  return [layView(0, 0, { ...shape, order: 'BKNH', context })];
}

/** Why a rank with these caches refuses a peer with those, or '' when it connects. */
function causeOf(own: ContextView, theirs: ContextView): object[] {
  const state = {
    env: {
      topology: {
        actors: [{ name: 'P0', engine: 0, tpRank: 0 }],
        engines: [{ engine: 0, role: 'prefill', ranks: [0] }],
      },
      heads: 1,
      blockTokens: 4,
      views: viewsOf(own),
      queuePairs: 1,
    },
    sessions: new Map([[0, { peer: 0, phase: 'Asking', attempt: 0 }]]),
  };
  const engine = { key: 'P0', nodeId: '', hostname: 'P0', host: '127.0.0.1', port: 1, pid: 1 };
  const message = {
    kind: 'peer',
    name: 'metaReply',
    attempt: 0,
    epoch: 0,
    engineDesc: packEngineDesc(engine),
    memoryDesc: packMemoryDesc({ ...emptyMemoryDesc(), engineKey: 'P0', size: 4096n }),
    geometry: { engine: 0, role: 'prefill', tpRank: 0, tpSize: 1, blockTokens: 4, views: viewsOf(theirs) },
  };
  const effects: Effect[] = [];
  const user = { sessionReady: () => {}, sessionFailed: () => {}, runsEnded: () => {} };
  const turn = { state: state as never, user, at: 0, emit: (effect: Effect) => void effects.push(effect) };
  onMetaReply(turn, 0 as never, message as never);
  const refusals = effects.flatMap((effect) =>
    effect.kind === 'note' && effect.note.kind === 'refused' ? [effect.note] : [],
  );
  expect(effects.some(({ kind }) => kind === 'connect')).toBe(refusals.length === 0);
  return refusals;
}

test('a connector that pairs ranks by heads alone refuses who holds a share of the tokens, and nobody else', () => {
  const split = (ours: number, theirs: number) => ({
    ...{ reason: 'tokens-are-split', fields: { ours, theirs } },
  });
  const half = { ranks: 2, rank: 1, interleaveUnits: 1 };
  expect(causeOf(WHOLE_CONTEXT, WHOLE_CONTEXT)).toEqual([]);
  expect(causeOf(WHOLE_CONTEXT, half)).toMatchObject([split(1, 2)]);
  expect(causeOf(half, WHOLE_CONTEXT)).toMatchObject([split(2, 1)]);
  expect(causeOf(half, half)).toMatchObject([split(2, 2)]);
});

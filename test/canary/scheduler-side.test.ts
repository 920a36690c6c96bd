import type { Connector } from '../../src/connector/plug.ts';
import { shipped } from '../../src/connector/shipped/index.ts';
import type { LoadOrder, ShippedMeta } from '../../src/connector/shipped/state.ts';
import { IN_TURN } from '../../src/proxy/choose.ts';
import { SHIPPED_MIX } from '../../src/zoo/shipped.ts';
import { type Canary, expectFound } from './canary.ts';
import { plantInScheduler } from './plant.ts';

/** Changes the load orders of D's scheduler. */
function plantInLoads(change: (load: LoadOrder) => LoadOrder): Connector {
  return plantInScheduler((inner) => ({
    buildConnectorMeta(items, view) {
      const meta = inner.buildConnectorMeta(items, view) as ShippedMeta | null;
      return meta === null ? null : { ...meta, loads: meta.loads.map(change) };
    },
  }));
}

/** Bugs of the scheduler side and of the proxy's choice. */
const CANARIES: readonly Canary[] = [
  {
    bug: 'an aborted request frees its blocks at once, with operations on the way',
    connector: plantInScheduler((inner) => ({
      requestAborted(view) {
        inner.requestAborted(view);
        return false;
      },
    })),
    found: ['I1'],
    seedsMax: 200,
  },
  {
    bug: 'an aborted request frees its blocks and its ranks are not told',
    connector: plantInScheduler(() => ({ requestAborted: () => false })),
    found: ['I1', 'I3'],
    seedsMax: 200,
  },
  {
    bug: 'a finished prefill frees its blocks although D has not read them',
    connector: plantInScheduler((inner) => ({
      requestFinished: (view) => ({ ...inner.requestFinished(view), keepBlocks: false }),
    })),
    found: ['I1', 'I4'],
    seedsMax: 50,
  },
  {
    bug: 'a forgotten request stays in the tables of the scheduler',
    connector: plantInScheduler(() => ({ requestForgotten: () => {} })),
    found: ['I3'],
    seedsMax: 20,
  },
  {
    bug: 'a load leaves out its first token',
    connector: plantInLoads((load) => ({ ...load, tokenFrom: Math.min(load.tokenFrom + 1, load.tokenTo) })),
    found: ['I4', 'I10', 'I2'],
    seedsMax: 20,
  },
  {
    bug: 'a READ load leaves out its last token',
    connector: plantInLoads((load) => ({ ...load, tokenTo: Math.max(load.tokenFrom, load.tokenTo - 1) })),
    found: ['I4', 'I10', 'I2'],
    seedsMax: 20,
    scenario: { ...SHIPPED_MIX, mode: 'read' },
  },
  {
    bug: 'D announces one token more than P has',
    connector: plantInScheduler((inner) => ({
      getNumNewMatchedTokens(view, computed) {
        const { tokens, async } = inner.getNumNewMatchedTokens(view, computed);
        return { tokens: tokens > 0 ? tokens + 1 : 0, async };
      },
    })),
    found: ['I2', 'I3', 'I4', 'I7', 'I10', 'I1'],
    seedsMax: 20,
  },
  {
    bug: 'the proxy always takes the first DP rank',
    connector: shipped,
    policy: {
      ...IN_TURN,
      choose(state, down) {
        for (const instance of state.instances) instance.nextDpRank = 0;
        return IN_TURN.choose(state, down);
      },
    },
    found: ['I6'],
    seedsMax: 100,
    scenario: { ...SHIPPED_MIX, prefillDp: [2] },
  },
];

expectFound(CANARIES);

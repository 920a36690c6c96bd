import { describe, expect, test } from 'vitest';
import { BrokenBelief } from '../../src/base/failure.ts';
import type { Connector, Finished } from '../../src/connector/plug.ts';
import { shipped } from '../../src/connector/shipped/index.ts';
import { type LoadOrder, type ShippedMeta, TIMER } from '../../src/connector/shipped/state.ts';
import { StatusCode } from '../../src/io/codes.ts';
import type { InvariantId } from '../../src/oracle/verdict.ts';
import { type Scenario, SHIPPED_MIX } from '../../src/sim/scenario.ts';
import type { Emit } from '../../src/wire/machine.ts';
import { NO_HAZARDS, newMemory, runConnector } from '../helpers/world.ts';
import { plantInBatches, plantInEffects, plantInMessages, plantInScheduler, plantInWorker } from './plant.ts';

// Bugs planted in the shipped connector. Each is one that somebody could make; the judges must find it.

const memory = newMemory();
const NO_BLOCKS = { ...SHIPPED_MIX, hazards: NO_HAZARDS };

interface Canary {
  readonly bug: string;
  readonly connector: Connector;
  /** Any of these may be seen first. */
  readonly found: readonly InvariantId[];
  readonly seedsMax: number;
  readonly scenario?: Scenario;
}

/** Changes the load orders of D's scheduler. */
function plantInLoads(change: (load: LoadOrder) => LoadOrder): Connector {
  return plantInScheduler((inner) => ({
    buildConnectorMeta(items, view) {
      const meta = inner.buildConnectorMeta(items, view) as ShippedMeta | null;
      return meta === null ? null : { ...meta, loads: meta.loads.map(change) };
    },
  }));
}

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
    bug: 'every second received transfer is not reported',
    connector: plantInWorker((inner) => {
      let seen = 0;
      return {
        getFinished() {
          const finished = inner.getFinished();
          return finished && { ...finished, received: finished.received.filter(() => ++seen % 2 === 1) };
        },
      };
    }),
    found: ['I2'],
    seedsMax: 100,
  },
  {
    bug: 'every end of a sent transfer is swallowed',
    connector: plantInWorker((inner) => ({
      getFinished() {
        const finished = inner.getFinished();
        return finished && { ...finished, sent: [] };
      },
    })),
    found: ['I2', 'I3'],
    seedsMax: 20,
  },
  {
    bug: 'a load is noted as there when it starts',
    connector: plantInWorker((inner) => ({
      startLoadKv(meta, at, emit) {
        for (const load of (meta as ShippedMeta | null)?.loads ?? []) {
          const { request, transfer, blocks, tokenTo, lineageAddress } = load;
          emit({
            kind: 'note',
            note: { kind: 'loaded', request, transfer, blocks, tokenTo, lineageAddress },
          });
        }
        return inner.startLoadKv(meta, at, emit);
      },
    })),
    found: ['I10'],
    seedsMax: 20,
  },
  {
    bug: 'a load is reported to the scheduler when it starts, without a note',
    connector: plantInWorker((inner) => {
      let early: number[] = [];
      return {
        startLoadKv(meta, at, emit) {
          for (const load of (meta as ShippedMeta | null)?.loads ?? [])
            if (load.tokenFrom < load.tokenTo) early.push(load.request);
          return inner.startLoadKv(meta, at, emit);
        },
        getFinished() {
          const finished = inner.getFinished();
          if (early.length === 0) return finished;
          const received = [...early, ...(finished?.received ?? [])];
          early = [];
          return { sent: finished?.sent ?? [], failed: finished?.failed ?? [], received };
        },
      };
    }),
    found: ['I4', 'I10', 'I1', 'I5'],
    seedsMax: 20,
  },
  {
    bug: 'a failed load is reported as received',
    connector: plantInWorker((inner) => ({
      getFinished() {
        const finished = inner.getFinished();
        return (
          finished && {
            sent: finished.sent,
            failed: [],
            received: [...finished.received, ...finished.failed],
          }
        );
      },
    })),
    found: ['I4', 'I10'],
    seedsMax: 300,
  },
  {
    bug: 'a received load is reported as failed for no reason',
    connector: plantInWorker((inner) => ({
      getFinished() {
        const finished = inner.getFinished();
        return (
          finished && {
            sent: finished.sent,
            received: [],
            failed: [...finished.received, ...finished.failed],
          }
        );
      },
    })),
    found: ['I10'],
    seedsMax: 100,
    scenario: NO_BLOCKS,
  },
  {
    bug: 'the same end of a transfer is reported twice, once more at the next call',
    connector: plantInWorker((inner) => {
      let last: Finished | null = null;
      return {
        getFinished() {
          const again = last;
          last = inner.getFinished();
          return last ?? again;
        },
      };
    }),
    found: ['I5'],
    seedsMax: 100,
  },
  {
    bug: 'the same end of a transfer is reported twice at once',
    connector: plantInWorker((inner) => ({
      getFinished() {
        const finished = inner.getFinished();
        if (finished === null) return null;
        const twice = (list: readonly number[]): number[] => list.flatMap((request) => [request, request]);
        return {
          sent: twice(finished.sent),
          received: twice(finished.received),
          failed: twice(finished.failed),
        };
      },
    })),
    found: ['I5'],
    seedsMax: 100,
  },
  {
    bug: 'grants go to a rank of another prefill instance',
    connector: plantInMessages((message, to, { topology }) => {
      if (message.kind !== 'grant') return { to, message };
      const wrong = topology.engines.find(
        ({ role, engine }) => role === 'prefill' && engine !== topology.actors[to]!.engine,
      );
      return { to: wrong?.ranks[0] ?? to, message };
    }),
    found: ['I6'],
    seedsMax: 20,
  },
  {
    bug: 'writes go to the first decode instance, whoever was chosen',
    connector: plantInBatches((batch, { topology }) => {
      const first = topology.engines.find(({ role }) => role === 'decode')!;
      return batch.operation === 'write' && first.ranks.length === 1
        ? { ...batch, peer: first.ranks[0]! }
        : batch;
    }),
    found: ['I6', 'I1'],
    seedsMax: 50,
  },
  {
    bug: 'odd bytes end the listener',
    connector: plantInWorker((inner) => ({
      step(at, input, emit) {
        if (input.kind === 'message' && input.message.kind === 'bytes')
          throw new SyntaxError('unexpected byte');
        inner.step(at, input, emit);
      },
    })),
    found: ['I7'],
    seedsMax: 50,
  },
  {
    bug: 'claims and seals are never repeated',
    connector: plantInEffects(() => (effect, pass) => {
      if (effect.kind !== 'arm' || effect.timer !== TIMER.haulRetry) pass(effect);
    }),
    found: ['I2', 'I3'],
    seedsMax: 200,
  },
  {
    bug: 'grants and revokes are never repeated',
    connector: plantInEffects(() => (effect, pass) => {
      if (effect.kind !== 'arm' || effect.timer !== TIMER.leaseRetry) pass(effect);
    }),
    found: ['I2', 'I3'],
    seedsMax: 500,
  },
  {
    bug: 'the handshake has no time limit',
    connector: plantInEffects(() => (effect, pass) => {
      if (effect.kind !== 'arm' || effect.timer !== TIMER.handshake) pass(effect);
    }),
    found: ['I2', 'I3', 'I9'],
    seedsMax: 500,
  },
  {
    bug: 'a lease has no end',
    connector: plantInEffects(() => (effect, pass) => {
      if (effect.kind !== 'arm' || effect.timer !== TIMER.leaseDeadline) pass(effect);
    }),
    found: ['I2', 'I3'],
    seedsMax: 1000,
  },
  {
    bug: 'early grants and claims never expire',
    connector: plantInEffects(() => (effect, pass) => {
      if (effect.kind !== 'arm' || effect.timer !== TIMER.early) pass(effect);
    }),
    found: ['I3'],
    seedsMax: 1000,
  },
  {
    bug: 'the last layer is not saved',
    connector: plantInWorker((inner, env) => ({
      saveKvLayer: (layer, at, emit) =>
        layer === env.views.length - 1 ? 'done' : inner.saveKvLayer(layer, at, emit),
    })),
    found: ['I2', 'I3', 'I4', 'I10'],
    seedsMax: 20,
  },
  {
    bug: 'a layer is saved before it is computed',
    connector: plantInWorker((inner) => ({
      waitForLayerLoad(layer, at, emit) {
        inner.saveKvLayer(layer, at, emit);
        return inner.waitForLayerLoad(layer, at, emit);
      },
    })),
    found: ['I4', 'I10'],
    seedsMax: 200,
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
    bug: 'remote offsets are one cell too high',
    connector: plantInBatches((batch, { views }) => {
      const { cellBytes } = views[batch.layer]!;
      return {
        ...batch,
        runs: batch.runs.map((value, index) => (index % 3 === 1 ? value + cellBytes : value)),
      };
    }),
    found: ['I4', 'I10', 'I1'],
    seedsMax: 20,
  },
  {
    bug: 'remote offsets are one block too low',
    connector: plantInBatches((batch, { views }) => {
      const { blockStride } = views[batch.layer]!;
      return {
        ...batch,
        runs: batch.runs.map((value, index) => (index % 3 === 1 ? Math.max(0, value - blockStride) : value)),
      };
    }),
    found: ['I4', 'I10', 'I1'],
    seedsMax: 20,
  },
  {
    bug: 'the last run of every batch is lost',
    connector: plantInBatches((batch) =>
      batch.runs.length > 3 ? { ...batch, runs: batch.runs.slice(0, -3) } : batch,
    ),
    found: ['I4', 'I10'],
    seedsMax: 50,
  },
  {
    bug: 'a batch is taken for complete when it is posted',
    connector: plantInWorker((inner) => {
      const through = (at: number, emit: Emit): Emit => {
        const eager: Emit = (effect) => {
          emit(effect);
          if (effect.kind === 'post') pending.push(effect.batch.tag);
        };
        const pending: number[] = [];
        later.push(() => {
          for (let tag = pending.shift(); tag !== undefined; tag = pending.shift()) {
            inner.step(at, { kind: 'completion', tag, code: StatusCode.SUCCESS }, eager);
          }
        });
        return eager;
      };
      let later: (() => void)[] = [];
      const flush = (): void => {
        const due = later;
        later = [];
        for (const run of due) run();
      };
      return {
        startLoadKv(meta, at, emit) {
          const progress = inner.startLoadKv(meta, at, through(at, emit));
          flush();
          return progress;
        },
        saveKvLayer(layer, at, emit) {
          const progress = inner.saveKvLayer(layer, at, through(at, emit));
          flush();
          return progress;
        },
        step(at, input, emit) {
          inner.step(at, input, through(at, emit));
          flush();
        },
      };
    }),
    found: ['I1', 'I4', 'I10'],
    seedsMax: 50,
  },
  {
    bug: 'a failed completion counts as a good one',
    connector: plantInWorker((inner) => ({
      step(at, input, emit) {
        inner.step(at, input.kind === 'completion' ? { ...input, code: StatusCode.SUCCESS } : input, emit);
      },
    })),
    found: ['I4', 'I10'],
    seedsMax: 1500,
  },
  {
    bug: 'a silent peer is not fenced before its blocks go back',
    connector: plantInEffects(() => (effect, pass) => {
      if (effect.kind !== 'fence') pass(effect);
    }),
    found: ['I1'],
    seedsMax: 3000,
  },
  {
    bug: 'a seal claims success whatever happened',
    connector: plantInMessages((message, to) => ({
      to,
      message: message.kind === 'seal' ? { ...message, ok: true } : message,
    })),
    found: ['I4', 'I10'],
    seedsMax: 300,
  },
  {
    bug: 'seals are never acknowledged',
    connector: plantInMessages((message, to) => (message.kind === 'sealAck' ? null : { to, message })),
    found: ['I2', 'I3'],
    seedsMax: 300,
  },
  {
    bug: 'a rank waits for its layer for ever',
    connector: plantInWorker((_, env) => ({
      waitForLayerLoad: () => (env.spec.role === 'decode' ? 'again' : 'done'),
    })),
    found: ['I9', 'I2'],
    seedsMax: 20,
  },
];

/** The first seed that shows a violation, and which; null when none does. */
function firstFinding({
  connector,
  scenario = SHIPPED_MIX,
  seedsMax,
}: Canary): { seed: number; invariant: InvariantId; detail: string } | null {
  for (let seed = 0; seed < seedsMax; seed++) {
    const { violation } = runConnector(memory, scenario, connector, seed);
    if (violation !== null)
      return { seed, invariant: violation.invariant, detail: `${violation.place}: ${violation.detail}` };
  }
  return null;
}

describe('a planted bug is found:', () => {
  test.each(CANARIES)('$bug', (canary) => {
    const finding = firstFinding(canary);
    if (process.env['CANARY_SAY'] !== undefined)
      process.stderr.write(`${canary.bug} => ${JSON.stringify(finding)}\n`);
    expect(finding).not.toBeNull();
    expect(canary.found).toContain(finding!.invariant);
  });
});

describe('without a planted bug', () => {
  test('the same wraps and the same schedules find nothing', () => {
    const wraps: readonly Connector[] = [
      shipped,
      plantInScheduler(() => ({})),
      plantInWorker(() => ({})),
      plantInEffects(() => (effect, pass) => pass(effect)),
      plantInBatches((batch) => batch),
      plantInMessages((message, to) => ({ message, to })),
      plantInLoads((load) => load),
    ];
    const digests = new Set<string>();
    for (let seed = 0; seed < 100; seed++) {
      const results = wraps.map((connector) => runConnector(memory, SHIPPED_MIX, connector, seed));
      expect(results.map(({ violation }) => violation)).toEqual(wraps.map(() => null));
      expect(new Set(results.map(({ digest }) => digest)).size).toBe(1);
      digests.add(results[0]!.digest);
    }
    expect(digests.size).toBeGreaterThan(95);
  });
});

test('a broken belief of the harness is never taken for a bug of the connector', () => {
  const connector = plantInWorker(() => ({
    startLoadKv: () => {
      throw new BrokenBelief('INV-TEST-1', 'x');
    },
  }));
  expect(() => runConnector(memory, NO_BLOCKS, connector, 1)).toThrow('INV-TEST-1');
});

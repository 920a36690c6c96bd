import type { Finished } from '../../src/connector/plug.ts';
import type { ShippedMeta } from '../../src/connector/shipped/state.ts';
import { NO_HAZARDS } from '../../src/faults/hazards.ts';
import { StatusCode } from '../../src/io/codes.ts';
import type { Emit } from '../../src/wire/machine.ts';
import { SHIPPED_MIX } from '../../src/zoo/shipped.ts';
import { type Canary, expectFound } from './canary.ts';
import { plantInWorker } from './plant.ts';

const NO_BLOCKS = { ...SHIPPED_MIX, hazards: NO_HAZARDS };

/** Bugs of the worker side: what it does, and what it says it did. */
const CANARIES: readonly Canary[] = [
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
    bug: 'the last layer is not saved',
    connector: plantInWorker((inner, env) => ({
      saveKvLayer: (layer, at, emit) =>
        layer === env.views.length - 1 ? 'done' : inner.saveKvLayer(layer, at, emit),
    })),
    found: ['I2', 'I3', 'I4', 'I10'],
    seedsMax: 20,
  },
  {
    bug: 'all layers are saved with the first',
    connector: plantInWorker((inner, env) => ({
      saveKvLayer(layer, at, emit) {
        if (layer === 0)
          for (let each = 0; each < env.views.length; each++) inner.saveKvLayer(each, at, emit);
        return 'done';
      },
    })),
    found: ['I4', 'I10'],
    seedsMax: 200,
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
    bug: 'a rank waits for its layer for ever',
    connector: plantInWorker((_, env) => ({
      waitForLayerLoad: () => (env.spec.role === 'decode' ? 'again' : 'done'),
    })),
    found: ['I9', 'I2'],
    seedsMax: 20,
  },
];

expectFound(CANARIES);

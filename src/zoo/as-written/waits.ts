import type { Wait } from '../../wire/machine.ts';
import type { WorkerState } from './state.ts';

/** What this rank waits for, as edges of the waits-for graph. A listener that has nothing to do waits for nothing. */
export function waitsOf(state: WorkerState): Wait[] {
  return [
    ...mainWaits(state),
    ...lockWaits(state),
    ...writeWaits(state),
    ...handshakeWaits(state),
    ...awaitedWaits(state),
  ];
}

/** While the main thread waits, the forward pass stands still, so its wait comes first. */
function mainWaits(state: WorkerState): Wait[] {
  if (state.mainWaits === null) return [];
  return [{ who: state.env.self, ...state.mainWaits }];
}

function lockWaits(state: WorkerState): Wait[] {
  const { self } = state.env;
  const locks = [
    { lock: state.handshakeLock, name: 'handshake-lock' },
    { lock: state.startLock, name: 'write-worker-start-lock' },
  ];
  const contended = locks.filter(({ lock }) => lock.freed.waiting.length > 0);
  return contended.map(({ lock, name }) => ({
    who: self,
    what: name,
    fields: { holder: lock.holder },
    whom: self,
  }));
}

/** The write worker's transfers: what is missing for each, in the order in which it would come. */
function writeWaits(state: WorkerState): Wait[] {
  const who = state.env.self;
  const waits: Wait[] = [];
  for (const { save, layer } of state.deferred) {
    if (state.remoteBlocks.has(save.transfer)) continue;
    const { scheduler } = state.env.topology.engines[save.remoteEngine]!;
    waits.push({ who, what: 'blocks', fields: { transfer: save.transfer, layer }, whom: scheduler });
  }
  for (const [transfer, count] of state.layersDone) {
    waits.push({
      who,
      what: 'layer-count',
      fields: { transfer, count, layers: state.views.length, writeWorkers: state.writeWorkers },
      whom: -1,
    });
  }
  for (const [tag, peer] of state.inFlight)
    waits.push({ who, what: 'batch-status', fields: { tag }, whom: peer });
  for (const transfer of state.remoteBlocks.keys()) {
    if (!state.layersDone.has(transfer))
      waits.push({ who, what: 'write-task', fields: { transfer }, whom: -1 });
  }
  return waits;
}

function handshakeWaits(state: WorkerState): Wait[] {
  const { self } = state.env;
  if (state.asking < 0) return [];
  return [
    {
      who: self,
      what: 'handshake-reply',
      fields: {},
      whom: state.asking,
    },
  ];
}

/** WRITE, D: transfers that some rank of P has not completed. */
function awaitedWaits(state: WorkerState): Wait[] {
  const who = state.env.self;
  const waits: Wait[] = [];
  for (const [transfer, { sources }] of state.awaited) {
    const completedBy = state.completedBy.get(transfer) ?? [];
    for (const source of sources) {
      if (!completedBy.includes(source))
        waits.push({ who, what: 'completion', fields: { transfer }, whom: source });
    }
  }
  return waits;
}

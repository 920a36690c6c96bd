import type { MoveTable } from '../base/moves.ts';

export type RequestPhase = 'waiting' | 'loading' | 'running' | 'ended';
export type RequestTrigger = 'Scheduled' | 'LoadBegun' | 'LoadEnded' | 'Preempted' | 'Finished' | 'Aborted';

export const REQUEST_MOVES: MoveTable<RequestPhase, RequestTrigger> = {
  title: 'Request: the scheduler, one record for each leg',
  triggers: {
    Scheduled: 'the batch has room for it and the pool has its blocks',
    LoadBegun: 'the connector will load tokens while other requests run',
    LoadEnded: 'each rank has reported the end of the load, well or not',
    Preempted: 'an older request needs its blocks',
    Finished: 'its last token is there',
    Aborted: 'the proxy says that nobody waits for it any more',
  },
  moves: {
    waiting: { Scheduled: 'running', LoadBegun: 'loading', Aborted: 'ended' },
    loading: { LoadEnded: 'waiting', Aborted: 'ended' },
    running: { Preempted: 'waiting', Finished: 'ended', Aborted: 'ended' },
    /** Its blocks may stay held, until each rank has reported that nobody reads them any more. */
    ended: {},
  },
};

export type ForwardPhase = 'load' | 'layerLoad' | 'layerSave' | 'flush';
export type ForwardTrigger = 'LoadsStarted' | 'LayersRun' | 'LayersSaved' | 'AllSaved';

export const FORWARD_MOVES: MoveTable<ForwardPhase, ForwardTrigger> = {
  title: 'Forward pass: a rank, one for each step',
  triggers: {
    LoadsStarted: '`startLoadKv` is done and the step has requests',
    LayersRun: '`waitForLayerLoad` is done for the next layers, and they are computed',
    LayersSaved: '`saveKvLayer` is done for them, and others follow',
    AllSaved: '`saveKvLayer` is done for the last layer',
  },
  moves: {
    load: { LoadsStarted: 'layerLoad' },
    layerLoad: { LayersRun: 'layerSave' },
    layerSave: { LayersSaved: 'layerLoad', AllSaved: 'flush' },
    /** Ends with `waitForSave`. */
    flush: {},
  },
};

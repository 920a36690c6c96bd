import type { ActorId } from '../../base/topology.ts';
import { planUnits } from '../../kv/plan.ts';
import { needHandshake } from './handshake.ts';
import { endIfComplete } from './notify.ts';
import { peersAt, post, remoteName, remoteOf } from './sessions.ts';
import { type LoadOrder, log, nameOf, type WorkerState } from './state.ts';
import type { Routine } from './threads.ts';
import { releaseBytes } from './wire.ts';

/** D, main thread: what happens before the forward pass. */

/** WRITE: P pushes. D remembers what it waits for; completions may be here already. */
export function awaitWrites(state: WorkerState, loads: readonly LoadOrder[]): void {
  const { engines } = state.env.topology;
  for (const { request, transfer, remoteEngine } of loads) {
    state.awaited.set(transfer, { request, sources: peersAt(state, engines[remoteEngine]!) });
    endIfComplete(state, transfer);
  }
}

/** READ: handshakes if needed, reads all layers of all requests, waits, and releases P's blocks. */
export function* readAll(state: WorkerState, loads: readonly LoadOrder[]): Routine {
  for (const load of loads) yield* needHandshake(state, load.remoteEngine);
  for (const load of loads) yield* waitForHandshake(state, load);
  const lastLayers = loads.map((load) => postReads(state, load));
  for (const [index, load] of loads.entries()) {
    yield* waitForBatches(state, lastLayers[index]!, load);
    releaseRemote(state, load);
  }
  state.mainWaits = null;
}

function* waitForHandshake(state: WorkerState, load: LoadOrder): Routine {
  const remote = remoteOf(state, load.remoteEngine);
  while (!state.readyFlags.has(remote)) {
    state.mainWaits = {
      ...{ what: 'handshake', fields: { remote: remoteName(state, remote) } },
      whom: state.asking,
    };
    yield state.handshakeEnded;
  }
}

/** Posts every layer towards every rank that holds a share; gives the batches of the last layer. */
function postReads(state: WorkerState, load: LoadOrder): number[] {
  if (load.tokenFrom >= load.tokenTo) return [];
  const lastLayer: number[] = [];
  for (const peer of peersAt(state, state.env.topology.engines[load.remoteEngine]!)) {
    for (let layer = 0; layer < state.views.length; layer++) {
      const tag = postRead(state, load, peer, layer);
      if (layer === state.views.length - 1) lastLayer.push(tag);
    }
  }
  return lastLayer;
}

function postRead(state: WorkerState, load: LoadOrder, peer: ActorId, layer: number): number {
  const { request, transfer, blocks, remoteBlocks, tokenFrom, tokenTo } = load;
  const local = state.views[layer]!;
  const remote = state.peers.get(peer)!.views[layer]!;
  const runs: number[] = [];
  planUnits(
    { layer: local, blocks, firstUnit: 0 },
    { layer: remote, blocks: remoteBlocks, firstUnit: 0 },
    { from: tokenFrom, to: tokenTo },
    runs,
  );
  const from = Math.floor(tokenFrom / local.blockUnits);
  const to = Math.ceil(tokenTo / local.blockUnits);
  return post(state, {
    peer,
    operation: 'read',
    transfer,
    request,
    layer,
    runs,
    localBlocks: blocks.slice(from, to),
    remoteBlocks: remoteBlocks.slice(from, to),
  });
}

/** One queue pair keeps its order, so the last layer's status stands for all. */
function* waitForBatches(state: WorkerState, tags: readonly number[], load: LoadOrder): Routine {
  for (const tag of tags) {
    for (let peer = state.inFlight.get(tag); peer !== undefined; peer = state.inFlight.get(tag)) {
      state.mainWaits = { what: 'reads', fields: { transfer: load.transfer }, whom: peer };
      yield state.batchEnded;
    }
  }
}

/** Every rank of P keeps the blocks until D's word has come, also one that D read nothing from. */
function releaseRemote(state: WorkerState, { request, remoteEngine }: LoadOrder): void {
  for (const rank of state.env.topology.engines[remoteEngine]!.ranks) {
    log(state, 'request-loaded', { request, releases: nameOf(state, rank) });
    state.emit({ kind: 'send', to: rank, message: releaseBytes(request) });
  }
}

import type { ActorId, EngineId, EngineSpec } from '../../base/topology.ts';
import { sourceRanks, targetRanks } from '../../kv/view.ts';
import type { PostedBatch } from '../../wire/machine.ts';
import { log, type RemoteId, type WorkerState } from './state.ts';
import { raise } from './threads.ts';

/** Who the peers are, and the sessions to them. */

/** What the initiator calls the other end: its instance, whichever DP rank of it is meant. */
export function remoteOf(state: WorkerState, engine: EngineId): RemoteId {
  return state.env.topology.engines[engine]!.instance;
}

/** The engines of a remote instance in DP order. */
export function enginesOf(state: WorkerState, remote: RemoteId): EngineSpec[] {
  const { topology, spec } = state.env;
  return topology.engines.filter((engine) => engine.role !== spec.role && engine.instance === remote);
}

export function remoteName(state: WorkerState, remote: RemoteId): string {
  return `${state.env.spec.role === 'prefill' ? 'D' : 'P'}${remote}`;
}

/** The ranks of a remote engine whose heads meet this rank's. */
export function peersAt(state: WorkerState, engine: EngineSpec): ActorId[] {
  const { heads, spec, tpRank } = state.env;
  const own = spec.ranks.length;
  const theirs = engine.ranks.length;
  const ranks =
    spec.role === 'prefill'
      ? targetRanks(heads, own, theirs, tpRank)
      : sourceRanks(heads, theirs, own, tpRank);
  return ranks.map((rank) => engine.ranks[rank]!);
}

/** Posts one batch. The first connector has one queue pair for each peer and no thought of a full send queue. */
export function post(state: WorkerState, batch: Omit<PostedBatch, 'tag' | 'queuePair' | 'part'>): number {
  openSession(state, batch.peer);
  sayWrongSize(state, batch.layer);
  const tag = state.nextTag++;
  state.inFlight.set(tag, batch.peer);
  state.emit({ kind: 'post', batch: { ...batch, tag, queuePair: 0, part: 0 } });
  return tag;
}

function sayWrongSize(state: WorkerState, layer: number): void {
  const recorded = state.views[layer]!.parts[0]!.bytes;
  const real = state.env.views[layer]!.parts[0]!.bytes;
  if (recorded !== real)
    log(state, 'layer-registered-with-last-cells', { layer, recordedBytes: recorded, bytes: real });
}

/** On first use. */
function openSession(state: WorkerState, peer: ActorId): void {
  if (state.connected.has(peer)) return;
  state.connected.add(peer);
  const { engineDesc, memoryDesc } = state.peers.get(peer)!;
  state.emit({ kind: 'connect', peer, engineDesc, memoryDesc });
}

/** A batch has ended; whoever waits for it looks again. */
export function onBatchEnded(state: WorkerState, tag: number, ok: boolean): void {
  state.inFlight.delete(tag);
  raise(state.batchEnded, state.emit);
  if (ok) return;
  const cause = `batch ${tag} failed, for which the first connector has no plan`;
  state.emit({ kind: 'note', note: { kind: 'died', thread: 'completion queue', cause } });
}

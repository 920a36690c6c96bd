import type { TransferId } from '../../base/topology.ts';
import { idleSources, sourceRanks, targetRanks } from '../../kv/view.ts';
import type { Emit } from '../../wire/machine.ts';
import type { Progress } from '../plug.ts';
import { takeEarly } from './early.ts';
import { goal } from './goals.ts';
import { advance, settleHaul, startHaul, stopHaul } from './haul.ts';
import { newHaul, newHaulPeer, newIdlePeer } from './haul-records.ts';
import { newLease, newLeasePeer, revokeLease, startLease } from './lease.ts';
import { applyClaim, applyRelease, revokedByPeer, takeGrant } from './peer-messages.ts';
import type { LendOrder, LoadOrder, SaveOrder, ShippedMeta, WorkerState } from './state.ts';

/** What the scheduler side tells its rank to do, with a step or between steps. */

export function startLoadKv(state: WorkerState, meta: ShippedMeta | null, at: number, emit: Emit): Progress {
  state.saves = meta?.saves ?? [];
  if (meta === null) return 'done';
  for (const lend of meta.lends) onLend(state, lend, at, emit);
  for (const load of meta.loads) onLoad(state, load, at, emit);
  for (const save of meta.saves) if (!state.hauls.has(save.transfer)) onFirstSave(state, save, at, emit);
  for (const transfer of meta.cancels) onCancel(state, transfer, at, emit);
  return 'done';
}

/** D: WRITE lends the blocks to P's ranks, READ claims P's blocks. */
function onLoad(state: WorkerState, load: LoadOrder, at: number, emit: Emit): void {
  const { env } = state;
  const remote = env.topology.engines[load.remoteEngine]!;
  const ranks = sourceRanks(env.heads, remote.ranks.length, env.spec.ranks.length, env.tpRank).map(
    (rank) => remote.ranks[rank]!,
  );
  const from = Math.floor(load.tokenFrom / env.slotTokens);
  const slots = { from, to: Math.max(from, Math.ceil(load.tokenTo / env.slotTokens)) };
  const { transfer, request, blocks, lineageAddress, tokenTo } = load;
  const silent = load.tokenFrom >= load.tokenTo;
  const order = { transfer, request, blocks, lineageAddress, tokenTo, silent };
  if (env.mode === 'write') {
    const peers = ranks.map((rank) => newLeasePeer(state, rank));
    return startLease(state, newLease(order, 'write', slots, peers, ranks.length), at, emit);
  }
  const layers = env.views.length;
  const idle = idleSources(env.heads, remote.ranks.length, env.spec.ranks.length, env.tpRank);
  const peers = [
    ...ranks.map((rank) => newHaulPeer(rank, layers)),
    ...idle.map((rank) => newIdlePeer(remote.ranks[rank]!)),
  ];
  const readyTo = new Array<number>(layers).fill(slots.to);
  startHaul(state, newHaul(order, 'read', slots, readyTo, peers), at, emit);
}

/** P in READ mode: the blocks wait for D's claims. */
function onLend(state: WorkerState, lend: LendOrder, at: number, emit: Emit): void {
  const { transfer, request, blocks, tokenTo } = lend;
  const slots = { from: 0, to: Math.ceil(tokenTo / state.env.slotTokens) };
  const order = { transfer, request, blocks, lineageAddress: 0, tokenTo, silent: false };
  startLease(state, newLease(order, 'read', slots, [], -1), at, emit);
  const early = takeEarly(state, transfer, emit);
  if (early === undefined) return;
  goal(emit, 'claim-before-lease');
  for (const [rank, { claim, release }] of early) {
    if (claim !== null) applyClaim(state, transfer, rank, claim.tpSize, claim.attempt, at, emit);
    if (release !== null) applyRelease(state, transfer, rank, release, at, emit);
  }
}

/** P in WRITE mode: the request's first chunk starts the transfer; grants may already be here. */
function onFirstSave(state: WorkerState, save: SaveOrder, at: number, emit: Emit): void {
  const { env } = state;
  const { transfer, request, blocks } = save;
  const remote = env.topology.engines[save.remoteEngine]!;
  const targets = targetRanks(env.heads, env.spec.ranks.length, remote.ranks.length, env.tpRank);
  const layers = env.views.length;
  const { promptTokens } = save;
  const order = { transfer, request, blocks, lineageAddress: 0, tokenTo: promptTokens, silent: false };
  const slots = { from: 0, to: Math.ceil(promptTokens / env.slotTokens) };
  const peers = targets.map((rank) => newHaulPeer(remote.ranks[rank]!, layers));
  const haul = newHaul(order, 'write', slots, new Array<number>(layers).fill(0), peers);
  startHaul(state, haul, at, emit);
  const early = takeEarly(state, transfer, emit);
  if (early !== undefined) {
    goal(emit, 'grant-before-request');
    for (const [rank, { grant }] of early) if (grant !== null) takeGrant(state, haul, rank, grant, at, emit);
    for (const [rank, { revoked }] of early) if (revoked) revokedByPeer(state, haul, rank, at, emit);
  }
  // A replica of other ranks' heads may have nobody to serve.
  if (haul.peers.length === 0) settleHaul(state, haul, at, emit);
}

function onCancel(state: WorkerState, transfer: TransferId, at: number, emit: Emit): void {
  const haul = state.hauls.get(transfer);
  if (haul !== undefined) {
    haul.final = true;
    stopHaul(state, haul, at, emit);
  }
  const lease = state.leases.get(transfer);
  if (lease !== undefined) revokeLease(state, lease, at, emit);
}

export function saveKvLayer(state: WorkerState, layer: number, at: number, emit: Emit): Progress {
  if (layer === 0 && state.env.spec.role === 'prefill' && state.saves.length === 0) {
    goal(emit, 'empty-save-step');
  }
  for (const save of state.saves) {
    const haul = state.hauls.get(save.transfer);
    if (haul === undefined) continue;
    const whole = save.tokenTo === save.promptTokens;
    haul.readyTo[layer] = whole ? haul.slotTo : Math.floor(save.tokenTo / state.env.slotTokens);
    if (whole && layer === haul.readyTo.length - 1) haul.final = true;
    for (const peer of haul.peers) advance(state, haul, peer, at, emit);
    settleHaul(state, haul, at, emit);
  }
  return 'done';
}

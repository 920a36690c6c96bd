import { filled } from '../../base/lists.ts';
import type { TransferId } from '../../base/topology.ts';
import { idleSources, sourceRanks, targetRanks } from '../../kv/view.ts';
import type { Progress } from '../plug.ts';
import { takeEarly } from './early.ts';
import { goal } from './goals.ts';
import { advance, settleHaul, startHaul, stopHaul } from './haul.ts';
import { newHaul, newHaulPeer, newIdlePeer } from './haul-records.ts';
import { newLease, newLeasePeer, revokeLease, startLease } from './lease.ts';
import { applyClaim, applyRelease, revokedByPeer, takeGrant } from './peer-messages.ts';
import type { LendOrder, LoadOrder, SaveOrder, ShippedMeta, Turn } from './state.ts';

/** What the scheduler side tells its rank to do, with a step or between steps. */

export function startLoadKv(turn: Turn, meta: ShippedMeta | null): Progress {
  const { state } = turn;
  state.saves = meta?.saves ?? [];
  if (meta === null) return 'done';
  for (const lend of meta.lends) onLend(turn, lend);
  for (const load of meta.loads) onLoad(turn, load);
  for (const save of meta.saves) if (!state.hauls.has(save.transfer)) onFirstSave(turn, save);
  for (const transfer of meta.cancels) onCancel(turn, transfer);
  return 'done';
}

/** D: WRITE lends the blocks to P's ranks, READ claims P's blocks. */
function onLoad(turn: Turn, load: LoadOrder): void {
  const { state } = turn;
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
    return startLease(turn, newLease(order, 'write', slots, { peers, peersExpected: ranks.length }));
  }
  const layers = env.views.length;
  const idle = idleSources(env.heads, remote.ranks.length, env.spec.ranks.length, env.tpRank);
  const peers = [
    ...ranks.map((rank) => newHaulPeer(rank, layers)),
    ...idle.map((rank) => newIdlePeer(remote.ranks[rank]!)),
  ];
  const readyTo = new Array<number>(layers).fill(slots.to);
  startHaul(turn, newHaul(order, 'read', slots, { readyTo, peers }));
}

/** P in READ mode: the blocks wait for D's claims. */
function onLend(turn: Turn, lend: LendOrder): void {
  const { state, emit } = turn;
  const { transfer, request, blocks, tokenTo } = lend;
  const slots = { from: 0, to: Math.ceil(tokenTo / state.env.slotTokens) };
  const order = { transfer, request, blocks, lineageAddress: 0, tokenTo, silent: false };
  startLease(turn, newLease(order, 'read', slots, { peers: [], peersExpected: -1 }));
  const early = takeEarly(turn, transfer);
  if (early === undefined) return;
  goal(emit, 'claim-before-lease');
  for (const [rank, { claim, release }] of early) {
    if (claim !== null) applyClaim(turn, rank, { transfer, ...claim });
    if (release !== null) applyRelease(turn, transfer, rank, release);
  }
}

/** P in WRITE mode: the request's first chunk starts the transfer; grants may already be here. */
function onFirstSave(turn: Turn, save: SaveOrder): void {
  const { state, emit } = turn;
  const { env } = state;
  const { transfer, request, blocks } = save;
  const remote = env.topology.engines[save.remoteEngine]!;
  const targets = targetRanks(env.heads, env.spec.ranks.length, remote.ranks.length, env.tpRank);
  const layers = env.views.length;
  const { promptTokens } = save;
  const order = { transfer, request, blocks, lineageAddress: 0, tokenTo: promptTokens, silent: false };
  const slots = { from: 0, to: Math.ceil(promptTokens / env.slotTokens) };
  const peers = targets.map((rank) => newHaulPeer(remote.ranks[rank]!, layers));
  const haul = newHaul(order, 'write', slots, { readyTo: filled(layers, 0), peers });
  startHaul(turn, haul);
  const early = takeEarly(turn, transfer);
  if (early !== undefined) {
    goal(emit, 'grant-before-request');
    for (const [rank, { grant }] of early) if (grant !== null) takeGrant(turn, haul, rank, grant);
    for (const [rank, { revoked }] of early) if (revoked) revokedByPeer(turn, haul, rank);
  }
  // A replica of other ranks' heads may have nobody to serve.
  if (haul.peers.length === 0) settleHaul(turn, haul);
}

function onCancel(turn: Turn, transfer: TransferId): void {
  const { state } = turn;
  const haul = state.hauls.get(transfer);
  if (haul !== undefined) {
    haul.final = true;
    stopHaul(turn, haul);
  }
  const lease = state.leases.get(transfer);
  if (lease !== undefined) revokeLease(turn, lease);
}

export function saveKvLayer(turn: Turn, layer: number): Progress {
  const { state, emit } = turn;
  if (layer === 0 && state.env.spec.role === 'prefill' && state.saves.length === 0) {
    goal(emit, 'empty-save-step');
  }
  for (const save of state.saves) {
    const haul = state.hauls.get(save.transfer);
    if (haul === undefined) continue;
    const whole = save.tokenTo === save.promptTokens;
    haul.readyTo[layer] = whole ? haul.slotTo : Math.floor(save.tokenTo / state.env.slotTokens);
    if (whole && layer === haul.readyTo.length - 1) haul.final = true;
    for (const peer of haul.peers) advance(turn, haul, peer);
    settleHaul(turn, haul);
  }
  return 'done';
}

import type { ActorId, TransferId } from '../../base/topology.ts';
import { sourceRanks, targetRanks } from '../../kv/view.ts';
import type { Emit, Input, Wait } from '../../wire/machine.ts';
import type { Message, PeerMessage } from '../../wire/messages.ts';
import { decodePeerMessage } from '../../wire/peer-codec.ts';
import type { ConnectorWorker, Finished, Progress, WorkerEnv } from '../plug.ts';
import { advance, newHaulPeer, onGrant, onHaulDeadline, onHaulRetry, sessionUser, settleHaul, startHaul, stopHaul } from './haul.ts';
import { newLeasePeer, onClaim, onLeaseDeadline, onLeaseRetry, onSeal, revokeLease, startLease } from './lease.ts';
import { LIMITS } from './limits.ts';
import { describe, isPeerRank, onCompletion, onHandshakeTimer, onMetaReply, type SessionUser } from './session.ts';
import {
  createWorkerState,
  type Early,
  type Grant,
  type Haul,
  type LendOrder,
  type LoadOrder,
  type SaveOrder,
  type ShippedMeta,
  TIMER,
  type WorkerState,
} from './state.ts';
import { waitsOf } from './waits.ts';

/** The worker side of the shipped connector: one rank, both modes, either half of a transfer. */
export function createShippedWorker(env: WorkerEnv): ConnectorWorker {
  const state = createWorkerState(env);
  const user = sessionUser(state);
  return {
    startLoadKv: (meta, at, emit) => startLoadKv(state, meta as ShippedMeta | null, at, emit),
    // Loads are waited for between steps, by the scheduler, so that no rank ever waits for a peer inside a step.
    waitForLayerLoad: () => 'done',
    saveKvLayer: (layer, at, emit) => saveKvLayer(state, layer, at, emit),
    waitForSave: () => 'done',
    getFinished: () => takeFinished(state),
    step: (at, input, emit) => step(state, user, at, input, emit),
    census: () => state.hauls.size + state.leases.size + state.early.size + state.inFlight.size,
    waits: (): Wait[] => waitsOf(state),
  };
}

function startLoadKv(state: WorkerState, meta: ShippedMeta | null, at: number, emit: Emit): Progress {
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
  const ranks = sourceRanks(env.heads, remote.ranks.length, env.spec.ranks.length, env.tpRank).map((rank) => remote.ranks[rank]!);
  const slotFrom = Math.floor(load.tokenFrom / env.slotTokens);
  const slotTo = Math.max(slotFrom, Math.ceil(load.tokenTo / env.slotTokens));
  const { transfer, request, blocks, lineageAddress, tokenTo } = load;
  const common = { transfer, request, blocks, slotFrom, slotTo, lineageAddress, tokenTo, silent: load.tokenFrom >= load.tokenTo };
  if (env.mode === 'write') {
    const peers = ranks.map((rank) => newLeasePeer(state, rank));
    const lease = { ...common, operation: 'write', peers, peersExpected: ranks.length, closing: false, failed: false, attempt: 0 } as const;
    return startLease(state, { ...lease }, at, emit);
  }
  const layers = env.views.length;
  const peers = ranks.map((rank) => newHaulPeer(rank, layers));
  const readyTo = new Array<number>(layers).fill(slotTo);
  startHaul(state, { ...common, operation: 'read', readyTo, peers, rounds: 0, final: true, reported: false, retrying: false }, at, emit);
}

/** P in READ mode: the blocks wait for D's claims. */
function onLend(state: WorkerState, lend: LendOrder, at: number, emit: Emit): void {
  const { transfer, request, blocks, tokenTo } = lend;
  const slotTo = Math.ceil(tokenTo / state.env.slotTokens);
  const common = { transfer, request, blocks, slotFrom: 0, slotTo, tokenTo, lineageAddress: 0, silent: false };
  startLease(state, { ...common, operation: 'read', peers: [], peersExpected: -1, closing: false, failed: false, attempt: 0 }, at, emit);
  const early = takeEarly(state, transfer, emit);
  if (early === undefined) return;
  emit({ kind: 'note', note: { kind: 'goal', name: 'claim-before-lease' } });
  for (const claim of early.claims) applyClaim(state, transfer, claim.rank, claim.tpSize, claim.attempt, at, emit);
}

/** P in WRITE mode: the request's first chunk starts the transfer; grants may already be here. */
function onFirstSave(state: WorkerState, save: SaveOrder, at: number, emit: Emit): void {
  const { env } = state;
  const { transfer, request, blocks } = save;
  const remote = env.topology.engines[save.remoteEngine]!;
  const targets = targetRanks(env.heads, env.spec.ranks.length, remote.ranks.length, env.tpRank);
  const layers = env.views.length;
  const haul: Haul = {
    transfer,
    request,
    operation: 'write',
    blocks,
    slotFrom: 0,
    slotTo: Math.ceil(save.promptTokens / env.slotTokens),
    readyTo: new Array<number>(layers).fill(0),
    peers: targets.map((rank) => newHaulPeer(remote.ranks[rank]!, layers)),
    silent: false,
    lineageAddress: 0,
    tokenTo: save.promptTokens,
    rounds: 0,
    final: false,
    reported: false,
    retrying: false,
  };
  startHaul(state, haul, at, emit);
  const early = takeEarly(state, transfer, emit);
  if (early !== undefined) {
    emit({ kind: 'note', note: { kind: 'goal', name: 'grant-before-request' } });
    for (const { rank, grant } of early.grants) onGrant(state, haul, rank, grant, at, emit);
    for (const rank of early.revoked) revokedByPeer(state, haul, rank, at, emit);
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

function saveKvLayer(state: WorkerState, layer: number, at: number, emit: Emit): Progress {
  if (layer === 0 && state.env.spec.role === 'prefill' && state.saves.length === 0) {
    emit({ kind: 'note', note: { kind: 'goal', name: 'empty-save-step' } });
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

function takeFinished(state: WorkerState): Finished | null {
  if (state.sent.length + state.received.length + state.failed.length === 0) return null;
  const { sent, received, failed } = state;
  state.sent = [];
  state.received = [];
  state.failed = [];
  return { sent, received, failed };
}

function step(state: WorkerState, user: SessionUser, at: number, input: Input, emit: Emit): void {
  switch (input.kind) {
    case 'message':
      return onMessage(state, user, input.from, input.message, at, emit);
    case 'timer':
      return onTimer(state, user, input.timer, input.object, at, emit);
    case 'completion':
      return onCompletion(state, input.tag, input.code, user, at, emit);
    default:
      return;
  }
}

function onTimer(state: WorkerState, user: SessionUser, timer: number, object: number, at: number, emit: Emit): void {
  if (timer === TIMER.haulRetry) return onHaulRetry(state, object, at, emit);
  if (timer === TIMER.haulDeadline) return onHaulDeadline(state, object, at, emit);
  if (timer === TIMER.leaseRetry) return onLeaseRetry(state, object, at, emit);
  if (timer === TIMER.leaseDeadline) return onLeaseDeadline(state, object, at, emit);
  if (timer === TIMER.handshake) return onHandshakeTimer(state, object, user, at, emit);
  if (timer === TIMER.early) state.early.delete(object);
}

function onMessage(state: WorkerState, user: SessionUser, from: ActorId, message: Message, at: number, emit: Emit): void {
  if (message.kind === 'bytes') {
    const decoded = decodePeerMessage(message.bytes);
    if (typeof decoded === 'string') return emit({ kind: 'note', note: { kind: 'refused', cause: decoded } });
    return onMessage(state, user, from, decoded, at, emit);
  }
  if (!isPeerRank(state, from)) return emit({ kind: 'note', note: { kind: 'refused', cause: `${message.kind} from a stranger` } });
  switch (message.kind) {
    case 'metaRequest':
      return emit({ kind: 'send', to: from, message: describe(state, message.attempt) });
    case 'metaReply':
      return onMetaReply(state, from, message, user, at, emit);
    case 'claim':
      return applyClaim(state, message.transfer, from, message.tpSize, message.attempt, at, emit);
    case 'grant':
      return applyGrant(state, from, message, at, emit);
    case 'seal':
      return applySeal(state, from, message, at, emit);
    case 'sealAck':
      return onSealAck(state, from, message.transfer, at, emit);
    case 'refuse':
      return onRefuse(state, from, message.transfer, at, emit);
    case 'revoke':
      return applyRevoke(state, from, message, at, emit);
    default:
      return emit({ kind: 'note', note: { kind: 'refused', cause: `${message.kind} does not belong on this socket` } });
  }
}

/** How many ranks of a TP group of `tpSize` read from this rank; 0 when the claimant is not one of them. */
function readersOf(state: WorkerState, from: ActorId, tpSize: number): number {
  const { env } = state;
  const spec = env.topology.actors[from]!;
  if (env.topology.engines[spec.engine]!.ranks.length !== tpSize) return 0;
  const readers = targetRanks(env.heads, env.spec.ranks.length, tpSize, env.tpRank);
  return readers.includes(spec.tpRank) ? readers.length : 0;
}

function applyClaim(state: WorkerState, transfer: TransferId, from: ActorId, tpSize: number, attempt: number, at: number, emit: Emit): void {
  const expected = readersOf(state, from, tpSize);
  const lease = state.leases.get(transfer);
  if (expected === 0 || state.endedLeases.has(transfer)) {
    emit({ kind: 'note', note: { kind: 'goal', name: 'claim-refused' } });
    return emit({ kind: 'send', to: from, message: { kind: 'refuse', transfer, attempt } });
  }
  if (lease !== undefined) return onClaim(state, lease, from, expected, attempt, at, emit);
  const early = holdEarly(state, transfer, at, emit);
  if (early !== undefined && !early.claims.some((claim) => claim.rank === from)) early.claims.push({ rank: from, tpSize, attempt });
}

function applyGrant(state: WorkerState, from: ActorId, message: Extract<PeerMessage, { kind: 'grant' }>, at: number, emit: Emit): void {
  const { transfer } = message;
  const haul = state.hauls.get(transfer);
  const seen = state.grantsSeen.get(from) ?? 0;
  const peer = haul?.peers.find((candidate) => candidate.rank === from);
  const repeated = peer?.grant?.grant === message.grant;
  const held = state.early.get(transfer)?.grants.some((entry) => entry.rank === from && entry.grant.grant === message.grant) ?? false;
  if (!repeated && !held && message.grant <= seen) {
    // Its blocks may belong to somebody else by now: never touch them.
    emit({ kind: 'note', note: { kind: 'goal', name: 'grant-stale-refused' } });
    return emit({ kind: 'send', to: from, message: sealFor(state, transfer) });
  }
  if (message.grant > seen) state.grantsSeen.set(from, message.grant);
  const grant: Grant = {
    grant: message.grant,
    blocks: message.blocks,
    firstSlot: message.firstToken,
    slotFrom: message.tokenFrom,
    slotTo: message.tokenTo,
  };
  if (haul !== undefined) return onGrant(state, haul, from, grant, at, emit);
  if (state.env.mode === 'read' || state.ended.has(transfer)) return emit({ kind: 'send', to: from, message: sealFor(state, transfer) });
  const early = held ? undefined : holdEarly(state, transfer, at, emit);
  if (early !== undefined) early.grants.push({ rank: from, grant });
}

/** The answer for a transfer that is over here: whether all of it landed, or no if it is not remembered. */
function sealFor(state: WorkerState, transfer: TransferId): PeerMessage {
  const tpSize = state.env.spec.ranks.length;
  return { kind: 'seal', transfer, ok: state.ended.get(transfer) ?? false, tpSize, attempt: LIMITS.sealAttemptsMax };
}

function applySeal(state: WorkerState, from: ActorId, message: Extract<PeerMessage, { kind: 'seal' }>, at: number, emit: Emit): void {
  const { transfer, ok, attempt } = message;
  const lease = state.leases.get(transfer);
  if (lease !== undefined) {
    const expected = lease.operation === 'read' ? readersOf(state, from, message.tpSize) : lease.peersExpected;
    if (expected > 0) onSeal(state, lease, from, ok, expected, at, emit);
  } else {
    const early = state.early.get(transfer);
    if (early !== undefined) dropClaim(early, from);
  }
  emit({ kind: 'send', to: from, message: { kind: 'sealAck', transfer, attempt } });
}

function dropClaim(early: Early, from: ActorId): void {
  const index = early.claims.findIndex((claim) => claim.rank === from);
  if (index >= 0) early.claims.splice(index, 1);
}

function onSealAck(state: WorkerState, from: ActorId, transfer: TransferId, at: number, emit: Emit): void {
  const haul = state.hauls.get(transfer);
  const peer = haul?.peers.find((candidate) => candidate.rank === from);
  if (haul === undefined || peer === undefined || peer.phase !== 'Sealed') return;
  peer.phase = 'Closed';
  settleHaul(state, haul, at, emit);
}

function onRefuse(state: WorkerState, from: ActorId, transfer: TransferId, at: number, emit: Emit): void {
  const haul = state.hauls.get(transfer);
  const peer = haul?.peers.find((candidate) => candidate.rank === from);
  if (haul === undefined || peer === undefined || peer.phase !== 'Waiting') return;
  peer.phase = 'Closed';
  peer.ok = false;
  // The rest of the load is of no use without this part.
  stopHaul(state, haul, at, emit);
}

function applyRevoke(state: WorkerState, from: ActorId, message: Extract<PeerMessage, { kind: 'revoke' }>, at: number, emit: Emit): void {
  const { transfer, grant } = message;
  if (grant > (state.grantsSeen.get(from) ?? 0)) state.grantsSeen.set(from, grant);
  const haul = state.hauls.get(transfer);
  if (haul !== undefined && haul.peers.some((peer) => peer.rank === from)) return revokedByPeer(state, haul, from, at, emit);
  const early = state.early.get(transfer);
  if (early !== undefined) {
    const index = early.grants.findIndex((entry) => entry.rank === from);
    if (index >= 0) early.grants.splice(index, 1);
    if (!early.revoked.includes(from)) early.revoked.push(from);
  }
  emit({ kind: 'send', to: from, message: sealFor(state, transfer) });
}

/** One target wants its blocks back; a transfer that cannot reach one of its targets is of no use to the others. */
function revokedByPeer(state: WorkerState, haul: Haul, from: ActorId, at: number, emit: Emit): void {
  const peer = haul.peers.find((candidate) => candidate.rank === from)!;
  if (peer.phase === 'Closed' || peer.phase === 'Sealed') {
    emit({ kind: 'send', to: from, message: sealFor(state, haul.transfer) });
    return;
  }
  stopHaul(state, haul, at, emit);
}

/** The table entry for a transfer this rank has not heard of; undefined when the table is full. */
function holdEarly(state: WorkerState, transfer: TransferId, at: number, emit: Emit): Early | undefined {
  let early = state.early.get(transfer);
  if (early === undefined) {
    if (state.early.size >= LIMITS.earlyMax) {
      emit({ kind: 'note', note: { kind: 'refused', cause: 'too many messages for requests not heard of' } });
      return undefined;
    }
    early = { grants: [], claims: [], revoked: [] };
    state.early.set(transfer, early);
    const earliest = at + LIMITS.earlyMicros;
    emit({ kind: 'arm', timer: TIMER.early, object: transfer, earliest, latest: earliest + LIMITS.retrySlackMicros });
  }
  return early;
}

function takeEarly(state: WorkerState, transfer: TransferId, emit: Emit): Early | undefined {
  const early = state.early.get(transfer);
  if (early === undefined) return undefined;
  emit({ kind: 'stop', timer: TIMER.early, object: transfer });
  state.early.delete(transfer);
  return early;
}

import { move } from '../../base/moves.ts';
import type { ActorId, TransferId } from '../../base/topology.ts';
import type { Emit } from '../../wire/machine.ts';
import { goal } from './goals.ts';
import { LIMITS } from './limits.ts';
import { LEASE_MOVES } from './moves.ts';
import {
  epochOf,
  type Lease,
  type LeasePeer,
  remember,
  type SlotRange,
  type TransferOrder,
  type Turn,
  type WorkerState,
} from './state.ts';
import { arm, TIMER } from './timers.ts';

/**
 * The target's half of a transfer: blocks of this rank lent to remote initiators. They stay quarantined until each
 * initiator has sealed, or its queue pairs are fenced; only then does the scheduler hear of the end.
 */

export function startLease(turn: Turn, lease: Lease): void {
  const { state, at, emit } = turn;
  state.leases.set(lease.transfer, lease);
  arm(emit, TIMER.leaseDeadline, lease.transfer, at + LIMITS.leaseMicros);
  for (const peer of lease.peers) sendGrant(turn, lease, peer);
  if (lease.peers.length > 0) repeatLater(lease, at, emit);
}

/** A lease before its first step; `peersExpected` is -1 where the first claim will say. */
export function newLease(
  order: TransferOrder,
  operation: 'read' | 'write',
  { from, to }: SlotRange,
  { peers, peersExpected }: Pick<Lease, 'peers' | 'peersExpected'>,
): Lease {
  return {
    transfer: order.transfer,
    request: order.request,
    operation,
    blocks: order.blocks,
    slotFrom: from,
    slotTo: to,
    peers,
    peersExpected,
    closing: false,
    failed: false,
    silent: order.silent,
    lineageAddress: order.lineageAddress,
    tokenTo: order.tokenTo,
    attempt: 0,
  };
}

export function newLeasePeer(state: WorkerState, rank: ActorId): LeasePeer {
  const grant = (state.grantsGiven.get(rank) ?? 0) + 1;
  state.grantsGiven.set(rank, grant);
  return { rank, phase: 'Granted', grant, attempts: 0 };
}

function sendGrant(turn: Turn, lease: Lease, peer: LeasePeer): void {
  const { state, emit } = turn;
  const slots = state.env.views[0]!.blockUnits;
  const firstBlock = Math.floor(lease.slotFrom / slots);
  const lastBlock = Math.ceil(lease.slotTo / slots);
  emit({
    kind: 'send',
    to: peer.rank,
    message: {
      kind: 'peer',
      name: 'grant',
      transfer: lease.transfer,
      grant: peer.grant,
      blocks: lease.blocks.slice(firstBlock, lastBlock),
      epoch: epochOf(state, peer.rank),
      firstSlot: firstBlock * slots,
      slotFrom: lease.slotFrom,
      slotTo: lease.slotTo,
      attempt: lease.attempt,
    },
  });
}

function repeatLater(lease: Lease, at: number, emit: Emit): void {
  arm(emit, TIMER.leaseRetry, lease.transfer, at + LIMITS.retryMicros * 2 ** lease.attempt);
}

/** Who says it, and how many ranks of its group have a part in the lease. */
interface Said {
  readonly rank: ActorId;
  readonly expected: number;
}

/** READ: a rank of D asks for leave to read. The first claim says how many ranks will come. */
export function onClaim(turn: Turn, lease: Lease, claim: Said & { readonly attempt: number }): void {
  const { rank, expected, attempt } = claim;
  const { state, emit } = turn;
  const known = lease.peers.find((peer) => peer.rank === rank);
  if (known !== undefined) {
    // A repeated claim of a peer that has sealed must not lend the blocks again.
    if (known.phase === 'Granted') sendGrant(turn, lease, known);
    else
      emit({
        kind: 'send',
        to: rank,
        message: { kind: 'peer', name: 'refuse', transfer: lease.transfer, attempt },
      });
    return;
  }
  if (!mayJoin(state, lease, rank, expected)) {
    goal(emit, 'claim-refused');
    return emit({
      kind: 'send',
      to: rank,
      message: { kind: 'peer', name: 'refuse', transfer: lease.transfer, attempt },
    });
  }
  lease.peersExpected = expected;
  const peer = newLeasePeer(state, rank);
  lease.peers.push(peer);
  sendGrant(turn, lease, peer);
}

/** READ: whether one more rank of D may come, which is one of the engine that came first. */
function mayJoin(state: WorkerState, lease: Lease, rank: ActorId, expected: number): boolean {
  const [first] = lease.peers;
  if (lease.operation !== 'read' || lease.closing) return false;
  if (first === undefined) return true;
  const { actors } = state.env.topology;
  const isSame = actors[first.rank]!.engine === actors[rank]!.engine;
  return isSame && lease.peersExpected === expected && lease.peers.length < expected;
}

/** Whether the seal was taken: a rank that has no part in the lease changes nothing. */
export function onSeal(turn: Turn, lease: Lease, seal: Said & { readonly ok: boolean }): boolean {
  const { rank, expected, ok } = seal;
  const { state, at, emit } = turn;
  let peer = lease.peers.find((candidate) => candidate.rank === rank);
  if (peer === undefined && mayJoin(state, lease, rank, expected)) {
    // A reader that gave up before its claim was granted, or one that reads from copies: it will not claim, so do not
    // wait for it. It uses up no grant number, since it would never hear of it.
    lease.peersExpected = expected;
    peer = { rank, phase: 'Granted', grant: 0, attempts: 0 };
    lease.peers.push(peer);
  }
  if (peer === undefined) return lease.operation === 'read' && lease.closing;
  const wasRevoking = peer.phase === 'Revoking';
  if (!move(LEASE_MOVES, peer, 'SealedByPeer')) return true;
  if (peer.grant > (state.grantsHeard.get(rank) ?? 0)) state.grantsHeard.set(rank, peer.grant);
  if (wasRevoking) goal(emit, 'revoke-confirmed');
  if (!ok) lease.failed = true;
  // In WRITE one failed part spoils the whole, so the others may as well stop; in READ each reader judges for itself.
  if (!ok && lease.operation === 'write') revokeAll(lease, emit);
  if (!ok && lease.operation === 'write' && !settled(lease)) repeatLater(lease, at, emit);
  settleLease(turn, lease);
  return true;
}

/** Asks every initiator for the blocks; no new claim is granted from here on. */
export function revokeLease(turn: Turn, lease: Lease): void {
  const { at, emit } = turn;
  lease.closing = true;
  lease.failed = true;
  lease.attempt = 0;
  revokeAll(lease, emit);
  if (!settled(lease)) repeatLater(lease, at, emit);
  settleLease(turn, lease);
}

function revokeAll(lease: Lease, emit: Emit): void {
  lease.closing = true;
  for (const peer of lease.peers) if (move(LEASE_MOVES, peer, 'Revoked')) sendRevoke(lease, peer, emit);
}

function sendRevoke(lease: Lease, peer: LeasePeer, emit: Emit): void {
  emit({
    kind: 'send',
    to: peer.rank,
    message: {
      kind: 'peer',
      name: 'revoke',
      transfer: lease.transfer,
      grant: peer.grant,
      attempt: peer.attempts,
    },
  });
}

export function onLeaseRetry(turn: Turn, transfer: TransferId): void {
  const { state, at, emit } = turn;
  const lease = state.leases.get(transfer);
  if (lease === undefined) return;
  lease.attempt++;
  for (const peer of lease.peers) {
    if (peer.phase === 'Granted' && lease.operation === 'write' && lease.attempt < LIMITS.grantAttemptsMax)
      sendGrant(turn, lease, peer);
    if (peer.phase === 'Revoking') repeatRevoke(turn, lease, peer);
  }
  const more =
    lease.peers.some((peer) => peer.phase === 'Revoking') || lease.attempt < LIMITS.grantAttemptsMax;
  if (!settled(lease) && more) repeatLater(lease, at, emit);
  settleLease(turn, lease);
}

/** The peer does not answer: after the last try its queue pairs are reset, so that nothing of it can land any more. */
function repeatRevoke(turn: Turn, lease: Lease, peer: LeasePeer): void {
  const { state, emit } = turn;
  peer.attempts++;
  if (peer.attempts < LIMITS.revokeAttemptsMax) return sendRevoke(lease, peer, emit);
  const epoch = epochOf(state, peer.rank) + 1;
  state.epochs.set(peer.rank, epoch);
  // Numbers that the peer may never have heard of are given again: under the new epoch, and for other transfers.
  state.grantsGiven.set(peer.rank, state.grantsHeard.get(peer.rank) ?? 0);
  emit({ kind: 'fence', peer: peer.rank });
  goal(emit, 'revoke-fenced');
  move(LEASE_MOVES, peer, 'Fenced');
}

export function onLeaseDeadline(turn: Turn, transfer: TransferId): void {
  const { state, emit } = turn;
  const lease = state.leases.get(transfer);
  if (lease === undefined || lease.closing) return;
  goal(emit, 'lease-expired');
  revokeLease(turn, lease);
}

function settled(lease: Lease): boolean {
  const allCame = lease.closing || lease.peers.length === lease.peersExpected;
  return allCame && lease.peers.every((peer) => peer.phase === 'Settled');
}

function settleLease(turn: Turn, lease: Lease): void {
  const { state, emit } = turn;
  if (!settled(lease)) return;
  emit({ kind: 'stop', timer: TIMER.leaseRetry, object: lease.transfer });
  emit({ kind: 'stop', timer: TIMER.leaseDeadline, object: lease.transfer });
  state.leases.delete(lease.transfer);
  remember(state.endedLeases, lease.transfer, !lease.failed, LIMITS.endedMax);
  if (lease.silent) return;
  const { request, transfer, blocks, tokenTo, lineageAddress } = lease;
  if (lease.operation === 'read') {
    state.sent.push(request);
    return;
  }
  (lease.failed ? state.failed : state.received).push(request);
  if (!lease.failed)
    emit({ kind: 'note', note: { kind: 'loaded', request, transfer, blocks, tokenTo, lineageAddress } });
}

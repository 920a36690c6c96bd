import { filled } from '../../base/lists.ts';
import type { ActorId } from '../../base/topology.ts';
import type { Haul, HaulPeer, SlotRange, TransferOrder } from './state.ts';

/** A haul before its first step. One literal makes all of them, so that they are alike to the machine. */
export function newHaul(
  order: TransferOrder,
  operation: 'read' | 'write',
  { from, to }: SlotRange,
  { readyTo, peers }: Pick<Haul, 'readyTo' | 'peers'>,
): Haul {
  return {
    transfer: order.transfer,
    request: order.request,
    operation,
    blocks: order.blocks,
    slotFrom: from,
    slotTo: to,
    readyTo,
    peers,
    silent: order.silent,
    lineageAddress: order.lineageAddress,
    tokenTo: order.tokenTo,
    rounds: 0,
    // D asks for a READ once; P of a WRITE says more with each chunk.
    final: operation === 'read',
    reported: false,
    retrying: false,
    draining: false,
  };
}

export function newHaulPeer(rank: ActorId, layers: number): HaulPeer {
  return {
    rank,
    phase: 'Waiting',
    grant: null,
    postedTo: filled(layers, 0),
    outstanding: 0,
    parts: 0,
    attempts: 0,
    renewals: 0,
    ok: true,
  };
}

/** READ: a rank of P whose heads copies of it serve. Nothing is read there, and it is told so from the start. */
export function newIdlePeer(rank: ActorId): HaulPeer {
  return { ...newHaulPeer(rank, 0), phase: 'Sealed' };
}

import type { Wait } from '../../wire/machine.ts';
import type { WorkerState } from './state.ts';

/** What a rank waits for, as edges of the waits-for graph. */
export function waitsOf(state: WorkerState): Wait[] {
  const who = state.env.self;
  const waits: Wait[] = [];
  for (const haul of state.hauls.values()) {
    const { transfer } = haul;
    for (const peer of haul.peers) {
      if (peer.phase === 'Waiting') waits.push({ who, what: 'grant', fields: { transfer }, whom: peer.rank });
      if (peer.phase === 'Moving' || peer.phase === 'Draining') {
        const session = state.sessions.get(peer.rank)?.phase ?? 'Idle';
        const wait =
          session === 'Ready'
            ? { what: 'work-requests', fields: { transfer, count: peer.outstanding } }
            : { what: 'handshake', fields: { session } };
        waits.push({ who, ...wait, whom: peer.rank });
      }
      if (peer.phase === 'Sealed')
        waits.push({ who, what: 'seal-ack', fields: { transfer }, whom: peer.rank });
    }
  }
  for (const lease of state.leases.values()) {
    const { transfer } = lease;
    if (lease.peers.length === 0) waits.push({ who, what: 'claim', fields: { transfer }, whom: -1 });
    for (const peer of lease.peers) {
      if (peer.phase !== 'Settled') waits.push({ who, what: 'seal', fields: { transfer }, whom: peer.rank });
    }
  }
  return waits;
}

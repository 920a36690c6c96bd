import type { Wait } from '../../wire/machine.ts';
import type { WorkerState } from './state.ts';

/** What a rank waits for, as edges of the waits-for graph. */
export function waitsOf(state: WorkerState): Wait[] {
  const who = state.env.self;
  const waits: Wait[] = [];
  for (const haul of state.hauls.values()) {
    for (const peer of haul.peers) {
      if (peer.phase === 'Waiting')
        waits.push({ who, what: `a grant for transfer ${haul.transfer}`, whom: peer.rank });
      if (peer.phase === 'Moving' || peer.phase === 'Draining') {
        const session = state.sessions.get(peer.rank)?.phase ?? 'Idle';
        const what =
          session === 'Ready'
            ? `${peer.outstanding} work requests of transfer ${haul.transfer}`
            : `the handshake (${session})`;
        waits.push({ who, what, whom: peer.rank });
      }
      if (peer.phase === 'Sealed')
        waits.push({
          who,
          what: `the acknowledgement of its seal of transfer ${haul.transfer}`,
          whom: peer.rank,
        });
    }
  }
  for (const lease of state.leases.values()) {
    if (lease.peers.length === 0)
      waits.push({ who, what: `a claim of transfer ${lease.transfer}`, whom: -1 });
    for (const peer of lease.peers) {
      if (peer.phase !== 'Settled')
        waits.push({ who, what: `the seal of transfer ${lease.transfer}`, whom: peer.rank });
    }
  }
  return waits;
}

import type { MoveTable } from '../../base/moves.ts';

export type CallPhase = 'creating' | 'posting' | 'notifying' | 'returned';
export type CallTrigger = 'SessionReady' | 'Returned' | 'Notifies';

/** Upstream's caller is blocked until its call has returned; what then still moves is told by its status (mori-io.md A7). */
export const CALL_MOVES: MoveTable<CallPhase, CallTrigger> = {
  title: 'Call: the MoRI-IO engine, one for each read, write or batch',
  triggers: {
    SessionReady: 'the session that it needs is made, or was there',
    Returned: 'all is posted, or it was refused, or the last notification is sent or has failed',
    Notifies: 'the target is to be told that all is posted, or that all has arrived',
  },
  moves: {
    creating: { SessionReady: 'posting', Returned: 'returned' },
    posting: { Returned: 'returned' },
    notifying: { Returned: 'returned' },
    returned: { Notifies: 'notifying' },
  },
};

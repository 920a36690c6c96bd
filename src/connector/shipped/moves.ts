import type { MoveTable } from '../../base/moves.ts';

/**
 * The legal moves of the two halves of a transfer.
 *
 * The *target* lends blocks (D in WRITE, P in READ); the *initiator* posts the work requests (P in WRITE, D in READ).
 */

/** The initiator's record of one peer rank within one transfer. */
export type HaulPhase = 'Waiting' | 'Moving' | 'Draining' | 'Sealed' | 'Closed';
export type HaulTrigger = 'Granted' | 'AllLanded' | 'Stopped' | 'Drained' | 'Refused' | 'Acked' | 'GaveUp';

export const HAUL_MOVES: MoveTable<HaulPhase, HaulTrigger> = {
  title: 'Haul: the initiator, one record for each peer rank of a transfer',
  triggers: {
    Granted: 'a grant that covers its own token range came',
    AllLanded: 'everything that was granted has been posted and has completed well',
    Stopped:
      'a cancel, a revoke, a refused claim of another rank, a grant that does not fit, a failed completion or handshake, the deadline, or the last claim unanswered',
    Drained: 'the last operation in flight has completed, well or not',
    Refused: 'the target refused the claim',
    Acked: 'the target acknowledged the seal',
    GaveUp: 'the last repeat of the seal went unanswered',
  },
  moves: {
    /** No grant yet: no operation may be posted. */
    Waiting: { Granted: 'Moving', Stopped: 'Sealed', Refused: 'Closed' },
    Moving: { AllLanded: 'Sealed', Stopped: 'Draining' },
    /** Nothing new is posted; what is in flight must complete before the seal. */
    Draining: { Drained: 'Sealed' },
    /** The peer is told, again and again, until it acknowledges. */
    Sealed: { Acked: 'Closed', GaveUp: 'Closed' },
    Closed: {},
  },
};

/** The target's record of one peer rank within one lease. */
export type LeasePhase = 'Granted' | 'Revoking' | 'Settled';
export type LeaseTrigger = 'SealedByPeer' | 'Revoked' | 'Fenced';

export const LEASE_MOVES: MoveTable<LeasePhase, LeaseTrigger> = {
  title: 'Lease: the target, one record for each peer rank of a transfer',
  triggers: {
    SealedByPeer: 'the initiator sealed: no operation of its names these blocks any more',
    Revoked: 'an abort, the deadline, or in WRITE a failed seal of another rank of the transfer',
    Fenced: 'the last revoke went unanswered and the key that peer held was taken back',
  },
  moves: {
    Granted: { SealedByPeer: 'Settled', Revoked: 'Revoking' },
    /** The blocks stay quarantined until the peer seals, or its queue pairs are fenced. */
    Revoking: { SealedByPeer: 'Settled', Fenced: 'Settled' },
    Settled: {},
  },
};

/** The initiator's connection to one peer rank. */
export type SessionPhase = 'Idle' | 'Asking' | 'Ready' | 'Broken';
export type SessionTrigger = 'Needed' | 'Described' | 'TimedOut' | 'Failed';

export const SESSION_MOVES: MoveTable<SessionPhase, SessionTrigger> = {
  title: 'Session: the initiator, one for each peer rank, shared by all transfers',
  triggers: {
    Needed: 'a transfer has something to post',
    Described: 'the peer sent descriptors and geometry that fit',
    TimedOut: 'the last handshake request went unanswered, or the answer was refused',
    Failed: 'a completion said that a queue pair is in the error state',
  },
  moves: {
    Idle: { Needed: 'Asking' },
    Asking: { Described: 'Ready', TimedOut: 'Idle' },
    Ready: { Failed: 'Broken' },
    /** A queue pair is in the error state; the next transfer asks anew and gets fresh queue pairs. */
    Broken: { Needed: 'Asking' },
  },
};

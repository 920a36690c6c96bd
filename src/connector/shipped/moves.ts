import type { MoveTable } from '../../base/moves.ts';

/**
 * The legal moves of the two halves of a transfer. A pair that is absent is refused. docs/PROTOCOL.md is generated from
 * these tables.
 *
 * The *target* lends blocks (D in WRITE, P in READ); the *initiator* posts the work requests (P in WRITE, D in READ).
 */

/** The initiator's record of one peer rank within one transfer. */
export type HaulPhase = 'Waiting' | 'Moving' | 'Draining' | 'Sealed' | 'Closed';
export type HaulTrigger = 'Granted' | 'AllLanded' | 'Stopped' | 'Drained' | 'Refused' | 'Acked' | 'GaveUp';

export const HAUL_MOVES: MoveTable<HaulPhase, HaulTrigger> = {
  /** No grant yet: no operation may be posted. */
  Waiting: { Granted: 'Moving', Stopped: 'Sealed', Refused: 'Closed' },
  Moving: { AllLanded: 'Sealed', Stopped: 'Draining' },
  /** Nothing new is posted; what is in flight must complete before the seal. */
  Draining: { Drained: 'Sealed' },
  /** The peer is told, again and again, until it acknowledges. */
  Sealed: { Acked: 'Closed', GaveUp: 'Closed' },
  Closed: {},
};

/** The target's record of one peer rank within one lease. */
export type LeasePhase = 'Granted' | 'Revoking' | 'Settled';
export type LeaseTrigger = 'SealedByPeer' | 'Revoked' | 'Fenced';

export const LEASE_MOVES: MoveTable<LeasePhase, LeaseTrigger> = {
  Granted: { SealedByPeer: 'Settled', Revoked: 'Revoking' },
  /** The blocks stay quarantined until the peer seals, or its queue pairs are fenced. */
  Revoking: { SealedByPeer: 'Settled', Fenced: 'Settled' },
  Settled: {},
};

/** The initiator's connection to one peer rank. */
export type SessionPhase = 'Idle' | 'Asking' | 'Ready' | 'Broken';
export type SessionTrigger = 'Needed' | 'Described' | 'TimedOut' | 'Failed';

export const SESSION_MOVES: MoveTable<SessionPhase, SessionTrigger> = {
  Idle: { Needed: 'Asking' },
  Asking: { Described: 'Ready', TimedOut: 'Idle' },
  Ready: { Failed: 'Broken' },
  /** A queue pair is in the error state; the next transfer asks anew and gets fresh queue pairs. */
  Broken: { Needed: 'Asking' },
};

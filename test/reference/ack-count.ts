import { UsageError } from '../../src/base/failure.ts';
import { ackingRanks } from './ranks.ts';

/**
 * One rank of P counts the words of D's ranks that they are done with a transfer. Distinct ranks count, not words, so a
 * repeated or duplicated one changes nothing; the size of D's group is that of the first word.
 */
export interface AckLedger {
  readonly prefillTp: number;
  readonly prefillRank: number;
  /** By transfer that is still waited for: null before the first word. */
  readonly open: Map<string, Fan | null>;
}

interface Fan {
  readonly decodeTp: number;
  /** Ranks still to come. */
  readonly missing: Set<number>;
}

/** Who says so: a rank of a group, or an engine of the older form, which names neither. */
export interface Ack {
  readonly transferId: string;
  readonly from: { readonly rank: number; readonly tpSize: number } | null;
}

/** `done` comes once for each transfer; `late` is a word for one that is not waited for, or not any more. */
export type AckVerdict = 'done' | 'counted' | 'repeated' | 'late' | 'refused';

export function createAckLedger(prefillTp: number, prefillRank: number): AckLedger {
  // Checks both, once.
  ackingRanks(prefillTp, prefillTp, prefillRank);
  return { prefillTp, prefillRank, open: new Map() };
}

export function awaitAcks(ledger: AckLedger, transferId: string): void {
  if (!ledger.open.has(transferId)) ledger.open.set(transferId, null);
}

/** Gives up on a transfer; what still comes for it is late. */
export function forgetAcks(ledger: AckLedger, transferId: string): void {
  ledger.open.delete(transferId);
}

/** Ranks that have been heard for a transfer that is still open. */
export function acksHeard(ledger: AckLedger, transferId: string): number {
  const fan = ledger.open.get(transferId) ?? null;
  if (fan === null) return 0;
  return ackingRanks(ledger.prefillTp, fan.decodeTp, ledger.prefillRank).length - fan.missing.size;
}

/** Takes one word. Never throws: a word that does not fit is refused alone, whatever else came with it. */
export function countAck(ledger: AckLedger, { transferId, from }: Ack): AckVerdict {
  const fan = ledger.open.get(transferId);
  if (fan === undefined) return 'late';
  if (from === null) return countPlain(ledger, transferId, fan);
  const known = fan ?? openFan(ledger, from.tpSize);
  if (known === null || known.decodeTp !== from.tpSize) return 'refused';
  const readers = ackingRanks(ledger.prefillTp, known.decodeTp, ledger.prefillRank);
  if (!readers.includes(from.rank)) return 'refused';
  ledger.open.set(transferId, known);
  if (!known.missing.delete(from.rank)) return 'repeated';
  if (known.missing.size > 0) return 'counted';
  ledger.open.delete(transferId);
  return 'done';
}

/** The older form stands for the whole of a group, and so cannot end a count of ranks that has begun. */
function countPlain(ledger: AckLedger, transferId: string, fan: Fan | null): AckVerdict {
  if (fan !== null) return 'refused';
  ledger.open.delete(transferId);
  return 'done';
}

/** null for a size that does not go with ours. */
function openFan(ledger: AckLedger, decodeTp: number): Fan | null {
  try {
    const readers = ackingRanks(ledger.prefillTp, decodeTp, ledger.prefillRank);
    return { decodeTp, missing: new Set(readers) };
  } catch (error) {
    if (error instanceof UsageError) return null;
    throw error;
  }
}

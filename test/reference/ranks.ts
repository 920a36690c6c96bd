import { requireWhole } from '../../src/base/checks.ts';
import { UsageError } from '../../src/base/failure.ts';
import { headsOfRank } from '../../src/kv/view.ts';

/**
 * How the TP ranks of two engines find each other when all that is known is their sizes. The published connector knows
 * no more than that, and so refuses sizes that split the heads differently; the shipped one goes by the heads that two
 * ranks have in common (`sourceRanks`) and needs this only towards a published one. Source: golden/ranks.json.
 */

/** No instance has more ranks than a host has ports. */
const RANKS_MAX = 65_535;

/** A TP size, checked. @throws UsageError TP-SIZE when it is not a whole number from 1 on. */
function requireTpSize(size: unknown, whose: string): number {
  return requireWhole(size, [1, RANKS_MAX], 'TP-SIZE', `the TP size of ${whose}`);
}

/** A TP rank, checked. @throws UsageError TP-RANK when it is none of `size` ranks. */
function requireTpRank(rank: unknown, size: number, whose: string): number {
  return requireWhole(rank, [0, size - 1], 'TP-RANK', `the TP rank of ${whose}`);
}

/**
 * The one remote TP rank that a local rank turns to: the first of its share of a larger group, the one it shares with
 * its neighbours of a smaller group.
 * @throws UsageError TP-SIZE, TP-RANK, or TP-INDIVISIBLE when neither size divides the other.
 */
export function remoteTpRank(localRank: number, localTp: number, remoteTp: number): number {
  requireTpPair(localTp, remoteTp);
  requireTpRank(localRank, localTp, 'this side');
  if (remoteTp >= localTp) return localRank * (remoteTp / localTp);
  return Math.floor(localRank / (localTp / remoteTp));
}

/**
 * The ranks of D that turn to one rank of P, and so owe it a word when they are done with its blocks.
 * @throws UsageError as {@link remoteTpRank}.
 */
export function ackingRanks(prefillTp: number, decodeTp: number, prefillRank: number): number[] {
  requireTpPair(prefillTp, decodeTp);
  requireTpRank(prefillRank, prefillTp, 'P');
  if (decodeTp <= prefillTp) return [Math.floor(prefillRank / (prefillTp / decodeTp))];
  const share = decodeTp / prefillTp;
  return Array.from({ length: share }, (_, index) => prefillRank * share + index);
}

/**
 * How many words a rank of P waits for: one of a group of D that is no larger, whether its size divides P's or not; else
 * its share of D's group.
 * @throws UsageError TP-SIZE, or TP-INDIVISIBLE for a larger group of D that is no multiple of P's.
 */
export function expectedAckCount(prefillTp: number, decodeTp: number): number {
  requireTpSize(prefillTp, 'P');
  requireTpSize(decodeTp, 'D');
  if (decodeTp <= prefillTp) return 1;
  requireTpPair(prefillTp, decodeTp);
  return decodeTp / prefillTp;
}

function requireTpPair(oneTp: number, otherTp: number): void {
  requireTpSize(oneTp, 'one side');
  requireTpSize(otherTp, 'the other side');
  const larger = Math.max(oneTp, otherTp);
  const smaller = Math.min(oneTp, otherTp);
  if (larger % smaller !== 0)
    throw new UsageError('TP-INDIVISIBLE', `TP ${oneTp} and TP ${otherTp}: neither divides the other`);
}

/**
 * Whether the heads of a model can move between two TP sizes. Each side must be able to lay them on its ranks; that is
 * all, because a transfer goes by the heads that two ranks have in common. A latent (MLA) cache is one head on each rank.
 * @throws UsageError TP-SIZE, TP-HEADS or TP-INDIVISIBLE.
 */
export function requireMovableHeads(
  localTp: number,
  remoteTp: number,
  kvHeads: number,
  isLatent: boolean,
): void {
  requireTpSize(localTp, 'this side');
  requireTpSize(remoteTp, 'the peer');
  requireWhole(kvHeads, [1, Number.MAX_SAFE_INTEGER], 'TP-HEADS', 'the number of KV heads');
  const heads = isLatent ? 1 : kvHeads;
  headsOfRank(heads, localTp, 0);
  headsOfRank(heads, remoteTp, 0);
}

/** What a rank of D knows of itself and of P when it chooses whom to read from. */
export interface ReadPair {
  /** Ranks of the local group. */
  readonly localTp: number;
  readonly isLatent: boolean;
  readonly remoteDp: number;
  readonly remoteTp: number;
}

/** A lone rank with a latent cache finds all it needs at any TP rank of P, so it may spread its reads over them. */
export function mayReadAnywhere({ localTp, isLatent, remoteDp, remoteTp }: ReadPair): boolean {
  return isLatent && localTp === 1 && remoteDp === 1 && remoteTp > 1;
}

/** A rank to shake hands with; `tpRank` null stands for the one that {@link remoteTpRank} gives. */
export interface HandshakeTarget {
  readonly dpRank: number;
  readonly tpRank: number | null;
}

/**
 * Whom to shake hands with before the first read: every TP rank where any may be read from, else one for each DP rank.
 * @throws UsageError TP-SIZE or DP-SIZE.
 */
export function eagerTargets(pair: ReadPair): HandshakeTarget[] {
  requireTpSize(pair.localTp, 'this side');
  requireTpSize(pair.remoteTp, 'the peer');
  requireWhole(pair.remoteDp, [1, RANKS_MAX], 'DP-SIZE', 'the DP size of the peer');
  if (mayReadAnywhere(pair))
    return Array.from({ length: pair.remoteTp }, (_, tpRank) => ({ dpRank: 0, tpRank }));
  return Array.from({ length: pair.remoteDp }, (_, dpRank) => ({ dpRank, tpRank: null }));
}

/** Reads begun so far at each remote, by its name: one counter for all would starve some ranks of unequal remotes. */
export type ReadTurns = Map<string, number>;

/**
 * The TP rank of `remote` whose turn it is, of `remoteTp`; starts at `firstTurn`, so that DP ranks of D that begin at
 * the same time do not all begin with the same rank of P.
 * @throws UsageError TP-SIZE, or DP-RANK for a bad `firstTurn`.
 */
export function takeReadTurn(turns: ReadTurns, remote: string, firstTurn: number, remoteTp: number): number {
  requireTpSize(remoteTp, 'the peer');
  requireWhole(firstTurn, [0, RANKS_MAX], 'DP-RANK', 'the first turn');
  const turn = turns.get(remote) ?? 0;
  turns.set(remote, (turn + 1) % remoteTp);
  return (firstTurn + turn) % remoteTp;
}

/** The TP rank of P to read from: by turns where any will do, else the one that {@link remoteTpRank} gives. */
export function readSource(
  turns: ReadTurns,
  remote: string,
  pair: ReadPair,
  dpRank: number,
  tpRank: number,
): number {
  if (mayReadAnywhere(pair)) return takeReadTurn(turns, remote, dpRank, pair.remoteTp);
  return remoteTpRank(tpRank, pair.localTp, pair.remoteTp);
}

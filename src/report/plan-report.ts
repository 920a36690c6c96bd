/** What `moriarty plan` found out, as data: its --json document. Ranges are [from, to); bytes and microseconds are whole numbers. */

export type Range = readonly [from: number, to: number];

/** One side as it was planned, defaults filled in. */
export interface PlanSide {
  readonly tp: number;
  readonly pp: number;
  /** Ranks of a context group, and neighbouring tokens that one of them holds. */
  readonly dcp: number;
  readonly dcpInterleave: number;
  readonly block: number;
  readonly kernelBlock: number;
  readonly layout: string;
  /** Blocks of `block` tokens in a rank's cache; a context group's blocks hold `dcp` times as many. */
  readonly blocks: number;
  readonly dtype: string;
  /** Layers of each pipeline stage. */
  readonly stages: readonly Range[];
}

/** What one P rank and one D rank move between them. A rank's number is stage x tp + TP rank, as in vLLM. */
export interface PlanPair {
  readonly prefillRank: number;
  readonly decodeRank: number;
  readonly layers: Range;
  readonly heads: Range;
  /** Contiguous stretches when each block is looked at by itself. */
  readonly runsBefore: number;
  /** After stretches that touch on both sides are joined. */
  readonly runs: number;
  readonly bytes: number;
  /** What the engine posts. */
  readonly workRequests: number;
  /** Predicted, with the NICs at both ends shared among all pairs. */
  readonly micros: number;
}

export interface PlanReport {
  readonly model: string;
  readonly mode: 'read' | 'write';
  readonly tokens: number;
  /** Tokens that D holds already. */
  readonly prefix: number;
  readonly nic: string;
  readonly chunking: boolean;
  readonly placement: 'contiguous' | 'scattered';
  readonly prefill: PlanSide;
  readonly decode: PlanSide;
  /** All layers and heads, each counted once, as P keeps them. */
  readonly bytesPerToken: number;
  readonly pairs: readonly PlanPair[];
  readonly totalBytes: number;
  readonly slowestMicros: number;
  /** Why this transfer cannot be; there are no pairs then. */
  readonly refused: string | null;
  /** What the reader should know about these figures. */
  readonly notes: readonly string[];
}

/** `32,768`; the same on every machine. */
export function grouped(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ',');
}

const BYTE_UNITS = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'] as const;

/** Three digits and a decimal unit: `1.34 GB`. */
export function shortBytes(bytes: number): string {
  let unit = 0;
  let value = bytes;
  for (; value >= 999.5 && unit < BYTE_UNITS.length - 1; unit++) value /= 1000;
  return `${unit === 0 ? value : threeDigits(value)} ${BYTE_UNITS[unit]}`;
}

/** `870 us`, `27.0 ms`, `1.20 s`. */
export function shortMicros(micros: number): string {
  if (micros < 1000) return `${micros} us`;
  return micros < 999_500 ? `${threeDigits(micros / 1000)} ms` : `${threeDigits(micros / 1_000_000)} s`;
}

function threeDigits(value: number): string {
  return value.toFixed(value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2);
}

/** `0` or `0-39`: the last one included, as people say it. */
export function shortRange([from, to]: Range): string {
  return to - from === 1 ? `${from}` : `${from}-${to - 1}`;
}

/** `P3`, or `P11 (stage 1, tp 3)` where there are stages. */
export function rankName(letter: 'P' | 'D', side: PlanSide, rank: number): string {
  if (side.pp === 1) return `${letter}${rank}`;
  return `${letter}${rank} (stage ${Math.trunc(rank / side.tp)}, tp ${rank % side.tp})`;
}

/** `tp 8`, or `tp 8 (dcp 4, interleave 1)` where context groups split tokens. */
export function tpText({ tp, dcp, dcpInterleave }: PlanSide): string {
  return dcp === 1 ? `tp ${tp}` : `tp ${tp} (dcp ${dcp}, interleave ${dcpInterleave})`;
}

/** `1 pair`, `8 pairs`. */
export function countOf(count: number, what: string): string {
  return `${grouped(count)} ${what}${count === 1 ? '' : 's'}`;
}

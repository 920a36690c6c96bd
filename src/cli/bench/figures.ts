/** One measured figure, as a ratio to something measured in the same run: absolute times say more about the machine. */
export interface Figure {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  /** What the ratio compares with. */
  readonly against: string;
  readonly ratio: number;
  /** The bound on the ratio. */
  readonly floor: number;
  readonly holds: boolean;
  /** How it was measured, or why it was not. */
  readonly note?: string;
}

/** Whether a ratio must reach its floor or stay below it. */
export type Sense = 'atLeast' | 'atMost';

export function figure(
  name: string,
  value: number,
  unit: string,
  against: string,
  ratio: number,
  sense: Sense,
  floor: number,
): Figure {
  const holds = sense === 'atLeast' ? ratio >= floor : ratio <= floor;
  return { name, value: rounded(value), unit, against, ratio: rounded(ratio), floor, holds };
}

/** Four significant digits: more would only be noise. */
function rounded(value: number): number {
  return Number(value.toPrecision(4));
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((left, right) => left - right);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/**
 * Times candidates in turn, round by round, so that a drift of the machine's speed hits all alike.
 * @returns for each candidate its median seconds for one call, and for each but the first the median of its ratios to the
 *   first within a round.
 */
export function timeInTurn(
  candidates: readonly (() => void)[],
  rounds: number,
  callsPerRound: number,
): { seconds: number[]; ratios: number[] } {
  const seconds = candidates.map((): number[] => []);
  for (const candidate of candidates) for (let call = 0; call < callsPerRound; call++) candidate();
  for (let round = 0; round < rounds; round++) {
    candidates.forEach((candidate, index) => {
      const started = performance.now();
      for (let call = 0; call < callsPerRound; call++) candidate();
      seconds[index]!.push((performance.now() - started) / 1000 / callsPerRound);
    });
  }
  const ratios = seconds.map((times) => median(times.map((time, round) => time / seconds[0]![round]!)));
  return { seconds: seconds.map(median), ratios };
}

/**
 * Bytes on the heap and in buffers that one call leaves behind, by the median of the rounds. One call at a time: many
 * might make the collector run, which would hide them.
 */
export function heapGrowth(call: () => void, rounds: number): number {
  const used = (): number => {
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    return heapUsed + arrayBuffers;
  };
  const growths: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const idle = -used() + used();
    const before = used();
    call();
    growths.push(used() - before - idle);
  }
  return Math.max(0, median(growths));
}

import { CHAINS, classOf, DIRECTIONS, QUEUE_PAIRS, type Range, SIZES } from './classes.ts';
import type { PostedTransfer } from './posting.ts';

/** What a campaign has given to the fabrics: counted from what was posted, not from what was meant to be. */
export interface Coverage {
  batches: number;
  bytes: number;
  /** Work requests of each combination: direction, queue pair, chain length and size, in this order of places. */
  readonly cells: number[];
  /** Transfers of which a request was cut into chunks, by direction and the queue pair at which they begin. */
  readonly cut: number[];
  readonly lists: number[];
  readonly sessions: number[];
  readonly nics: number[];
  readonly notifications: number[];
  readonly parity: number[];
  /** By the lower bits of the target's offset. */
  readonly alignment: number[];
}

const LISTS: readonly Range[] = [
  { name: '1', least: 1, most: 1 },
  { name: '2', least: 2, most: 2 },
  { name: '3 to 4', least: 3, most: 4 },
  { name: '5 and more', least: 5, most: 30 },
];
const ALIGNMENTS = ['none', 'cache line', 'page'] as const;

export function createCoverage(): Coverage {
  const zeros = (count: number): number[] => new Array<number>(count).fill(0);
  return {
    batches: 0,
    bytes: 0,
    cells: zeros(DIRECTIONS.length * QUEUE_PAIRS * CHAINS.length * SIZES.length),
    cut: zeros(DIRECTIONS.length * QUEUE_PAIRS),
    lists: zeros(LISTS.length),
    sessions: zeros(QUEUE_PAIRS),
    nics: zeros(2),
    notifications: zeros(2),
    parity: zeros(2),
    alignment: zeros(ALIGNMENTS.length),
  };
}

export function count(coverage: Coverage, { transfer, chains, notifications, isCut }: PostedTransfer): void {
  const direction = DIRECTIONS.indexOf(transfer.operation);
  coverage.sessions[transfer.queuePairs - 1]!++;
  coverage.nics[transfer.nics - 1]!++;
  coverage.notifications[notifications > 0 ? 1 : 0]!++;
  if (isCut) coverage.cut[direction * QUEUE_PAIRS + transfer.queuePair]!++;
  for (const { runs, lists, queuePair } of chains) {
    coverage.batches++;
    for (const entries of lists) coverage.lists[classOf(LISTS, entries)]!++;
    const chain = classOf(CHAINS, runs.length / 3);
    const base = ((direction * QUEUE_PAIRS + queuePair) * CHAINS.length + chain) * SIZES.length;
    for (let at = 0; at < runs.length; at += 3) {
      const bytes = runs[at + 2]!;
      const target = runs[direction === 0 ? at + 1 : at]!;
      coverage.cells[base + classOf(SIZES, bytes)]!++;
      coverage.bytes += bytes;
      coverage.parity[bytes % 2]!++;
      coverage.alignment[target % 64 !== 0 ? 0 : target % 4096 !== 0 ? 1 : 2]!++;
    }
  }
}

/** A histogram: the name of what is counted, and how often each class of it came. */
export interface Histogram {
  readonly name: string;
  readonly classes: readonly { readonly name: string; readonly count: number }[];
}

export function histogramsOf(coverage: Coverage): Histogram[] {
  const places = placesOf();
  const along = (name: string, part: 0 | 1 | 2 | 3, names: readonly string[]): Histogram => ({
    name,
    classes: names.map((text, which) => ({
      name: text,
      count: places.reduce((sum, place, at) => sum + (place[part] === which ? coverage.cells[at]! : 0), 0),
    })),
  });
  const listed = (name: string, names: readonly string[], counts: readonly number[]): Histogram => ({
    name,
    classes: names.map((text, which) => ({ name: text, count: counts[which]! })),
  });
  const numbers = Array.from({ length: QUEUE_PAIRS }, (_, at) => `${at}`);
  return [
    along('direction', 0, DIRECTIONS),
    along('queue pair', 1, numbers),
    along(
      'work requests of the chain',
      2,
      CHAINS.map(({ name }) => name),
    ),
    along(
      'bytes',
      3,
      SIZES.map(({ name }) => name),
    ),
    listed('parity of the bytes', ['even', 'odd'], coverage.parity),
    listed('alignment of the target', ALIGNMENTS, coverage.alignment),
    listed(
      'scatter-gather entries',
      LISTS.map(({ name }) => name),
      coverage.lists,
    ),
    listed(
      'queue pairs of the transfer',
      numbers.map((at) => `${Number(at) + 1}`),
      coverage.sessions,
    ),
    listed('NICs of the transfer', ['1', '2'], coverage.nics),
    listed('notification', ['off', 'on'], coverage.notifications),
    listed('cut into chunks, by direction and queue pair', cutNames(), coverage.cut),
  ];
}

function placesOf(): (readonly [number, number, number, number])[] {
  return DIRECTIONS.flatMap((_, direction) =>
    Array.from({ length: QUEUE_PAIRS }, (_unused, queuePair) =>
      CHAINS.flatMap((_chain, chain) =>
        SIZES.map((_size, size) => [direction, queuePair, chain, size] as const),
      ),
    ).flat(),
  );
}

function cutNames(): string[] {
  return DIRECTIONS.flatMap((direction) =>
    Array.from({ length: QUEUE_PAIRS }, (_, queuePair) => `${direction} ${queuePair}`),
  );
}

/** Classes, and combinations of them, that nothing was in. */
export function missedOf(coverage: Coverage): string[] {
  const combinations = placesOf().flatMap(([direction, queuePair, chain, size], at) =>
    coverage.cells[at]! > 0
      ? []
      : [
          `${DIRECTIONS[direction]} of ${SIZES[size]!.name} on queue pair ${queuePair} in a chain of ${CHAINS[chain]!.name}`,
        ],
  );
  const classes = histogramsOf(coverage).flatMap(({ name, classes: all }) =>
    all.filter((one) => one.count === 0).map((one) => `${name}: ${one.name}`),
  );
  return [...classes, ...combinations];
}

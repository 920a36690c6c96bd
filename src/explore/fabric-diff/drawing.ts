import {
  about,
  type Cell,
  CHAINS,
  cellsOf,
  DIRECTIONS,
  type Pick,
  QUEUE_PAIRS,
  type Range,
  SIZES,
  type SizeClass,
} from './classes.ts';

/** From a seed to transfers: who moves how many bytes from where to where, and how the engine is to send them. */

/** One request of a transfer; offsets are relative to the two regions. */
export interface Piece {
  readonly local: number;
  readonly remote: number;
  readonly bytes: number;
}

export interface DrawnTransfer {
  readonly operation: 'read' | 'write';
  /** Where its chains begin, among the `queuePairs` of its session. */
  readonly queuePair: number;
  readonly queuePairs: number;
  readonly nics: number;
  /** Null without chunking. */
  readonly chunkBytes: number | null;
  readonly maxChunks: number;
  /** Whether the engine shares the work requests out to all queue pairs. */
  readonly spreads: boolean;
  readonly notifies: boolean;
  readonly maxSge: number;
  readonly pieces: readonly Piece[];
}

/** Transfers whose places have nothing in common, so that all of them may be under way at once. */
export interface Round {
  readonly transfers: readonly DrawnTransfer[];
  /** Bytes of each region that are in use. */
  readonly localBytes: number;
  readonly remoteBytes: number;
}

/** Bytes of a region. Two of the longest requests have room, and what comes with them. */
export const REGION_BYTES = 12 * 1024 * 1024;
/** Bytes on each side of a target that nobody may touch. */
export const GUARD_BYTES = 64;
/** The first bytes of a region: for the probes of `lockstep.ts`. */
export const PROBE_BYTES = 256;
/** What a request may need besides its bytes: two guards and a page of alignment. */
const SLACK_BYTES = 4096 + 2 * GUARD_BYTES;

const KEY = { shape: 1, size: 2, count: 3, filler: 4, place: 5, order: 6, list: 7 } as const;
const CHUNK_BYTES = [4096, 4097, 16_384, 65_536, 65_537, 262_144] as const;
const CHUNKS_MAX = [64, 64, 3, 1000] as const;
const LIST_ENTRIES = [4, 1, 8, 30] as const;
const SPREAD_TRANSFERS = 2;

/** Sizes of requests, and whether each continues the one before it at the far side, as one scatter-gather list does. */
interface Wanted {
  readonly bytes: number;
  readonly continues: boolean;
}

interface Wish {
  readonly transfer: Omit<DrawnTransfer, 'pieces'>;
  readonly wanted: readonly Wanted[];
}

/** All transfers of a seed, packed into rounds. */
export function roundsOf(seed: number, pick: Pick): Round[] {
  const wishes: Wish[] = [];
  for (const [index, cell] of cellsOf(seed).entries())
    for (const wish of wishesOf(cell, pick, index)) wishes.push(wish);
  for (let index = 0; index < SPREAD_TRANSFERS; index++) wishes.push(spreadWish(pick, index));
  return pack(wishes, pick);
}

function wishesOf(cell: Cell, pick: Pick, index: number): Wish[] {
  const featured = [cell.turn, 1 - cell.turn].map((parity, nth) =>
    sizeOf(SIZES[cell.size]!, parity, about(pick, KEY.size, index, nth)),
  );
  const transfer = transferOf(cell, about(pick, KEY.shape, index));
  const lone = featured.map((bytes) => [{ bytes, continues: false }]);
  if (cell.chain === 0) return lone.map((wanted) => ({ transfer, wanted }));
  const count = within(halfOf(CHAINS[cell.chain]!, cell.turn), about(pick, KEY.count, index));
  const fillers = fillersOf(count - featured.length, about(pick, KEY.filler, index));
  // One of them begins the chain and the other one ends it: both ends are places for mistakes.
  return [{ transfer, wanted: [...lone[0]!, ...fillers, ...lone[1]!] }];
}

function transferOf(cell: Cell, pick: Pick): Wish['transfer'] {
  const { direction, queuePair, isChunked } = cell;
  const queuePairs = queuePair + 1 + pick(QUEUE_PAIRS - queuePair, 1);
  return {
    operation: direction,
    queuePair,
    queuePairs,
    nics: queuePairs > 1 ? 1 + pick(2, 2) : 1,
    chunkBytes: isChunked ? CHUNK_BYTES[pick(CHUNK_BYTES.length, 3)]! : null,
    maxChunks: CHUNKS_MAX[pick(CHUNKS_MAX.length, 4)]!,
    spreads: false,
    notifies: pick(2, 5) === 1,
    maxSge: LIST_ENTRIES[pick(LIST_ENTRIES.length, 6)]!,
  };
}

/** One batch over all queue pairs at once. */
function spreadWish(pick: Pick, index: number): Wish {
  const own = about(pick, KEY.list, index);
  const cell = {
    direction: DIRECTIONS[index % 2]!,
    queuePair: QUEUE_PAIRS - 1,
    isChunked: own(2, 1) === 1,
    chain: 0,
    size: 0,
    turn: 0,
  };
  const wanted = fillersOf(8 + own(120, 2), about(own, 3));
  return { transfer: { ...transferOf(cell, own), spreads: true }, wanted };
}

function halfOf({ name, least, most }: Range, upper: number): Range {
  const middle = Math.ceil((least + most) / 2);
  return upper === 1 ? { name, least: middle, most } : { name, least, most: middle };
}

function within({ least, most }: Range, pick: Pick): number {
  return least + pick(most - least + 1);
}

/** At a border or anywhere, of the parity that is asked for. */
function sizeOf(range: SizeClass, parity: number, pick: Pick): number {
  const { least, most, borders } = range;
  const fitting = borders.filter((bytes) => bytes % 2 === parity);
  if (pick(2, 1) === 0 && fitting.length > 0) return fitting[pick(fitting.length, 2)]!;
  // Mostly near the lower end: the longest ones take most of the time and show no more.
  const span = pick(4, 3) === 0 ? most - least : Math.ceil((most - least) / 3);
  const bytes = least + pick(span + 1, 4);
  if (bytes % 2 === parity) return bytes;
  return bytes < most ? bytes + 1 : bytes - 1;
}

/** What stands between: small ones, and now and then pieces of one list. */
function fillersOf(count: number, pick: Pick): Wanted[] {
  const wanted: Wanted[] = [];
  let left = 0;
  for (let at = 0; at < count; at++) {
    const among = pick(100, at, 1);
    const size = SIZES[among < 70 ? 0 : among < 98 ? 1 : 2]!;
    const continues = left > 0;
    left = continues ? left - 1 : pick(4, at, 2) === 0 ? 1 + pick(7, at, 3) : 0;
    wanted.push({
      bytes: sizeOf(size, pick(2, at, 4), about(pick, at, 5)),
      continues,
    });
  }
  return wanted;
}

/** First fit in order; a round is full when one of its regions is. */
function pack(wishes: readonly Wish[], pick: Pick): Round[] {
  const rounds: Round[] = [];
  let transfers: DrawnTransfer[] = [];
  let places = new Places();
  const end = (): void => {
    const { local, remote } = places;
    if (transfers.length > 0) rounds.push({ transfers, localBytes: local, remoteBytes: remote });
    transfers = [];
    places = new Places();
  };
  for (const [index, { transfer, wanted }] of wishes.entries()) {
    const most = wanted.reduce((sum, { bytes }) => sum + bytes + SLACK_BYTES, 0);
    if (Math.max(places.local, places.remote) + most > REGION_BYTES) end();
    const pieces = wanted.map((want, at) => places.take(want, about(pick, KEY.place, index, at)));
    // The engine puts them in the order of the far side.
    if (pick(2, KEY.order, index, 1) === 1) pieces.reverse();
    transfers.push({ ...transfer, pieces });
  }
  end();
  return rounds;
}

class Places {
  local = PROBE_BYTES;
  remote = PROBE_BYTES;

  take({ bytes, continues }: Wanted, pick: Pick): Piece {
    const local = placeAfter(this.local, about(pick, 1));
    const remote = continues ? this.remote - GUARD_BYTES : placeAfter(this.remote, about(pick, 2));
    this.local = local + bytes + GUARD_BYTES;
    this.remote = remote + bytes + GUARD_BYTES;
    return { local, remote, bytes };
  }
}

/** Anywhere, at a cache line, or at a page's start, or one byte before or after it. */
function placeAfter(from: number, pick: Pick): number {
  const least = from + GUARD_BYTES + 1;
  const way = pick(16, 1);
  if (way < 10) return least + pick(64, 2);
  if (way < 14) return Math.ceil(least / 64) * 64;
  return Math.ceil(least / 4096) * 4096 + pick(3, 3) - 1;
}

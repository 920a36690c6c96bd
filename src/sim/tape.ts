import { UsageError } from '../base/failure.ts';
import { finish, mix } from '../base/mix.ts';

/**
 * Every choice of the world is a draw: a value for a key made of what the choice is about. Value 0 is always the plain
 * choice (first in first out, no fault, no delay, the smallest workload), so that the empty tape is the plain run and a
 * tape lists only what differs from it.
 */

/** What a draw decides. The numbers are part of the tape format: add at the end, never renumber. */
export const DRAW = {
  /** Which faults and delays this schedule has at all. */
  profile: 0,
  /** Cluster shape and cache layout. */
  shape: 1,
  /** One request's size, kind, prefix, arrival. */
  workload: 2,
  /** Microseconds a message is held back. */
  deliverDelay: 3,
  /** What becomes of a message between peers. */
  fate: 4,
  /** Microseconds a timer is late. */
  timerDelay: 5,
  /** Microseconds a turn is held back. */
  turnDelay: 6,
  /** Microseconds a work request takes longer. */
  landDelay: 7,
  /** Microseconds a completion takes longer to be seen. */
  completeDelay: 8,
  /** When a client goes away. */
  abort: 9,
  /** When a rank dies. */
  crash: 10,
  /** A message from nobody. */
  stray: 11,
  /** What the NIC does to what is posted. */
  nicFate: 12,
  /** How many times slower than its profile a rank's NIC is, less one. */
  slowNic: 13,
  /** After how many statements a thread of the connector is preempted. */
  preemption: 14,
} as const;

export type DrawKind = (typeof DRAW)[keyof typeof DRAW];

export const DRAW_NAMES = Object.fromEntries(Object.entries(DRAW).map(([name, kind]) => [kind, name])) as {
  readonly [kind: number]: keyof typeof DRAW;
};

export interface TapeEntry {
  readonly draw: DrawKind;
  /** Actor or pair of actors. */
  readonly actor: number;
  /** Kind of the thing: message kind, timer, thread, layer. */
  readonly kind: number;
  /** Transfer, request, step or peer. */
  readonly object: number;
  /** How many with the same three came before. */
  readonly occurrence: number;
  readonly value: number;
}

export interface Tape {
  choose(
    draw: DrawKind,
    actor: number,
    kind: number,
    object: number,
    occurrence: number,
    pick: (hash: number) => number,
  ): number;
  /** The draws so far that were not plain; empty unless recording was asked for. */
  readonly recorded: readonly TapeEntry[];
}

/** Draws from a counter-based generator over (seed, key). */
export function seededTape(seed: number, record: boolean): Tape {
  const recorded: TapeEntry[] = [];
  return {
    recorded,
    choose(draw, actor, kind, object, occurrence, pick) {
      const value = pick(finish(mix(mix(mix(mix(mix(seed, draw), actor), kind), object), occurrence)));
      if (record && value !== 0) recorded.push({ draw, actor, kind, object, occurrence, value });
      return value;
    },
  };
}

function nameOf(draw: number, actor: number, kind: number, object: number, occurrence: number): string {
  return `${draw}.${actor}.${kind}.${object}.${occurrence}`;
}

/** Draws from a list; everything that is not listed is plain. Remembers which entries were asked for. */
export function replayTape(entries: readonly TapeEntry[]): Tape {
  const values = new Map(
    entries.map((entry) => [
      nameOf(entry.draw, entry.actor, entry.kind, entry.object, entry.occurrence),
      entry,
    ]),
  );
  const recorded: TapeEntry[] = [];
  return {
    recorded,
    choose(draw, actor, kind, object, occurrence) {
      const entry = values.get(nameOf(draw, actor, kind, object, occurrence));
      if (entry === undefined || entry.value === 0) return 0;
      recorded.push(entry);
      return entry.value;
    },
  };
}

/** Longest delay a tape may hold: an hour. A run full of them stays within the bound on virtual time. */
export const DELAY_MICROS_MAX = 3_600_000_000;
export const TAPE_ENTRIES_MAX = 100_000;

/** Checks a tape that came from outside: rows of six integers. `where` names the file or line in the error. */
export function readTape(rows: unknown, where: string): TapeEntry[] {
  if (!Array.isArray(rows))
    throw new UsageError('TAPE-FORM', `${where}: the tape must be a list of rows of six integers`);
  if (rows.length > TAPE_ENTRIES_MAX)
    throw new UsageError('TAPE-FORM', `${where}: ${rows.length} rows, at most ${TAPE_ENTRIES_MAX} are read`);
  return rows.map((row: unknown, index) => {
    const fine =
      Array.isArray(row) &&
      row.length === 6 &&
      row.every((value) => Number.isSafeInteger(value) && value >= 0 && value <= DELAY_MICROS_MAX);
    if (!fine)
      throw new UsageError(
        'TAPE-FORM',
        `${where}: row ${index} must be six integers from 0 to ${DELAY_MICROS_MAX}`,
      );
    const [draw, actor, kind, object, occurrence, value] = row as [
      number,
      number,
      number,
      number,
      number,
      number,
    ];
    if (DRAW_NAMES[draw] === undefined)
      throw new UsageError(
        'TAPE-FORM',
        `${where}: row ${index} begins with ${draw}, which is no kind of draw`,
      );
    return { draw: draw as DrawKind, actor, kind, object, occurrence, value };
  });
}

export function tapeRows(entries: readonly TapeEntry[]): number[][] {
  return entries.map((entry) => [
    entry.draw,
    entry.actor,
    entry.kind,
    entry.object,
    entry.occurrence,
    entry.value,
  ]);
}

/** Counts equal keys within one run: `occurrence` of a key is how often it was asked for before. */
export interface Occurrences {
  next(draw: number, actor: number, kind: number, object: number): number;
}

export function createOccurrences(): Occurrences {
  let size = 512;
  let hashes = new Uint32Array(size);
  let counts = new Uint32Array(size);
  let used = 0;
  const slotOf = (hash: number): number => {
    let slot = hash & (size - 1);
    while (counts[slot] !== 0 && hashes[slot] !== hash) slot = (slot + 1) & (size - 1);
    return slot;
  };
  const grow = (): void => {
    const [oldHashes, oldCounts] = [hashes, counts];
    size *= 2;
    hashes = new Uint32Array(size);
    counts = new Uint32Array(size);
    oldHashes.forEach((hash, index) => {
      if (oldCounts[index] === 0) return;
      const slot = slotOf(hash);
      hashes[slot] = hash;
      counts[slot] = oldCounts[index]!;
    });
  };
  return {
    next(draw, actor, kind, object) {
      // The draw is folded in by itself: mixed straight with the actor, two draws of two actors would share a count.
      const hash = finish(mix(mix(mix(mix(0, draw + 1), actor), kind), object));
      let slot = slotOf(hash);
      if (counts[slot] === 0 && ++used * 2 > size) {
        grow();
        slot = slotOf(hash);
      }
      hashes[slot] = hash;
      return counts[slot]!++;
    },
  };
}

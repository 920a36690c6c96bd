import { UsageError } from '../base/failure.ts';
import { finish, mix } from '../base/mix.ts';
import { idOfName, idOfWord, nameOfId, objectLetter } from './key-names.ts';

/**
 * Every choice of the world is a draw: a value for a key made of what the choice is about. Value 0 is always the plain
 * choice (first in first out, no fault, no delay, the smallest workload), so that the empty tape is the plain run and a
 * tape lists only what differs from it.
 */

/** What a draw decides. The names are part of the tape format, the numbers of what a seed means: never renumber. */
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
  /** Who: an actor (`P0.r1`), one and another (`P0.r1>D0.r0`), the cluster, or its clients. */
  readonly who: string;
  /** Kind of the thing: the name of a message, or the number of a timer, a thread, a layer. */
  readonly kind: string;
  /** Transfer, request, step or whatever else the thing is about. */
  readonly object: number;
  /** How many with the same four came before. */
  readonly occurrence: number;
  readonly value: number;
}

/**
 * Who and kind are numbers of names (key-names.ts), or plain numbers below 2^32; an object is a whole number. All of each
 * counts.
 */
export interface Tape {
  choose(
    draw: DrawKind,
    who: number,
    kind: number,
    object: number,
    occurrence: number,
    pick: (hash: number) => number,
  ): number;
  /** The draws so far that were not plain; empty unless recording was asked for. */
  readonly recorded: readonly TapeEntry[];
}

const WORD = 0x1_0000_0000;

/** Folds in a whole number up to 2^53; what is below 2^32 as {@link mix} does. */
function fold(hash: number, value: number): number {
  return value < WORD ? mix(hash, value) : mix(mix(hash, value), value / WORD);
}

function hashOf(root: number, draw: number, who: number, kind: number, object: number): number {
  return fold(fold(fold(mix(root, draw), who), kind), object);
}

/** Draws from a counter-based generator over (seed, key). */
export function seededTape(seed: number, record: boolean): Tape {
  const recorded: TapeEntry[] = [];
  return {
    recorded,
    choose(draw, who, kind, object, occurrence, pick) {
      const value = pick(finish(fold(hashOf(seed, draw, who, kind, object), occurrence)));
      if (record && value !== 0)
        recorded.push({ draw, who: nameOfId(who), kind: nameOfId(kind), object, occurrence, value });
      return value;
    },
  };
}

/** An entry with the numbers that a run asks by. */
interface Numbered {
  readonly entry: TapeEntry;
  readonly who: number;
  readonly kind: number;
}

/** Draws from a list; everything that is not listed is plain. Remembers which entries were asked for. */
export function replayTape(entries: readonly TapeEntry[]): Tape {
  const byHash = new Map<number, Numbered[]>();
  for (const entry of entries) {
    const numbered = { entry, who: idOfName(entry.who), kind: idOfWord(entry.kind) };
    const hash = fold(hashOf(0, entry.draw, numbered.who, numbered.kind, entry.object), entry.occurrence);
    const others = byHash.get(hash);
    if (others === undefined) byHash.set(hash, [numbered]);
    else others.unshift(numbered);
  }
  const recorded: TapeEntry[] = [];
  return {
    recorded,
    choose(draw, who, kind, object, occurrence) {
      const alike = byHash.get(fold(hashOf(0, draw, who, kind, object), occurrence));
      const found = alike?.find(
        (one) =>
          one.who === who &&
          one.kind === kind &&
          one.entry.draw === draw &&
          one.entry.object === object &&
          one.entry.occurrence === occurrence,
      );
      if (found === undefined || found.entry.value === 0) return 0;
      recorded.push(found.entry);
      return found.entry.value;
    },
  };
}

/** Longest delay a tape may hold: an hour. A run full of them stays within the bound on virtual time. */
export const DELAY_MICROS_MAX = 3_600_000_000;
export const TAPE_ENTRIES_MAX = 100_000;

/** The key as a text: `P0.r1>D0.r0/fate.grant/t3/0`. The letter says what the object is, for a reader; it counts for nothing. */
export function keyText({ draw, who, kind, object, occurrence }: TapeEntry): string {
  return `${who}/${DRAW_NAMES[draw]}.${kind}/${objectLetter(DRAW_NAMES[draw]!, kind)}${object}/${occurrence}`;
}

const KEY = /^([^/\s]{1,100})\/([a-zA-Z]{1,20})\.([\w.-]{1,40})\/[a-z]?(\d{1,16})\/(\d{1,9})$/;

const DRAWS_BY_NAME: ReadonlyMap<string, DrawKind> = new Map(Object.entries(DRAW));

/** Checks a tape that came from outside: rows of a key and a value. `where` names the file or line in the error. */
export function readTape(rows: unknown, where: string): TapeEntry[] {
  if (!Array.isArray(rows))
    throw new UsageError('TAPE-FORM', `${where}: the tape must be a list of rows [key, value]`);
  if (rows.length > TAPE_ENTRIES_MAX)
    throw new UsageError('TAPE-FORM', `${where}: ${rows.length} rows, at most ${TAPE_ENTRIES_MAX} are read`);
  return rows.map((row: unknown, index) => readRow(row, `${where}: row ${index}`));
}

function readRow(row: unknown, where: string): TapeEntry {
  if (!Array.isArray(row) || row.length !== 2 || typeof row[0] !== 'string')
    throw new UsageError(
      'TAPE-FORM',
      `${where} must be [key, value], such as ["P0.r0>D0.r0/fate.grant/t1/0", 1]`,
    );
  const [text, value] = row as [string, unknown];
  if (!Number.isSafeInteger(value) || (value as number) < 0 || (value as number) > DELAY_MICROS_MAX)
    throw new UsageError('TAPE-FORM', `${where}: its value must be an integer from 0 to ${DELAY_MICROS_MAX}`);
  const [, who = '', name = '', kind = '', object = '', occurrence = ''] = KEY.exec(text) ?? [];
  const draw = DRAWS_BY_NAME.get(name);
  if (draw === undefined || !Number.isSafeInteger(Number(object)))
    throw new UsageError(
      'TAPE-FORM',
      `${where}: its key must be who/draw.kind/object/occurrence, such as P0.r0>D0.r0/fate.grant/t1/0, with one of the draws ${[...DRAWS_BY_NAME.keys()].join(', ')}`,
    );
  return { draw, who, kind, object: Number(object), occurrence: Number(occurrence), value: value as number };
}

export function tapeRows(entries: readonly TapeEntry[]): [string, number][] {
  return entries.map((entry) => [keyText(entry), entry.value]);
}

/** Counts equal keys within one run: `occurrence` of a key is how often it was asked for before. */
export interface Occurrences {
  next(draw: number, who: number, kind: number, object: number): number;
}

/** Where the two lanes of a key's hash begin: 64 bits, so that no two keys of a run share a count. */
const [LOW_ROOT, HIGH_ROOT] = [0, 0x68696768];

export function createOccurrences(): Occurrences {
  let size = 512;
  let lows = new Uint32Array(size);
  let highs = new Uint32Array(size);
  let counts = new Uint32Array(size);
  let used = 0;
  const slotOf = (low: number, high: number): number => {
    let slot = low & (size - 1);
    while (counts[slot] !== 0 && (lows[slot] !== low || highs[slot] !== high)) slot = (slot + 1) & (size - 1);
    return slot;
  };
  const grow = (): void => {
    const [oldLows, oldHighs, oldCounts] = [lows, highs, counts];
    size *= 2;
    lows = new Uint32Array(size);
    highs = new Uint32Array(size);
    counts = new Uint32Array(size);
    oldLows.forEach((low, index) => {
      if (oldCounts[index] === 0) return;
      const slot = slotOf(low, oldHighs[index]!);
      lows[slot] = low;
      highs[slot] = oldHighs[index]!;
      counts[slot] = oldCounts[index]!;
    });
  };
  return {
    next(draw, who, kind, object) {
      // The draw is folded in by itself: mixed straight with the actor, two draws of two actors would share a count.
      const low = finish(hashOf(LOW_ROOT, draw + 1, who, kind, object));
      const high = finish(hashOf(HIGH_ROOT, draw + 1, who, kind, object));
      let slot = slotOf(low, high);
      if (counts[slot] === 0 && ++used * 2 > size) {
        grow();
        slot = slotOf(low, high);
      }
      lows[slot] = low;
      highs[slot] = high;
      return counts[slot]!++;
    },
  };
}

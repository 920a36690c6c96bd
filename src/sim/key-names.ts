import { BrokenBelief } from '../base/failure.ts';
import { finish, mix } from '../base/mix.ts';
import type { Topology } from '../base/topology.ts';

/**
 * The names in the keys of draws, and the numbers that stand for them within a run. A number comes from its name alone, so
 * that a draw is the same in every cluster that has its actors: 53 bits, and above 2^32, where no plain number lies that
 * a key may also hold (a timer, a layer, a thread).
 */

const [LOW, HIGH] = [0x6c6f77, 0x68696768];
const WORD = 0x1_0000_0000;
/** Names that are kept from run to run; those of a connector may be many. */
const NAMES_MAX = 50_000;

const ids = new Map<string, number>();
const names = new Map<number, string>();
let keys = new WeakMap<Topology, ActorKeys>();

/** The number of a name. @throws BrokenBelief INV-TAPE-1 when another name has it */
export function idOfName(name: string): number {
  return ids.get(name) ?? intern(name);
}

function intern(name: string): number {
  let low = LOW;
  let high = HIGH;
  for (let at = 0; at < name.length; at++) {
    const code = name.charCodeAt(at);
    low = mix(low, code);
    high = mix(high, code ^ low);
  }
  const id = (1 + (finish(high) & 0xfffff)) * WORD + finish(low);
  const other = names.get(id);
  if (other !== undefined)
    throw new BrokenBelief(
      'INV-TAPE-1',
      `the names ${other} and ${name} have one number in the keys of draws`,
    );
  ids.set(name, id);
  names.set(id, name);
  return id;
}

/** The name that has the number; of a plain number its digits. */
export function nameOfId(id: number): string {
  return id < WORD ? String(id) : names.get(id)!;
}

/** The number of what a key says: digits are a plain number, all else is a name. */
export function idOfWord(word: string): number {
  return /^\d{1,9}$/.test(word) ? Number(word) : idOfName(word);
}

/** The numbers of a cluster's actors, and of each pair: `pairs[from * actors.length + to]`. */
export interface ActorKeys {
  readonly actors: Float64Array;
  readonly pairs: Float64Array;
}

/** Asked once for each run, before any number of it is used: where too many names have gathered, they are forgotten here. */
export function actorKeys(topology: Topology): ActorKeys {
  if (names.size > NAMES_MAX) {
    ids.clear();
    names.clear();
    keys = new WeakMap();
  }
  const known = keys.get(topology);
  if (known !== undefined) return known;
  const words = topology.actors.map(({ name }) => keyNameOf(name));
  const made = {
    actors: Float64Array.from(words, idOfName),
    pairs: Float64Array.from(
      words.flatMap((from) => words.map((to) => `${from}>${to}`)),
      idOfName,
    ),
  };
  keys.set(topology, made);
  return made;
}

/** The first DP rank of an instance has one name whether or not there are others, and no name holds a separator of keys. */
export function keyNameOf(actor: string): string {
  return actor.replace('/0', '').replace('/', '+');
}

/** What draws about the whole cluster and about its clients are asked by. */
export const CLUSTER = 'cluster';
export const CLIENTS = 'clients';

/** What the object of a draw is, for a reader: t for a transfer, r for a request, and so on. */
const LETTERS = new Map<string, string>();
const OF_DRAWS: { readonly [draw: string]: string } = {
  workload: 'r',
  abort: 'r',
  landDelay: 't',
  nicFate: 't',
  completeDelay: 't',
};

/** Says what messages of that name are about. */
export function labelObjects(name: string, field: string): void {
  LETTERS.set(name, field.charAt(0).toLowerCase());
}

/** A letter, or '' where the object is a number and nothing more. */
export function objectLetter(draw: string, kind: string): string {
  const letter = LETTERS.get(kind) ?? (/^\d+$/.test(kind) ? OF_DRAWS[draw] : undefined) ?? '';
  return draw === 'workload' || draw === 'abort' ? 'r' : letter;
}

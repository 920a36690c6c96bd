import { decode, encode } from '@msgpack/msgpack';
import { below, finish, mix } from '../../src/base/mix.ts';

/** Ways to spoil the bytes of a message. */

/** A source of choices that is the same for the same seed. */
export class Dice {
  #state: number;
  constructor(seed: number) {
    this.#state = finish(mix(0xf0220, seed));
  }
  below(count: number): number {
    this.#state = finish(mix(this.#state, count));
    return below(this.#state, count);
  }
  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!;
  }
}

type Mutation = (dice: Dice, bytes: Uint8Array, seeds: readonly Uint8Array[]) => Uint8Array;

const WIDE_TAGS = [0xdb, 0xc6, 0xc9, 0xdd, 0xdf, 0xda, 0xc5, 0xc8, 0xdc, 0xde];
export const COUNTS = [0xffff_ffff, 0x8000_0000, 0x7fff_ffff, 0x0100_0000, 0x0001_0000, 0x1000, 0x20];

/** Msgpack of values that are sound by themselves: infinities, the widest numbers, nil, empty and nested ones. */
const ODD_VALUES: readonly (readonly number[])[] = [
  [0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0],
  [0xcb, 0x7f, 0xf0, 0, 0, 0, 0, 0, 0],
  [0xcb, 0x80, 0, 0, 0, 0, 0, 0, 0],
  [0xcb, 0x43, 0x3f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
  [0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
  [0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0],
  [0xcf, 0, 0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
  [0xce, 0xff, 0xff, 0xff, 0xff],
  [0xd2, 0x80, 0, 0, 0],
  [0xff],
  [0xc0],
  [0xc3],
  [0x90],
  [0x80],
  [0xa0],
  [0xc4, 0],
  [0x93, 1, 1, 1],
  [0xd6, 0xff, 0, 0, 0, 0],
  [0xa1, 0xff],
];

export const MUTATIONS: { readonly [name: string]: Mutation } = {
  bits: (dice, bytes) => {
    const out = bytes.slice();
    for (let flips = 1 + dice.below(4); flips > 0; flips--)
      if (out.length > 0) out[dice.below(out.length)]! ^= 1 << dice.below(8);
    return out;
  },
  cut: (dice, bytes) => bytes.slice(0, dice.below(bytes.length + 1)),
  splice: (dice, bytes, seeds) => {
    const other = dice.pick(seeds);
    return joined(
      bytes.subarray(0, dice.below(bytes.length + 1)),
      other.subarray(dice.below(other.length + 1)),
    );
  },
  inflate: (dice, bytes) => {
    const tag = dice.pick(WIDE_TAGS);
    const count = dice.pick(COUNTS);
    const wide = [tag, count >>> 24, (count >>> 16) & 255, (count >>> 8) & 255, count & 255];
    const heads = Array.from({ length: 1 + dice.below(8) }, () => wide).flat();
    return replaced(dice, bytes, heads);
  },
  nest: (dice, bytes) => {
    const level = dice.pick([[0x91], [0x81, 0xa1, 0x78], [0xdc, 0, 1], [0x81]]);
    const levels = dice.pick([3, 15, 16, 17, 40, dice.below(50) === 0 ? 10_000 : 100]);
    return replaced(dice, bytes, Array.from({ length: levels }, () => level).flat());
  },
  odd: (dice, bytes) => replaced(dice, bytes, dice.pick(ODD_VALUES)),
  doubled: (dice, bytes) => {
    const at = dice.below(bytes.length + 1);
    return joined(bytes.subarray(0, at), bytes.subarray(dice.below(at + 1)));
  },
  field: (dice, bytes) => withOddField(dice, bytes),
  random: (dice) => Uint8Array.from({ length: dice.below(64) }, () => dice.below(256)),
};
/** Sound msgpack in which one value, at some depth, is another one. What is no msgpack keeps its form and loses a bit. */
function withOddField(dice: Dice, bytes: Uint8Array): Uint8Array {
  let value: unknown;
  try {
    value = decode(bytes, { useBigInt64: true });
  } catch {
    return MUTATIONS['bits']!(dice, bytes, []);
  }
  let place = { inside: value } as Record<string, unknown>;
  let key = 'inside';
  for (let depth = 1 + dice.below(6); depth > 0; depth--) {
    const inner = place[key];
    if (typeof inner !== 'object' || inner === null || inner instanceof Uint8Array) break;
    const keys = Object.keys(inner);
    if (keys.length === 0) break;
    place = inner as Record<string, unknown>;
    key = dice.pick(keys);
  }
  place[key] = dice.below(2) === 0 ? dice.below(10) : dice.pick(FIELD_VALUES);
  return encode(key === 'inside' ? place[key] : value, { useBigInt64: true });
}

const FIELD_VALUES: readonly unknown[] = [
  63,
  1024,
  1025,
  2 ** 32,
  Number.MAX_SAFE_INTEGER,
  2 ** 53,
  -1,
  -0,
  0.5,
  Number.NaN,
  true,
  null,
  '',
  'prefill',
  [],
  [1, 1],
  [1, 2, 3, 4],
  {},
  new Uint8Array(0),
  Uint8Array.of(0xc1),
];

export const MUTATION_NAMES = Object.keys(MUTATIONS);

export function joined(first: ArrayLike<number>, second: ArrayLike<number>): Uint8Array {
  const out = new Uint8Array(first.length + second.length);
  out.set(first);
  out.set(second, first.length);
  return out;
}

/** The bytes in the place of one object's first bytes: of its tag, of a number of 9 bytes, or of none. */
function replaced(dice: Dice, bytes: Uint8Array, by: readonly number[]): Uint8Array {
  const at = dice.below(bytes.length + 1);
  return joined(joined(bytes.subarray(0, at), by), bytes.subarray(at + dice.pick([0, 1, 1, 1, 9])));
}

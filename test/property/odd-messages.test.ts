import { describe, expect, test } from 'vitest';
import { below, finish, mix } from '../../src/base/mix.ts';
import type { ShippedName } from '../../src/connector/shipped/messages.ts';
import type { Message } from '../../src/wire/messages.ts';
import { frameOf } from '../helpers/messages.ts';
import { type Mail, ShippedRanks } from '../helpers/shipped-ranks.ts';

// Whatever peers and strangers say, in whatever phase of either half: no rank ends, nothing is left, and the pair goes on.

/** Whole numbers of all kinds, and what is none. */
const ODD_NUMBERS = [
  0,
  1,
  2,
  3,
  5,
  9,
  63,
  255,
  1000,
  1024,
  1025,
  2 ** 31,
  2 ** 32,
  2 ** 52,
  Number.MAX_SAFE_INTEGER,
  2 ** 53,
  -1,
  -0,
  0.5,
  1e300,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
];

/** A source of choices that is the same for the same seed. */
class Dice {
  #state: number;
  constructor(seed: number) {
    this.#state = finish(mix(0x0dd, seed));
  }
  below(count: number): number {
    this.#state = finish(mix(this.#state, count));
    return below(this.#state, count);
  }
  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!;
  }
  number(): number {
    // Small ones are those of live transfers.
    return this.below(2) === 0 ? this.below(6) : this.pick(ODD_NUMBERS);
  }
}

const KINDS = ['metaRequest', 'metaReply', 'claim', 'grant', 'refuse', 'seal', 'sealAck', 'revoke'] as const;

/** A message with every field that any kind has; the kind says which of them count. */
function forge(dice: Dice, name: ShippedName): Message {
  const numbers = ['attempt', 'epoch', 'transfer', 'tpSize', 'grant', 'firstSlot', 'slotFrom', 'slotTo'];
  const blocks = Array.from({ length: dice.below(6) }, () => dice.number());
  const view = {
    layer: dice.number(),
    group: 0,
    parts: dice.below(2) === 0 ? [] : [{ name: 'k', region: 0, base: 0, pageUnits: dice.number() }],
    blockCount: dice.number(),
    blockUnits: dice.number(),
  };
  const geometry = {
    engine: dice.number(),
    role: dice.pick(['prefill', 'decode']),
    tpRank: dice.number(),
    tpSize: dice.number(),
    blockTokens: 4,
    views: Array.from({ length: dice.below(4) }, () => view),
  };
  const bytes = (): Uint8Array => Uint8Array.from({ length: dice.below(9) }, () => dice.below(256));
  return {
    ...Object.fromEntries(numbers.map((field) => [field, dice.number()])),
    kind: 'peer',
    name,
    ok: dice.below(2) === 0,
    blocks,
    geometry,
    engineDesc: bytes(),
    memoryDesc: bytes(),
  } as unknown as Message;
}

/** A real message with one of its fields spoiled; in a handshake perhaps one of its geometry. */
function spoil(dice: Dice, message: Message): Message {
  const copy = structuredClone(message) as unknown as Record<string, unknown>;
  const inner = copy['geometry'] as { views: Record<string, unknown>[] } | undefined;
  const target = inner !== undefined && dice.below(2) === 0 ? inner.views[dice.below(2)]! : copy;
  const fields = Object.keys(target).filter((field) => field !== 'kind' && field !== 'name');
  const field = dice.pick(fields);
  const value = target[field];
  if (typeof value === 'number') target[field] = dice.number();
  else if (Array.isArray(value)) target[field] = dice.below(2) === 0 ? [] : [...value, ...value];
  else if (value instanceof Uint8Array) target[field] = value.slice(0, dice.below(value.length));
  else if (typeof value === 'boolean') target[field] = !value;
  return copy as unknown as Message;
}

function asFrame(message: Message): Message {
  return { kind: 'bytes', port: 'notify', bytes: frameOf(message) };
}

interface Seen {
  forged: number;
  readonly refused: Set<string>;
  /** Kinds of message and transfers that were live when one came. */
  readonly live: Set<string>;
}

/** Transfers between P and both D, with odd messages thrown in wherever the dice say; then what waits is worked off. */
function attack(all: ShippedRanks, dice: Dice, seen: Seen): void {
  const actors = all.topology.actors.map(({ actor }) => actor);
  const ranks = all.topology.engines.flatMap(({ ranks }) => ranks);
  const starts: (() => void)[] = [1, 2, 3, 4].flatMap((transfer) => {
    const engine = 1 + (transfer & 1);
    return [() => all.startPrefill(transfer, engine), () => all.startDecode(transfer, engine)];
  });
  starts.push(() => all.cancel(2, 0));
  starts.push(() => all.cancel(2, 1));
  for (let step = 0; step < 200; step++) {
    const what = dice.below(8);
    if (what === 0 && starts.length > 0) starts.splice(dice.below(starts.length), 1)[0]!();
    else if (what <= 2) {
      const kind = dice.pick(KINDS);
      const message = forge(dice, kind);
      const from = dice.below(16) === 0 ? dice.number() : dice.pick(actors);
      seen.live.add(`${kind} ${all.census() > 0}`);
      throwIn(all, seen, {
        from,
        to: dice.pick(ranks),
        message: dice.below(2) === 0 ? message : asFrame(message),
      });
    } else if (what === 3 && all.mail.length > 0) {
      const { from, to, message } = dice.pick(all.mail);
      const told = spoil(dice, message);
      throwIn(all, seen, { from, to, message: dice.below(2) === 0 ? told : asFrame(told) });
    } else if (all.mail.length > 0 || dice.below(3) === 0) all.advance(dice.below(1 << 16));
  }
  for (const start of starts) start();
  all.finish();
}

function throwIn(all: ShippedRanks, seen: Seen, mail: Mail): void {
  seen.forged++;
  all.deliver(mail);
}

describe.each(['write', 'read'] as const)('in %s mode', (mode) => {
  const seen: Seen = { forged: 0, refused: new Set(), live: new Set() };

  test('odd messages end no rank, leave nothing behind and poison no pair', () => {
    for (let seed = 0; seed < 70; seed++) {
      const dice = new Dice(seed);
      const shape = { mode, prefillTp: dice.pick([1, 2, 4]), decodeTp: dice.pick([1, 2]), heads: 2 };
      const all = new ShippedRanks(shape);
      attack(all, dice, seen);
      for (const { reason, fields } of all.refused)
        seen.refused.add(
          `${reason} ${fields['message'] ?? ''} ${String(fields['cause'] ?? '').replace(/\d+/g, '#')}`,
        );
      expect([seed, all.census()]).toEqual([seed, 0]);
      // What the peers were made to believe of each other may cost one more request, and no second one.
      let reports: string[] = [];
      for (const transfer of [50, 51]) {
        const before = all.ended.length;
        all.startDecode(transfer, 1);
        all.startPrefill(transfer, 1);
        all.finish();
        reports = all.ended.slice(before).map((end) => end.split(' ')[1]!);
      }
      expect([seed, ...new Set(reports)].sort()).toEqual([seed, 'received', 'sent']);
      expect(all.census()).toBe(0);
    }
  });

  test('they came in many phases and were refused for many causes', () => {
    expect(seen.forged).toBeGreaterThan(2500);
    expect(seen.live.size).toBe(2 * KINDS.length);
    expect(seen.refused.size).toBeGreaterThan(25);
  });
});

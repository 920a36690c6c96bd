import { encode } from '@msgpack/msgpack';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { WHOLE_CONTEXT } from '../../../src/base/cache-view.ts';
import { finish, mix } from '../../../src/base/mix.ts';
import { FORMS, type ShippedMessage, type ShippedName } from '../../../src/connector/shipped/messages.ts';
import { layView } from '../../../src/kv/view.ts';
import { decodePeerMessage, encodePeerMessage, PEER_FRAME_BYTES_MAX } from '../../../src/wire/peer-codec.ts';

const index = fc.oneof(fc.nat({ max: 300 }), fc.nat({ max: Number.MAX_SAFE_INTEGER }), fc.constant(2 ** 32));
const bytes = fc.uint8Array({ maxLength: 40 });
const layer = fc
  .record({
    order: fc.constantFrom('KBNH', 'BKHN', 'BHNK'),
    blockCount: fc.integer({ min: 1, max: 300 }),
    blockUnits: fc.integer({ min: 1, max: 16 }),
    unitTokens: fc.constantFrom(1, 16),
    cellBytes: fc.constantFrom(16, 32, 1152),
    headFirst: fc.nat({ max: 8 }),
    headCount: fc.integer({ min: 1, max: 8 }),
    context: fc.constantFrom(WHOLE_CONTEXT, { ranks: 4, rank: 3, interleaveUnits: 2 }),
  })
  .map((shape) => layView(0, 0, shape));

/** One arbitrary for each kind; the compiler sees to it that none is missing. */
const BY_KIND: { readonly [N in ShippedName]: fc.Arbitrary<ShippedMessage<N>> } = {
  metaRequest: fc.record({ kind: fc.constant('peer'), name: fc.constant('metaRequest'), attempt: index }),
  metaReply: fc.record({
    kind: fc.constant('peer'),
    name: fc.constant('metaReply'),
    attempt: index,
    epoch: index,
    engineDesc: bytes,
    memoryDesc: bytes,
    geometry: fc.record({
      engine: index,
      role: fc.constantFrom('prefill', 'decode'),
      tpRank: index,
      tpSize: index,
      blockTokens: index,
      views: fc.array(layer, { maxLength: 3 }),
    }),
  }),
  claim: fc.record({
    kind: fc.constant('peer'),
    name: fc.constant('claim'),
    transfer: index,
    tpSize: index,
    attempt: index,
  }),
  grant: fc.record({
    kind: fc.constant('peer'),
    name: fc.constant('grant'),
    transfer: index,
    grant: index,
    blocks: fc.array(index, { maxLength: 20 }),
    epoch: index,
    firstSlot: index,
    slotFrom: index,
    slotTo: index,
    attempt: index,
  }),
  refuse: fc.record({
    kind: fc.constant('peer'),
    name: fc.constant('refuse'),
    transfer: index,
    attempt: index,
  }),
  seal: fc.record({
    kind: fc.constant('peer'),
    name: fc.constant('seal'),
    transfer: index,
    ok: fc.boolean(),
    tpSize: index,
    attempt: index,
  }),
  sealAck: fc.record({
    kind: fc.constant('peer'),
    name: fc.constant('sealAck'),
    transfer: index,
    attempt: index,
  }),
  revoke: fc.record({
    kind: fc.constant('peer'),
    name: fc.constant('revoke'),
    transfer: index,
    grant: index,
    attempt: index,
  }),
};

const message: fc.Arbitrary<ShippedMessage> = fc.oneof(...Object.values(BY_KIND));

test('every kind of message reads back as it was written', () => {
  const kinds = new Map<string, number>();
  fc.assert(
    fc.property(message, (sent) => {
      kinds.set(sent.name, (kinds.get(sent.name) ?? 0) + 1);
      expect(decodePeerMessage(encodePeerMessage(sent, FORMS), FORMS)).toEqual(sent);
    }),
    { seed: 42, numRuns: 800 },
  );
  for (const kind of Object.keys(BY_KIND)) expect([kind, (kinds.get(kind) ?? 0) > 40]).toEqual([kind, true]);
});

test('a frame reads the same in the middle of a larger buffer', () => {
  const frame = encodePeerMessage({ kind: 'peer', name: 'claim', transfer: 7, tpSize: 2, attempt: 0 }, FORMS);
  const larger = new Uint8Array(frame.length + 13).fill(0xaa);
  larger.set(frame, 5);
  expect(decodePeerMessage(larger.subarray(5, 5 + frame.length), FORMS)).toEqual({
    kind: 'peer',
    name: 'claim',
    transfer: 7,
    tpSize: 2,
    attempt: 0,
  });
});

/** One short message of each kind. */
const SAMPLES = fc.sample(fc.tuple(...Object.values(BY_KIND)), {
  seed: 7,
  numRuns: 1,
})[0] as readonly ShippedMessage[];

test('every change of a single byte is refused with a text', () => {
  let changes = 0;
  for (const sent of SAMPLES) {
    const frame = encodePeerMessage(sent, FORMS);
    const masks =
      frame.length < 100 ? Array.from({ length: 255 }, (_, value) => value + 1) : [1, 0x55, 0x80, 0xff];
    for (let at = 0; at < frame.length; at++) {
      for (const mask of masks) {
        frame[at]! ^= mask;
        const read = decodePeerMessage(frame, FORMS);
        frame[at]! ^= mask;
        changes++;
        if (typeof read !== 'string' || read === '')
          throw new Error(`${sent.name}: byte ${at} ^ ${mask} reads ${JSON.stringify(read)}`);
      }
    }
    expect(decodePeerMessage(frame, FORMS)).toEqual(sent);
  }
  expect(changes).toBeGreaterThan(50_000);
});

test('every truncation and every frame with bytes added is refused with a text', () => {
  let cuts = 0;
  for (const sent of SAMPLES) {
    const frame = encodePeerMessage(sent, FORMS);
    for (let length = 0; length < frame.length; length++) {
      expect(decodePeerMessage(frame.subarray(0, length), FORMS)).toBeTypeOf('string');
      cuts++;
    }
    for (const extra of [0, 1, 0xc0, 0xff])
      expect(decodePeerMessage(Uint8Array.from([...frame, extra]), FORMS)).toBeTypeOf('string');
  }
  expect(cuts).toBeGreaterThan(500);
});

test('random bytes never throw, and are refused', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (frame) => {
      expect(decodePeerMessage(frame, FORMS)).toBeTypeOf('string');
    }),
    { seed: 42, numRuns: 2000 },
  );
});

/** A frame with the right checksum around any body: what a foreign or wrong sender could make. */
function framed(body: Uint8Array): Uint8Array {
  let hash = body.length;
  for (const byte of body) hash = mix(hash, byte);
  const frame = new Uint8Array(body.length + 4);
  frame.set(body);
  new DataView(frame.buffer).setUint32(body.length, finish(hash));
  return frame;
}

test('random bytes under a right checksum never throw, and none of them passes for a message', () => {
  const causes = new Map<string, number>();
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1, maxLength: 60 }), (body) => {
      const read = decodePeerMessage(framed(body), FORMS);
      expect(read).toBeTypeOf('string');
      causes.set(read as string, (causes.get(read as string) ?? 0) + 1);
    }),
    { seed: 42, numRuns: 3000 },
  );
  expect([...causes.keys()].sort()).toEqual([
    'frame is not msgpack: MSGPACK-FORMAT',
    'frame is not msgpack: MSGPACK-SHORT',
    'not a message of this protocol: no map',
    'not a message of this protocol: unknown kind',
  ]);
});

describe('under a right checksum', () => {
  const claim = { kind: 'claim', transfer: 7, tpSize: 2, attempt: 0 };
  const grant = {
    kind: 'grant',
    transfer: 1,
    grant: 1,
    epoch: 0,
    blocks: [1, 2],
    firstSlot: 0,
    slotFrom: 0,
    slotTo: 1,
    attempt: 0,
  };
  const geometry = { engine: 0, role: 'decode', tpRank: 0, tpSize: 1, blockTokens: 4, views: [] };
  const nothing = new Uint8Array();
  const metaReply = {
    kind: 'metaReply',
    attempt: 0,
    epoch: 0,
    engineDesc: nothing,
    memoryDesc: nothing,
    geometry,
  };
  const view = layView(0, 0, {
    order: 'BKNH',
    blockCount: 2,
    blockUnits: 2,
    unitTokens: 1,
    cellBytes: 16,
    headFirst: 0,
    headCount: 1,
  });
  const replyOf = (context: object) => ({
    ...metaReply,
    geometry: { ...geometry, views: [{ ...view, context }] },
  });
  const read = (value: unknown): ShippedMessage | string => decodePeerMessage(framed(encode(value)), FORMS);

  test('the harness frames as the codec does', () => {
    for (const sound of [claim, grant, metaReply, replyOf(view.context)]) {
      const { kind: name, ...fields } = sound;
      expect(read(sound)).toEqual({ kind: 'peer', name, ...fields });
    }
  });

  test.each([
    ['no map', [1, 2]],
    ['a kind of another layer', { ...claim, kind: 'generate' }],
    ['a kind that is a property of every object', { ...claim, kind: 'constructor' }],
    ['no kind', { transfer: 7, tpSize: 2, attempt: 0 }],
    ['a kind that is a number', { ...claim, kind: 3 }],
    ['a field that is missing', { kind: 'claim', transfer: 7, tpSize: 2 }],
    ['a negative number', { ...claim, transfer: -1 }],
    ['a fraction', { ...claim, transfer: 1.5 }],
    ['a number that is not exact', { ...claim, transfer: 2 ** 53 }],
    ['a text for a number', { ...claim, transfer: '7' }],
    ['a null for a number', { ...claim, transfer: null }],
    ['a number for a flag', { kind: 'seal', transfer: 1, ok: 1, tpSize: 1, attempt: 0 }],
    ['a list with a text in it', { ...grant, blocks: [1, 'x'] }],
    ['a list with a hole', { ...grant, blocks: [1, null] }],
    ['a map for a list', { ...grant, blocks: { length: 1 } }],
    ['no epoch', { ...grant, epoch: undefined }],
    ['no geometry', { ...metaReply, geometry: null }],
    ['a geometry without views', { ...metaReply, geometry: { ...geometry, views: undefined } }],
    ['a geometry of an unknown role', { ...metaReply, geometry: { ...geometry, role: 'router' } }],
    ['a geometry with an empty view', { ...metaReply, geometry: { ...geometry, views: [{}] } }],
    [
      'a view without a context',
      { ...metaReply, geometry: { ...geometry, views: [{ ...view, context: null }] } },
    ],
    ['a context without an interleave', replyOf({ ranks: 2, rank: 0 })],
    ['an interleave of nothing', replyOf({ ranks: 2, rank: 0, interleaveUnits: 0 })],
    ['a rank outside its group', replyOf({ ranks: 2, rank: 2, interleaveUnits: 1 })],
    ['a text for bytes', { ...metaReply, engineDesc: 'x' }],
  ])('%s is refused', (_, value) => {
    expect(read(value)).toMatch(/^not a message of this protocol: (no map|unknown kind|field \w+ of \w+)$/);
  });

  test('a list nested a hundred thousand times is refused, not followed', () => {
    const body = new Uint8Array(100_001).fill(0x91);
    body[100_000] = 0xc0;
    expect(decodePeerMessage(framed(body), FORMS)).toBe('frame is not msgpack: MSGPACK-DEPTH');
  });

  test('a field that does not fit is named', () => {
    expect(read({ ...grant, blocks: [1, null] })).toBe(
      'not a message of this protocol: field blocks of grant',
    );
  });

  test('a frame longer than the limit is refused by its length alone', () => {
    expect(decodePeerMessage(new Uint8Array(PEER_FRAME_BYTES_MAX + 1), FORMS)).toBe(
      `frame of ${PEER_FRAME_BYTES_MAX + 1} bytes is longer than ${PEER_FRAME_BYTES_MAX}`,
    );
  });
});

import { describe, expect, test } from 'vitest';
import { HAULS } from '../../../src/connector/shipped/haul.ts';
import { LIMITS } from '../../../src/connector/shipped/limits.ts';
import type { ShippedMessage } from '../../../src/connector/shipped/messages.ts';
import { onMessage } from '../../../src/connector/shipped/peer-messages.ts';
import { createWorkerState } from '../../../src/connector/shipped/state.ts';
import type { Message } from '../../../src/wire/messages.ts';
import { frameOf, isNamed } from '../../helpers/messages.ts';
import { type Shape, ShippedRanks } from '../../helpers/shipped-ranks.ts';

/** What an odd message of a peer must not do to the ranks it comes to. */

const ONE: Shape = { mode: 'write', prefillTp: 1, decodeTp: 1, heads: 2 };
const MOST = Number.MAX_SAFE_INTEGER;

const GRANT: ShippedMessage<'grant'> = {
  kind: 'peer',
  name: 'grant',
  transfer: 900,
  grant: 1,
  blocks: [1],
  epoch: 0,
  firstSlot: 0,
  slotFrom: 0,
  slotTo: 4,
  attempt: 0,
};

/** A request from start to end between P and the first D; the ends that their ranks reported. */
function serve(ranks: ShippedRanks, transfer: number): string[] {
  const before = ranks.ended.length;
  ranks.startDecode(transfer, 1);
  ranks.startPrefill(transfer, 1);
  ranks.finish();
  return ranks.ended.slice(before).map((end) => end.split(' ')[1]!);
}

describe.each(['write', 'read'] as const)('in %s mode', (mode) => {
  const ranks = () => new ShippedRanks({ ...ONE, mode });
  const [P, D, OTHER] = [2, 4, 6] as const;
  /** The two halves. */
  const [INITIATOR, TARGET] = mode === 'write' ? [P, D] : [D, P];

  test('a request is served without a refusal, and nothing is left', () => {
    const all = ranks();
    expect(serve(all, 1).sort()).toEqual(['received', 'sent']);
    expect([all.refused, all.census(), all.expired]).toEqual([[], 0, 0]);
  });

  test.each([
    ['the engine descriptor', { engineDesc: Uint8Array.of(0xc1) }],
    ['the memory descriptor', { memoryDesc: Uint8Array.of(0xc1) }],
    ['an engine descriptor that is cut off', { engineDesc: Uint8Array.of(0x96, 0xa2, 0x44) }],
    ['no descriptor', { engineDesc: new Uint8Array(0), memoryDesc: new Uint8Array(0) }],
    ['an engine that says nothing', { engineDesc: Uint8Array.of(0x90) }],
  ])('%s spoils a handshake, and ends no rank', (_, odd) => {
    for (const asBytes of [false, true]) {
      const all = ranks();
      all.startDecode(1, 1);
      all.startPrefill(1, 1);
      let spoiled = 0;
      for (let steps = 0; steps < 10_000; steps++) {
        const reply = all.mail.findIndex(({ message }) => isNamed(message, 'metaReply'));
        if (reply >= 0) {
          const { from, to, message } = all.mail[reply]!;
          const told = { ...(message as ShippedMessage<'metaReply'>), ...odd };
          const harmed = asBytes ? ({ kind: 'bytes', port: 'notify', bytes: frameOf(told) } as const) : told;
          all.mail[reply] = { from, to, message: harmed };
          spoiled++;
        }
        if (!all.advance(0)) break;
      }
      expect(spoiled).toBeGreaterThan(0);
      expect(all.refused[0]!.reason).toMatch(/^descriptor-/);
      expect([all.census(), all.posted]).toEqual([0, []]);
      expect(serve(all, 2).sort()).toEqual(['received', 'sent']);
    }
  });

  const geometry = {
    'another rank': { tpRank: 1 },
    'another engine': { engine: 2 },
    'another size': { tpSize: 8 },
    'its own role': { role: mode === 'write' ? 'prefill' : 'decode' },
    'no layers': { views: [] },
  } as const;
  test.each(Object.entries(geometry))('a handshake that tells of %s is refused', (_, odd) => {
    expect(causeOfReply((reply) => ({ ...reply, geometry: { ...reply.geometry, ...odd } }))).not.toBe('');
  });

  const views = {
    blockCount: MOST,
    blockUnits: 8,
    headFirst: 1,
    headCount: 1,
    layer: 7,
  };
  test.each(Object.entries(views))('a handshake with a view whose %s is %d is refused', (field, value) => {
    const cause = causeOfReply((reply) => {
      const [first, ...rest] = reply.geometry.views;
      return { ...reply, geometry: { ...reply.geometry, views: [{ ...first!, [field]: value }, ...rest] } };
    });
    expect(cause).not.toBe('');
  });

  test.each(['base', 'blockStride', 'region'])(
    'a handshake with a part outside its region is refused: %s',
    (field) => {
      const cause = causeOfReply((reply) => {
        const [first, ...rest] = reply.geometry.views;
        const parts = first!.parts.map((part) => ({ ...part, [field]: 1 << 20 }));
        return { ...reply, geometry: { ...reply.geometry, views: [{ ...first!, parts }, ...rest] } };
      });
      expect(cause).toBe(field === 'region' ? 'part-not-described' : 'part-outside-region');
    },
  );

  function causeOfReply(change: (reply: ShippedMessage<'metaReply'>) => unknown): string {
    const all = ranks();
    all.startDecode(1, 1);
    all.startPrefill(1, 1);
    while (!all.mail.some(({ message }) => isNamed(message, 'metaReply'))) all.advance(0);
    const index = all.mail.findIndex(({ message }) => isNamed(message, 'metaReply'));
    const [mail] = all.mail.splice(index, 1);
    all.deliver({ ...mail!, message: change(mail!.message as ShippedMessage<'metaReply'>) as Message });
    all.finish();
    return all.refused[0]?.reason ?? '';
  }

  test('a grant or revoke of the highest number is refused, and the next real ones are taken', () => {
    const all = ranks();
    serve(all, 1);
    for (const number of [MOST, 2 ** 52, 2 ** 32, 1 + LIMITS.grantWindow + 1]) {
      all.deliver({ from: TARGET, to: INITIATOR, message: { ...GRANT, grant: number } });
      all.deliver({
        from: TARGET,
        to: INITIATOR,
        message: { kind: 'peer', name: 'revoke', transfer: 901, grant: number, attempt: 0 },
      });
    }
    expect(all.refused.map(({ reason }) => reason)).toEqual(new Array(8).fill('number-too-far-ahead'));
    for (let transfer = 2; transfer < 6; transfer++) expect(serve(all, transfer)).not.toContain('failed');
    expect(all.census()).toBe(0);
  });

  test('odd numbers within the window age nothing either', () => {
    const all = ranks();
    for (let number = 0; number <= LIMITS.grantWindow; number += 100) {
      all.deliver({
        from: TARGET,
        to: INITIATOR,
        message: { ...GRANT, transfer: 900 + number, grant: number },
      });
      const revoke = {
        kind: 'peer',
        name: 'revoke',
        transfer: 9000 + number,
        grant: number,
        attempt: 0,
      } as const;
      all.deliver({ from: TARGET, to: INITIATOR, message: revoke });
    }
    for (let transfer = 1; transfer < 120; transfer++) expect(serve(all, transfer)).not.toContain('failed');
    expect(all.census()).toBe(0);
  });

  test('an epoch that nobody has reached asks for a few handshakes, and the pair goes on', () => {
    const all = ranks();
    serve(all, 1);
    all.startDecode(2, 1);
    all.startPrefill(2, 1);
    while (!all.mail.some(({ message }) => isNamed(message, 'grant'))) all.advance(0);
    const index = all.mail.findIndex(({ message }) => isNamed(message, 'grant'));
    const grant = all.mail[index]!;
    all.mail[index] = { ...grant, message: { ...(grant.message as ShippedMessage<'grant'>), epoch: MOST } };
    all.finish();
    expect(all.refused).toContainEqual({
      ...{ kind: 'refused', reason: 'grant-of-unknown-epoch', fields: { transfer: 2 } },
    });
    expect(serve(all, 3)).not.toContain('failed');
  });

  test('an epoch that only a handshake claims is asked for again once its grants are void', () => {
    const all = ranks();
    all.startDecode(1, 1);
    all.startPrefill(1, 1);
    while (!all.mail.some(({ message }) => isNamed(message, 'metaReply'))) all.advance(0);
    const index = all.mail.findIndex(({ message }) => isNamed(message, 'metaReply'));
    const reply = all.mail[index]!;
    all.mail[index] = {
      ...reply,
      message: { ...(reply.message as ShippedMessage<'metaReply'>), epoch: MOST },
    };
    all.finish();
    expect(serve(all, 2)).not.toContain('failed');
  });

  test('a message of the other half or of the other mode is refused, counted and without effect', () => {
    const byTarget = ['grant', 'revoke', 'sealAck', 'metaReply'] as const;
    const byInitiator = ['metaRequest', 'seal'] as const;
    const ofRead = ['claim', 'refuse'] as const;
    const all = ranks();
    const reply = { epoch: 0, engineDesc: new Uint8Array(0), memoryDesc: new Uint8Array(0) };
    const about = { transfer: 1, grant: 1, attempt: 0, tpSize: 1, ok: true };
    const place = { engine: 1, role: 'decode', tpRank: 0, tpSize: 1, blockTokens: 4, views: [] };
    const send = (name: string, from: number, to: number): void => {
      all.deliver({
        from,
        to,
        message: { ...GRANT, ...reply, geometry: place, ...about, name } as unknown as Message,
      });
    };
    all.startPrefill(1, 1);
    all.startDecode(1, 1);
    const mail = [...all.mail];
    for (const kind of byTarget) send(kind, INITIATOR, TARGET);
    for (const kind of byInitiator) send(kind, TARGET, INITIATOR);
    for (const kind of mode === 'write' ? ofRead : []) {
      send(kind, P, D);
      send(kind, D, P);
    }
    if (mode === 'read') {
      send('claim', P, D);
      send('refuse', D, P);
    }
    expect(all.refused).toHaveLength(mode === 'write' ? 10 : 8);
    for (const { reason } of all.refused) expect(reason).toBe('never-sent-by-that-rank');
    expect(all.mail).toEqual(mail);
    all.finish();
    expect(all.ended.map((end) => end.split(' ')[1]).sort()).toEqual(['received', 'sent']);
  });

  test('a rank without a part in a transfer changes nothing about it', () => {
    const all = ranks();
    all.startDecode(1, 1);
    all.startPrefill(1, 1);
    const kinds = mode === 'write' ? (['grant', 'revoke', 'sealAck'] as const) : (['claim', 'seal'] as const);
    // In READ nobody knows who will come before the first claim did.
    if (mode === 'read') while (all.mail.some(({ message }) => isNamed(message, 'claim'))) all.advance(0);
    const before = all.refused.length;
    for (const kind of kinds) {
      const message = { ...GRANT, transfer: 1, tpSize: 1, ok: true, name: kind } as unknown as Message;
      all.deliver({ from: OTHER, to: P, message });
    }
    expect(all.refused.length - before).toBe(kinds.length - (mode === 'read' ? 1 : 0));
    all.finish();
    expect(all.ended.map((end) => end.split(' ')[1]).sort()).toEqual(['received', 'sent']);
    expect(all.census()).toBe(0);
  });
});

test('a revoke that came early from a rank without a part in the transfer is refused when the transfer starts', () => {
  const all = new ShippedRanks(ONE);
  all.deliver({ from: 6, to: 2, message: { ...GRANT, transfer: 1 } });
  all.deliver({
    from: 6,
    to: 2,
    message: { kind: 'peer', name: 'revoke', transfer: 1, grant: 1, attempt: 0 },
  });
  expect(serve(all, 1).sort()).toEqual(['received', 'sent']);
  expect(all.refused).toContainEqual({
    ...{ kind: 'refused', reason: 'sender-has-no-part', fields: { message: 'revoke', transfer: 1 } },
  });
});

test('twenty thousand grants for one transfer not heard of keep one', () => {
  const state = createWorkerState(new ShippedRanks(ONE).envs.get(2)!);
  for (let number = 1; number <= 20_000; number++)
    onMessage({ state, user: HAULS, at: number, emit: () => {} }, 4, { ...GRANT, grant: number });
  const kept = [...state.early.values()].flatMap((ranks) => [...ranks.values()]);
  expect(kept).toHaveLength(1);
  expect(state.grantsSeen.get(4)?.used.size ?? 0).toBeLessThanOrEqual(2 * LIMITS.grantWindow);
});

test('long block lists for requests not heard of are bounded together', () => {
  const all = new ShippedRanks(ONE);
  const blocks = Array.from({ length: 100_000 }, (_, block) => block);
  for (let transfer = 100; transfer < 120; transfer++)
    all.deliver({ from: 4, to: 2, message: { ...GRANT, transfer, blocks } });
  expect(all.census()).toBe(2);
});

test.each(['write', 'read'] as const)(
  'in %s mode a flood of one peer costs only its own early messages',
  (mode) => {
    const all = new ShippedRanks({ ...ONE, mode });
    const early = (transfer: number, from: number): void => {
      const message =
        mode === 'write'
          ? { ...GRANT, transfer }
          : ({ kind: 'peer', name: 'claim', transfer, tpSize: 1, attempt: 0 } as const);
      all.deliver({ from, to: 2, message });
    };
    // The other D speaks first, so that it would be the first to go.
    all.startDecode(1, 2);
    for (const mail of all.mail.splice(0)) all.deliver(mail);
    const [kept] = [all.census()];
    for (let transfer = 1000; transfer < 1300; transfer++) early(transfer, 4);
    expect(all.census() - kept).toBe(LIMITS.earlyMax);
    const refused = all.refused.filter(({ reason }) => reason === 'too-many-early-messages');
    expect(refused).toHaveLength(300 - LIMITS.earlyMax);
    all.startPrefill(1, 2);
    while (all.mail.length > 0) all.advance(0);
    for (let steps = 0; steps < 200; steps++) all.advance(0);
    expect(all.ended.map((end) => end.split(' ')[1]).sort()).toEqual(['received', 'sent']);
  },
);

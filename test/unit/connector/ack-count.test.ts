import fc from 'fast-check';
import { expect, test } from 'vitest';
import * as acks from '../../reference/ack-count.ts';
import { ackingRanks } from '../../reference/ranks.ts';

const say = (ledger: acks.AckLedger, rank: number, tpSize: number): acks.AckVerdict =>
  acks.countAck(ledger, { transferId: 'a', from: { rank, tpSize } });

function ledgerFor(prefillTp: number, prefillRank: number): acks.AckLedger {
  const ledger = acks.createAckLedger(prefillTp, prefillRank);
  acks.awaitAcks(ledger, 'a');
  return ledger;
}

test('a transfer is done once, with the first word of its last rank, in any order and with any repeats', () => {
  const setup = fc
    .record({
      prefillTp: fc.constantFrom(1, 2, 4),
      share: fc.constantFrom(1, 2, 4),
      rank: fc.nat({ max: 3 }),
    })
    .chain(({ prefillTp, share, rank }) => {
      const readers = ackingRanks(prefillTp, prefillTp * share, rank % prefillTp);
      const words = fc.array(fc.constantFrom(...readers), { maxLength: 12 });
      return fc.record({
        prefillTp: fc.constant(prefillTp),
        share: fc.constant(share),
        rank: fc.constant(rank % prefillTp),
        words,
      });
    });
  let done = 0;
  fc.assert(
    fc.property(setup, ({ prefillTp, share, rank, words }) => {
      const ledger = ledgerFor(prefillTp, rank);
      const heard = new Set<number>();
      for (const word of words) {
        const before = heard.size;
        const verdict = say(ledger, word, prefillTp * share);
        heard.add(word);
        if (before === share) expect(verdict).toBe('late');
        else if (heard.size === before) expect(verdict).toBe('repeated');
        else expect(verdict).toBe(heard.size === share ? 'done' : 'counted');
        expect(acks.acksHeard(ledger, 'a')).toBe(heard.size === share ? 0 : heard.size);
      }
      done += Number(heard.size === share);
      expect(ledger.open.has('a')).toBe(heard.size < share);
    }),
    { seed: 42, numRuns: 500 },
  );
  expect(done).toBeGreaterThan(100);
});

test('a word that does not fit is refused and changes nothing', () => {
  const ledger = ledgerFor(2, 1);
  for (const [rank, tpSize] of [
    [0, 4], // reads from rank 0
    [2, 3], // no multiple
    [2, 0],
    [2, -4],
    [2.5, 4],
    [2, Number.NaN],
    [4, 4],
  ] as const)
    expect([rank, tpSize, say(ledger, rank, tpSize)]).toEqual([rank, tpSize, 'refused']);
  expect(acks.acksHeard(ledger, 'a')).toBe(0);
  expect([say(ledger, 3, 4), say(ledger, 2, 8), say(ledger, 2, 4)]).toEqual(['counted', 'refused', 'done']);
});

test('the older form counts for a group of which no rank was heard', () => {
  const plain: acks.Ack = { transferId: 'a', from: null };
  const fresh = ledgerFor(1, 0);
  expect([acks.countAck(fresh, plain), acks.countAck(fresh, plain)]).toEqual(['done', 'late']);
  const begun = ledgerFor(1, 0);
  expect([say(begun, 0, 2), acks.countAck(begun, plain), say(begun, 1, 2)]).toEqual([
    'counted',
    'refused',
    'done',
  ]);
});

test('waiting twice forgets nothing, giving up forgets all', () => {
  const ledger = ledgerFor(1, 0);
  say(ledger, 0, 2);
  acks.awaitAcks(ledger, 'a');
  expect(acks.acksHeard(ledger, 'a')).toBe(1);
  acks.forgetAcks(ledger, 'a');
  expect([say(ledger, 1, 2), ledger.open.size]).toEqual(['late', 0]);
});

test('a rank that its group does not have cannot count', () => {
  expect(() => acks.createAckLedger(2, 2)).toThrow(expect.objectContaining({ code: 'TP-RANK' }));
});

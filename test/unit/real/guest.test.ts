import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { advanceCampaign, type Campaign, newCampaign, runCampaign } from '../../../src/explore/campaign.ts';
import { shrinkSeed } from '../../../src/explore/shrink.ts';
import { type Guest, openGuest } from '../../../src/real/guest.ts';
import { readGuestFile } from '../../../src/real/guest-file.ts';
import { detailInWords, placeInWords } from '../../../src/report/violation-words.ts';
import { GUEST_SCENARIO, openExample, partsOf, writeGuest, writeProgram } from '../../helpers/guests.ts';
import { pythonHere } from '../../helpers/python.ts';
import { newMemory } from '../../helpers/world.ts';

const { python, missing, note } = pythonHere();
const memory = newMemory();

function campaign(guest: Guest, seeds: number): Campaign {
  const options = { scenario: GUEST_SCENARIO, seedFrom: 0, stopAtFirst: false, parts: partsOf(guest) };
  return runCampaign(memory, { ...options, goOn: (done) => done < seeds });
}

/** The planted races of examples/python-guest/connector.py, by how they show. */
const RACES = {
  'a check and a set without a lock': /^I2 decode rank waits for event wait in load all/,
  'a completion before its registration': /^I7 decode rank completer/,
  'a flag that two requests share': /^I4 decode rank attention|^I1 prefill blocks/,
};

describe.skipIf(missing)(`the example guest${note}`, () => {
  let guest: Guest;
  beforeAll(() => {
    guest = openExample('guest.json', python);
  });
  afterAll(() => guest.close());

  test('each planted race is found within 2,000 schedules, and shrinks', () => {
    const found = newCampaign();
    const missed = (): string[] =>
      Object.entries(RACES)
        .filter(
          ([, kind]) =>
            !found.findings.some(({ violation: v }) => kind.test(`${v.invariant} ${placeInWords(v)}`)),
        )
        .map(([race]) => race);
    const options = { scenario: GUEST_SCENARIO, seedFrom: 0, stopAtFirst: false, parts: partsOf(guest) };
    const goOn = (done: number): boolean => done < 2000 && missed().length > 0;
    advanceCampaign(memory, { ...options, goOn }, found, 2000);
    expect(missed()).toEqual([]);
    const odd = found.findings.filter(
      ({ violation: v }) =>
        !Object.values(RACES).some((kind) => kind.test(`${v.invariant} ${placeInWords(v)}`)),
    );
    expect(odd).toEqual([]);
    expect(found.harness.count).toBe(0);
    const death = found.findings.find(({ violation }) => violation.invariant === 'I7')!;
    expect(death.violation.stack?.[0]).toMatch(/^_complete \(.*connector\.py:\d+\)$/);
    const { entries, result } = shrinkSeed(memory, GUEST_SCENARIO, death.seed, death.violation, options);
    expect(result.violation?.part).toBe('completer');
    expect(entries.length).toBeLessThanOrEqual(20);
  });

  test('runs alike in two processes', () => {
    const other = openExample('guest.json', python);
    try {
      const [first, again] = [campaign(guest, 40), campaign(other, 40)];
      expect(first.harness.count).toBe(0);
      expect(again.digest).toBe(first.digest);
    } finally {
      other.close();
    }
  });

  test('its mended twin holds', () => {
    const mended = openExample('mended.json', python);
    const { findings, harness, goals } = campaign(mended, 150);
    mended.close();
    expect(findings).toEqual([]);
    expect(harness.count).toBe(0);
    expect(goals.get('request-completed')).toBeGreaterThan(150);
  });
});

const CALM = `
class Scheduler:
    def __init__(self, config):
        pass
class Worker:
    def __init__(self, config):
        pass
`;

describe.skipIf(missing)(`guests that break${note}`, () => {
  function open(source: string, secondsMax = 20): Guest {
    return openGuest(readGuestFile(writeGuest(source)), { python, secondsMax });
  }

  test('what a hook raises is a finding with the line of the guest', () => {
    const guest = open(
      CALM.replace(
        'class Worker',
        '    def request_finished(self, request, blocks):\n        raise KeyError(1)\nclass Worker',
      ),
    );
    const { findings, harness } = campaign(guest, 1);
    guest.close();
    expect(harness.count).toBe(0);
    expect(findings[0]?.violation).toMatchObject({
      invariant: 'I7',
      role: 'prefill',
      part: 'requestFinished',
    });
    expect(detailInWords(findings[0]!.violation, [])).toMatch(
      /KeyError: 1.*, at request_finished \(.*guest\.py:\d+\)/,
    );
  });

  test('a child that hangs ends itself, says where, and takes no more than its schedule along', () => {
    const hang = '\n    def start_load_kv(self, meta):\n        sum(range(10**12))\n';
    const guest = open(CALM + hang, 1);
    const { findings, harness, schedules } = campaign(guest, 2);
    guest.close();
    expect(schedules).toBe(2);
    expect(findings).toEqual([]);
    expect(harness.kept.map(({ code }) => code)).toEqual(['GUEST-DIED', 'GUEST-DIED']);
    expect(harness.kept[0]?.message).toMatch(/guest\.py", line 10 in start_load_kv/);
  });

  test('too many statements are a limit of ours and no verdict', () => {
    const spin =
      '    def build_connector_meta(self, rows):\n        while True:\n            pass\nclass Worker';
    const guest = open(CALM.replace('class Worker', spin));
    const { findings, harness } = campaign(guest, 1);
    guest.close();
    expect(findings).toEqual([]);
    expect(harness.kept[0]?.code).toBe('GUEST-STATEMENTS');
  });

  test.each([
    ['a module that is not simulated', 'import socket\n', /socket is not simulated; there are stand-ins for/],
    ['a mistake of syntax', 'def (\n', /SyntaxError/],
    ['a class that is not there', CALM.replace('class Worker', 'class Other'), /no class Worker/],
  ])('%s is told before anything runs', (_, source, text) => {
    expect(() => open(source)).toThrow(text);
  });
});

describe('programs that are no child', () => {
  test.each([
    [
      'one that ends',
      'echo no such thing >&2; exit 3',
      /GUEST-DIED: the Python process has ended; it said: no such thing/,
    ],
    [
      'one that prints rubbish',
      "printf 'hello world, here I am'",
      /GUEST-FRAME: a frame of 1819043176 bytes/,
    ],
    [
      'one that speaks otherwise',
      `printf '\\002\\000\\000\\000[]'; cat >/dev/null`,
      /GUEST-FRAME: an answer of another form/,
    ],
    ['one that is not there', '', /GUEST-DIED/],
  ])('%s is told with what it said', (_, script, text) => {
    const program = script === '' ? '/nowhere/python' : writeProgram(script);
    const description = readGuestFile('examples/python-guest/guest.json');
    expect(() => openGuest(description, { python: program, secondsMax: 20 })).toThrow(text);
  });
});

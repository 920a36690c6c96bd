import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterAll, describe, expect, test } from 'vitest';
import { UsageError } from '../../../src/base/failure.ts';
import { modulePathOf, toldBy } from '../../../src/cli/commands/replay.ts';
import { readReplay, readReplayLine, replayLine } from '../../../src/explore/replay-line.ts';
import { runSeed } from '../../../src/explore/run.ts';
import { shrinkSeed } from '../../../src/explore/shrink.ts';
import { IN_TURN } from '../../../src/proxy/choose.ts';
import { AS_WRITTEN_MIX } from '../../../src/zoo/as-written/mix.ts';
import { SHIPPED_MIX } from '../../../src/zoo/shipped.ts';
import { plantInMessages } from '../../canary/plant.ts';
import { isNamed } from '../../helpers/messages.ts';
import { newMemory } from '../../helpers/world.ts';

const folder = mkdtempSync(`${tmpdir()}/moriarty-replay-`);
afterAll(() => rmSync(folder, { recursive: true }));

const REPLAY = {
  scenario: { ...AS_WRITTEN_MIX, faults: ['F1'], name: 'mine', requestsMax: 2 },
  source: {
    tape: [{ draw: 1, who: 'cluster', kind: 'layers', object: 0, occurrence: 0, value: 1 } as const],
  },
  digest: '0123456789abcdef',
  connector: 'as-written',
};
const LINE = replayLine(REPLAY);
const OTHER = replayLine({ ...REPLAY, digest: 'f'.repeat(16) });
/** As the tool wrote it before it wrote sums. */
const OLD = `mor1.${Buffer.from(JSON.stringify({ version: 1, scenario: 'shipped-mix', seed: 7, digest: '' })).toString('base64url')}`;
const FAIL = `FAIL I7 replay: npx moriarty replay ${LINE}`;
const wrapped = (width: number, between: string): string =>
  LINE.match(new RegExp(`.{1,${width}}`, 'g'))!.join(between);

function refusal(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    if (error instanceof UsageError) return `${error.code}: ${error.message}`;
    throw error;
  }
  return 'taken';
}

describe('a replay line is read from', () => {
  test.each([
    ['itself', LINE],
    ['the line that was printed', FAIL],
    ['the same with flags after it', `${FAIL} --backend native --provider shm`],
    ['a log', `before\nI7 broken: no message\n  ${FAIL}\n\n320 schedules in 1.56 s\nI am mor words`],
    ['CRLF', `a\r\n${FAIL}\r\nb\r\n`],
    [
      'colours',
      `\u001b[31mFAIL\u001b[0m I7 replay: npx moriarty replay \u001b[1m${LINE}\u001b[0m\u001b[K after`,
    ],
    ['a log of CI', `2024-05-01T10:00:00.1234567Z   ${FAIL}\n2024-05-01T10:00:00.2234567Z 12 schedules`],
    ['quotes', `run '${LINE}' again`],
    ['backticks', `\`${FAIL}\`.`],
    ['markdown', `**FAIL** [here](<${LINE}>)\n`],
    ['a JSON report', JSON.stringify({ violations: [{ replay: `npx moriarty replay ${LINE}` }] }, null, 2)],
    ['a terminal that broke it', `${wrapped(80, '\n')}\nsteps`],
    ['a mail that broke and quoted it', `> > FAIL I7 replay: ${wrapped(60, '\n> > ')}\n> > seen today`],
    ['a mail that broke it softly', `${wrapped(60, '=\r\n')}\r\n`],
    ['a shell that broke it', wrapped(60, ' \\\n    ')],
    ['a log of CI that broke it', wrapped(70, '\n2024-05-01T10:00:00.2234567Z ')],
    ['characters without a width', `\ufeff${wrapped(50, '\u200b')}\u00ad`],
    ['the same line twice', `${FAIL}\n${FAIL}\n`],
    ['a line that was also printed cut off', `${LINE.slice(0, 40)}...\n${FAIL}`],
  ])('%s', (_, text) => {
    expect(readReplay(text, 'here')).toEqual(REPLAY);
    expect(readReplayLine(text)).toEqual(REPLAY);
    expect(toldBy(text.split(/\s+/).length > 1 ? [text] : [LINE])).toEqual(REPLAY);
  });

  test('arguments as the shell splits them', () => {
    expect(toldBy(FAIL.split(' '))).toEqual(REPLAY);
    expect(toldBy([Buffer.from(LINE.slice(5), 'base64url').toString()])).toEqual(REPLAY);
  });

  test.each<[string, Buffer]>([
    ['a file', Buffer.from(`log\n${FAIL}\n`)],
    ['a file in UTF-16', Buffer.from(`\ufeff${FAIL}\r\n`, 'utf16le')],
    ['a file with a byte order mark', Buffer.from(`\ufeff${FAIL}`)],
    ['a file of what it stands for', Buffer.from(LINE.slice(5), 'base64url')],
    [
      'such a file with a byte order mark and CRLF',
      Buffer.from(`\ufeff${Buffer.from(LINE.slice(5), 'base64url')}\r\n`),
    ],
  ])('%s', (_, bytes) => {
    writeFileSync(`${folder}/line.json`, bytes);
    expect(toldBy([`${folder}/line.json`])).toEqual(REPLAY);
  });
});

describe('a replay is refused that', () => {
  const changedAt = (at: number): string =>
    `${LINE.slice(0, at)}${LINE[at] === 'A' ? 'B' : 'A'}${LINE.slice(at + 1)}`;
  test.each([
    ['is cut off', FAIL.slice(0, -9), /^REPLAY-LINE: .*is cut off/],
    ['is cut off by dots', `${LINE.slice(0, 90)}...`, /^REPLAY-LINE: .*is cut off/],
    [
      'is of the first form',
      OLD,
      /^REPLAY-LINE: .*form 1, this version reads 2: replay it with the version that printed it, or find the failure again/,
    ],
    [
      'is a file of the first form',
      '{"version":1,"scenario":"shipped-mix","tape":[[4,1,2,3,0,1]]}',
      /^REPLAY-FORM: .*version must be 2, not 1; replay it with the version that printed it/,
    ],
    ['is its prefix alone', 'mor2.', /^REPLAY-LINE: .*cut off after its prefix/],
    ['goes on', `${LINE}AAAA`, /^REPLAY-LINE: .*was changed/],
    ['was changed in a digit', changedAt(LINE.length - 60), /^REPLAY-LINE: .*(was changed|cut off)/],
    ['was changed in its first character', changedAt(5), /^REPLAY-LINE: .*(was changed|cut off)/],
    ['is of a later form', `mor3.${LINE.slice(5)}`, /^REPLAY-LINE: .*form 3, this version reads 2/],
    [
      'is one of two',
      `${FAIL}\nx\n${OTHER}\n`,
      /^REPLAY-LINE: .*different replay lines in it \(lines 1, 3\)/,
    ],
    ['is not there', 'nothing to see\n', /^REPLAY-LINE: .*no replay line in it/],
    ['is broken JSON', '{"version":2,', /^REPLAY-JSON: /],
    ['nests deeply', `{"version":${'['.repeat(200_000)}${']'.repeat(200_000)}}`, /^REPLAY-(FORM|JSON): /],
  ])('%s', (_, text, complaint) => {
    expect(refusal(() => readReplay(text, 'here'))).toMatch(complaint);
  });

  test('was changed in any one character that makes it another run', () => {
    const read = (at: number): unknown => {
      try {
        return readReplay(changedAt(at), 'here');
      } catch (error) {
        return (error as UsageError).code;
      }
    };
    const answers = Array.from({ length: LINE.length - 5 }, (_, at) => JSON.stringify(read(5 + at)));
    const same = JSON.stringify(readReplay(LINE, 'here'));
    const refused = answers.filter((answer) => answer === '"REPLAY-LINE"').length;
    expect(answers.filter((answer) => answer !== '"REPLAY-LINE"' && answer !== same)).toEqual([]);
    expect(refused).toBeGreaterThan(LINE.length - 20);
  });

  test('is one of very many', () => {
    expect(refusal(() => readReplay('mor2.e30 '.repeat(100_000), 'here'))).toMatch(
      /more than 1000 replay lines/,
    );
  });

  test('is several arguments without a line', () => {
    expect(refusal(() => toldBy(['a.json', 'b.json']))).toMatch(/one line or one file/);
  });
});

describe('a run of a connector that this program does not have', () => {
  const memory = newMemory();
  const connector = {
    ...plantInMessages((message, to) => {
      if (isNamed(message, 'grant')) throw new Error('planted');
      return { to, message };
    }),
    name: 'acme',
  };
  const options = { parts: () => ({ connector, policy: IN_TURN }) };
  const seed = [0, 1, 2, 3, 4, 5].find(
    (each) => runSeed(memory, SHIPPED_MIX, each, options).result.violation,
  )!;
  const { violation } = runSeed(memory, SHIPPED_MIX, seed, options).result;
  const {
    entries: tape,
    result,
    connector: ran,
  } = shrinkSeed(memory, SHIPPED_MIX, seed, violation!, options);
  const line = replayLine({ scenario: SHIPPED_MIX, source: { tape }, digest: result.digest, connector: ran });

  test('has its name in the line, and the command line refuses it by that name', () => {
    expect(readReplayLine(line)).toMatchObject({ connector: 'acme', scenario: SHIPPED_MIX });
    expect(refusal(() => modulePathOf(toldBy([line])))).toMatch(
      /^REPLAY-CONNECTOR: .*"acme".*--connector .*library/,
    );
  });

  test('is told from ours also when it kept our name', () => {
    const same = { parts: () => ({ connector: { ...connector, name: 'shipped' }, policy: IN_TURN }) };
    expect(runSeed(memory, SHIPPED_MIX, 0, same).connector).toBe('shipped, changed');
    expect(runSeed(memory, SHIPPED_MIX, 0).connector).toBe('shipped');
    expect(runSeed(memory, AS_WRITTEN_MIX, 0).connector).toBe('as-written');
  });

  test('cannot be written down without a name', () => {
    const nameless = { scenario: SHIPPED_MIX, source: { seed: 1 }, digest: '' } as never;
    expect(refusal(() => replayLine(nameless))).toMatch(/^REPLAY-FORM: .*connector must be the name/);
  });

  test('is refused by its name in a scenario, too', () => {
    const text = JSON.stringify({ version: 2, scenario: { ...SHIPPED_MIX, connector: 'acme' }, seed: 1 });
    expect(refusal(() => readReplay(text, 'here'))).toMatch(
      /^SCENARIO-FORM: .*"acme" is not in this program/,
    );
  });
});

describe('the line of a connector that was loaded from a file', () => {
  const module = { path: './mine.mjs', hash: '0123456789abcdef' };
  const told = { scenario: SHIPPED_MIX, source: { seed: 3 }, digest: '', connector: 'mine', module };

  test('names the file and its content', () => {
    const read = readReplayLine(replayLine(told));
    expect(read).toMatchObject({ connector: 'mine', module });
    expect(modulePathOf(read)).toBe('./mine.mjs');
    expect(modulePathOf(read, 'there/mine.mjs')).toBe('there/mine.mjs');
  });

  test.each([
    ['no file', { hash: module.hash }],
    ['no content', { path: 'x.mjs' }],
    ['content that is no hash', { path: 'x.mjs', hash: 'xyz' }],
    ['a path that moves the cursor', { path: 'x\u001b[2J.mjs', hash: module.hash }],
    ['a path without an end', { path: 'x'.repeat(5000), hash: module.hash }],
    ['a text', 'x.mjs'],
  ])('is refused with %s', (_, odd) => {
    const text = JSON.stringify({
      version: 2,
      scenario: 'shipped-mix',
      seed: 1,
      connector: 'mine',
      module: odd,
    });
    expect(refusal(() => readReplay(text, 'x'))).toMatch(/^REPLAY-FORM: x: module must be/);
  });
});

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from 'vitest';
import { COMMANDS, nameOf } from '../../src/cli/commands.ts';
import { SHIPPED_MIX } from '../../src/zoo/shipped.ts';
import { runCommandLine } from '../helpers/command-line.ts';

const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));
const folder = mkdtempSync(`${tmpdir()}/moriarty-cli-`);
afterAll(() => rmSync(folder, { recursive: true }));

const run = runCommandLine;

/** The program as somebody starts it. */
function start(...args: string[]): { code: number | null; out: string; err: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [MAIN, ...args], {
    encoding: 'utf8',
    timeout: 120_000,
  });
  return { code: status, out: stdout, err: stderr };
}

function file(name: string, text: string): string {
  const path = `${folder}/${name}`;
  writeFileSync(path, text);
  return path;
}

const LINE = { timestamp: 0, input_length: 600, output_length: 3, hash_ids: [0, 1] };
const traceOf = (...lines: unknown[]): string =>
  lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n');

describe('check', () => {
  test('a clean campaign exits 0 and prints one JSON document with the promised fields', () => {
    const { code, out, err } = start('check', '--seeds', '50', '--json');
    expect({ code, err }).toEqual({ code: 0, err: '' });
    const report = JSON.parse(out) as Record<string, unknown>;
    expect(Object.keys(report).sort()).toEqual([
      'connector',
      'digest',
      'fabric',
      'goals',
      'harnessFailureCount',
      'harnessFailures',
      'interrupted',
      'provider',
      'schedules',
      'schedulesPerSecond',
      'seconds',
      'steps',
      'stepsPerSecond',
      'violations',
    ]);
    expect(report).toMatchObject({ schedules: 50, violations: [] });
    expect(report['steps']).toBeGreaterThan(50 * 20);
  });

  test('the same seeds give the same digest in two processes', () => {
    const digest = (): unknown =>
      (JSON.parse(start('check', '--seeds', '40', '--seed', '7', '--json').out) as { digest: string }).digest;
    expect(digest()).toBe(digest());
  });

  test('a found fault exits 1, and its replay line shows the same violation and the same digest again', async () => {
    const { code, out } = await run(
      'check',
      '--connector',
      'as-written',
      '--fault',
      'F8',
      '--first',
      '--json',
    );
    expect(code).toBe(1);
    const [violation] = (
      JSON.parse(out) as {
        violations: {
          invariant: string;
          place: string;
          replay: string;
          shrunkSteps: number;
          steps: number;
          tape: unknown[];
        }[];
      }
    ).violations;
    expect(violation!.invariant).toBe('I7');
    expect(violation!.shrunkSteps).toBeLessThanOrEqual(violation!.steps);
    const again = await run('replay', 'FAIL', 'I7', 'replay:', ...violation!.replay.split(' '), '--json');
    expect(again.code).toBe(1);
    const replayed = JSON.parse(again.out) as {
      violation: { invariant: string; place: string };
      steps: number;
    };
    expect(replayed.violation).toMatchObject({ invariant: violation!.invariant, place: violation!.place });
    expect(replayed.steps).toBe(violation!.shrunkSteps);
  });

  test('the library as it is breaks what the sound engine keeps, and the line names the engine', async () => {
    const { code, out } = await run('check', '--engine', 'mori', '--first', '--seeds', '500', '--json');
    expect(code).toBe(1);
    const { violations, schedules } = JSON.parse(out) as {
      violations: { invariant: string; replay: string }[];
      schedules: number;
    };
    const again = await run('replay', violations[0]!.replay.split(' ').at(-1)!, '--json');
    expect(again.code).toBe(1);
    expect(JSON.parse(again.out)).toMatchObject({ violation: { invariant: violations[0]!.invariant } });
    expect((await run('check', '--engine', 'sound', '--seeds', `${schedules}`)).code).toBe(0);
  });

  test('the page of a found fault has at most 25 lines of timeline and the line that replays it', async () => {
    const { code, out } = await run('check', '--connector', 'as-written', '--fault', 'F1', '--first');
    expect(code).toBe(1);
    const timeline = out.split('\n').filter((line) => /^ +\d+ +\d+us /.test(line));
    expect(timeline.length).toBeGreaterThan(0);
    expect(timeline.length).toBeLessThanOrEqual(25);
    expect(out).toMatch(/FAIL I7 replay: npx moriarty replay mor2\.[\w-]+/);
  });

  test('--time runs for about that long and stops by itself', async () => {
    const { code, out } = await run('check', '--time', '300ms', '--json');
    expect(code).toBe(0);
    expect((JSON.parse(out) as { schedules: number }).schedules).toBeGreaterThan(0);
  });

  test('a scenario file is run', async () => {
    const path = file('scenario.json', JSON.stringify({ ...SHIPPED_MIX, name: 'mine', requestsMax: 2 }));
    expect(await run('check', path, '--seeds', '20', '--json')).toMatchObject({ code: 0, err: '' });
  });
});

describe('trace', () => {
  test('the small trace of our own completes with no block left over', async () => {
    const { code, out } = await run('trace', '--json');
    expect(code).toBe(0);
    const summary = JSON.parse(out) as Record<string, number> & {
      timeToFirstTokenMs: { p50: number; p99: number };
    };
    expect(summary).toMatchObject({ requests: 184, completed: 184, failed: 0, blocksLeft: 0 });
    expect(summary['prefixHitTokens']).toBeGreaterThan(0);
    expect(summary['kvBytes']).toBeGreaterThan(1e9);
    expect(summary.timeToFirstTokenMs.p99).toBeGreaterThanOrEqual(summary.timeToFirstTokenMs.p50);
  });

  test('READ mode completes the same trace and moves KV too', async () => {
    const { code, out } = await run('trace', '--mode', 'read', '--json');
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({ completed: 184, failed: 0, blocksLeft: 0 });
  });
});

describe('what is wrong with an input is said in one line, with its place, and exits 2', () => {
  const scenario = (change: object): string => JSON.stringify({ ...SHIPPED_MIX, ...change });
  const cases: [string, () => string[], RegExp][] = [
    ['an unknown command', () => ['chek'], /unknown command 'chek'/],
    ['an unknown flag', () => ['check', '--sedes', '3'], /unknown option '--sedes'/],
    ['a number that is none', () => ['check', '--seeds', 'many'], /--seeds.*'many'.*integer/],
    ['a time that is none', () => ['check', '--time', '3 parsecs'], /--time.*500ms, 30s or 2m/],
    [
      'a fault that is none',
      () => ['check', '--connector', 'as-written', '--fault', 'F9'],
      /FLAG: --fault F9/,
    ],
    ['a fault of the shipped connector', () => ['check', '--fault', 'F1'], /FLAG-CLASH/],
    ['a mode that is none', () => ['check', '--mode', 'push'], /--mode.*push/],
    ['a backend that is none', () => ['check', '--backend', 'quantum'], /--backend.*quantum/],
    ['a missing file', () => ['trace', `${folder}/nowhere.jsonl`], /FILE: .*nowhere\.jsonl: cannot be read/],
    ['a folder', () => ['trace', folder], /FILE: .*cannot be read/],
    [
      'a trace line that is not JSON',
      () => ['trace', file('a.jsonl', traceOf(LINE, 'not json'))],
      /TRACE-LINE: .*a\.jsonl:2: not JSON/,
    ],
    [
      'a negative length',
      () => ['trace', file('b.jsonl', traceOf(LINE, { ...LINE, input_length: -600 }))],
      /b\.jsonl:2: input_length .*not -600/,
    ],
    [
      'hash ids that do not fit the length',
      () => ['trace', file('c.jsonl', traceOf({ ...LINE, hash_ids: [1] }))],
      /c\.jsonl:1: hash_ids has 1 entries, 600 tokens need 2/,
    ],
    [
      'a trace out of order',
      () => ['trace', file('d.jsonl', traceOf({ ...LINE, timestamp: 9 }, LINE))],
      /d\.jsonl:2: timestamp 0 is before/,
    ],
    ['an empty trace', () => ['trace', file('e.jsonl', '\n')], /TRACE-EMPTY/],
    ['a damaged replay line', () => ['replay', 'mor2.%%%'], /REPLAY-LINE/],
    ['a replay line cut short', () => ['replay', 'mor2.eyJ2ZXJzaW9uIjoyLCJzY2Vu'], /REPLAY-LINE: .*cut off/],
    ['a device', () => ['check', '/dev/zero'], /FILE: \/dev\/zero: .*a device/],
    ['a device for a model', () => ['plan', '--model', '/dev/zero'], /FILE: \/dev\/zero: .*a device/],
    [
      'a replay file of another version',
      () => ['replay', file('f.json', '{"version":7}')],
      /REPLAY-FORM: .*f\.json: version must be 2/,
    ],
    [
      'a tape row that is no row',
      () => ['replay', file('g.json', '{"version":2,"scenario":"shipped-mix","tape":[[1,2]]}')],
      /g\.json: tape: row 0/,
    ],
    [
      'a scenario field of the wrong kind',
      () => ['check', file('h.json', scenario({ heads: 'two' }))],
      /SCENARIO-FORM: .*h\.json: heads/,
    ],
    [
      'a scenario field nested deep',
      () => ['check', file('i.json', scenario({ hazards: { ...SHIPPED_MIX.hazards, drops: 3 } }))],
      /i\.json: hazards\.drops/,
    ],
    [
      'a scenario field nobody knows',
      () => ['check', file('j.json', scenario({ colour: 'red' }))],
      /j\.json.*colour/,
    ],
    [
      'a scenario that cannot be',
      () => ['check', file('k.json', scenario({ heads: 3 }))],
      /3 heads cannot be split/,
    ],
  ];
  test.each(cases)('%s', async (_, args, complaint) => {
    const { code, out, err } = await run(...args());
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toMatch(complaint);
    expect(err.trim().split('\n').length).toBeLessThanOrEqual(2);
  });
});

test('every command explains itself', async () => {
  const commands = COMMANDS.map((row) => [nameOf(row)]);
  expect(commands).toEqual(expect.arrayContaining([['check'], ['replay'], ['doctor']]));
  for (const words of [[], ...commands]) {
    const { code, out } = await run(...words, '--help');
    expect(code).toBe(0);
    expect(out).toMatch(/Usage: moriarty/);
    expect(out).toMatch(/Exit codes:/);
    if (words.length > 0) expect(await run('help', ...words)).toEqual({ code, out, err: '' });
  }
});

test('a replay whose digest does not match says so and exits 3', async () => {
  const path = file(
    'other.json',
    JSON.stringify({ version: 2, scenario: 'shipped-mix', seed: 3, digest: '0123456789abcdef' }),
  );
  const { code, err } = await run('replay', path);
  expect(code).toBe(3);
  expect(err).toMatch(/REPLAY-DIGEST/);
});

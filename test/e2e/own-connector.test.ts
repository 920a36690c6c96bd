import { spawnSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';

// A connector of the user's own, from the command line, in an empty folder outside the package.

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const EXAMPLE = readFileSync(`${ROOT}/examples/own-connector/pull.mjs`, 'utf8');
const MISTAKE = 'if (load.left-- === this.#env.views.length)';
const folder = mkdtempSync(`${tmpdir()}/moriarty-own-`);
afterAll(() => rmSync(folder, { recursive: true }));

beforeEach(() => write('mine.mjs', EXAMPLE));

function write(name: string, text: string): void {
  writeFileSync(`${folder}/${name}`, text);
}

function run(...args: string[]): { code: number | null; out: string; err: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [`${ROOT}/dist/cli/main.js`, ...args], {
    cwd: folder,
    encoding: 'utf8',
    timeout: 120_000,
  });
  return { code: status, out: stdout, err: stderr };
}

const check = (path: string, ...more: string[]) =>
  run('check', '--connector', path, '--seeds', '40', '--first', ...more);

function lineIn(out: string): string {
  return /replay: npx moriarty replay (\S+)/.exec(out)?.[1] ?? '';
}

describe('the example', () => {
  test('has at most 140 lines, and its mistake is found, shrunk, told in its own words and replayed', () => {
    expect(EXAMPLE.trimEnd().split('\n').length).toBeLessThanOrEqual(140);
    const { code, out, err } = check('./mine.mjs');
    expect({ code, err }).toEqual({ code: 1, err: '' });
    expect(out).toContain('I1 broken');
    expect(out).toMatch(/shrunk from \d+ steps to \d+/);
    expect(out).toMatch(/sends to P\d\.r0: release of \d/);
    const replayed = run('replay', lineIn(out));
    expect(replayed).toMatchObject({ code: 1, err: '' });
    expect(replayed.out).toContain('which belongs to nobody');
  });

  test('without its mistake runs clean', () => {
    expect(EXAMPLE).toContain(MISTAKE);
    write('mine.mjs', EXAMPLE.replace(MISTAKE, 'if (--load.left === 0)'));
    const { code, out } = run('check', '--connector', './mine.mjs', '--seeds', '150', '--json');
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({
      connector: 'pull',
      module: { path: './mine.mjs', hash: expect.stringMatching(/^[0-9a-f]{16}$/) },
      violations: [],
    });
  });

  test('is attacked in another scenario when one is given', () => {
    const { out } = check('./mine.mjs', 'shipped-mix');
    expect(out).toContain('violation');
    expect(out).toContain('not reached: ');
    expect(check('./mine.mjs', '--fault', 'F1')).toMatchObject({ code: 2 });
  });
});

describe('a line of a connector that is another one now', () => {
  test('is refused with both contents, and run with --changed, without a digest', () => {
    const line = lineIn(check('./mine.mjs').out);
    write('mine.mjs', `${EXAMPLE}\n// another one\n`);
    const refused = run('replay', line);
    expect(refused.code).toBe(2);
    expect(refused.err).toMatch(
      /REPLAY-CHANGED: \.\/mine\.mjs is not what it was .* the line says [0-9a-f]{16}\).*--changed/,
    );
    const { code, err } = run('replay', line, '--changed');
    expect(code).toBe(1);
    expect(err).toContain('no digest is compared');
  });

  test('that lies elsewhere is named, and given with --connector', () => {
    const line = lineIn(check('./mine.mjs').out);
    mkdirSync(`${folder}/there`, { recursive: true });
    renameSync(`${folder}/mine.mjs`, `${folder}/there/mine.mjs`);
    expect(run('replay', line)).toMatchObject({
      code: 2,
      err: expect.stringMatching(/CONNECTOR-FILE: \.\/mine\.mjs/),
    });
    expect(run('replay', line, '--connector', 'there/mine.mjs')).toMatchObject({ code: 1, err: '' });
  });
});

test('a connector that throws is told with the file and line of its own', () => {
  write('mine.mjs', EXAMPLE.replace('  step(_at, input, emit) {', '  step(_at, input, emit) {\n    null.x;'));
  const { code, out } = check('./mine.mjs');
  const line = EXAMPLE.slice(0, EXAMPLE.indexOf('  step(_at, input, emit) {')).split('\n').length + 1;
  expect(code).toBe(1);
  expect(out).toMatch(new RegExp(`step of connector "pull" threw TypeError.*mine\\.mjs:${line}:\\d+`));
});

describe('a module that is no connector is refused with what is wrong and where:', () => {
  test.each([
    ['nothing there', 'absent.mjs', null, /CONNECTOR-FILE: \.\/absent\.mjs: cannot be read: ENOENT/],
    ['another kind of file', 'mine.txt', '{}', /CONNECTOR-FILE: \.\/mine\.txt: a module's name ends in/],
    ['no default export', 'a.mjs', 'export const x = 1;', /CONNECTOR-EXPORT: .* no default export/],
    [
      'a default export of another type',
      'b.mjs',
      'export default 7;',
      /CONNECTOR-EXPORT: .* the connector is 7/,
    ],
    [
      'no name',
      'c.mjs',
      'export default { createScheduler() {}, createWorker() {} };',
      /name of the connector is undefined/,
    ],
    [
      'a hook of another type',
      'd.mjs',
      "export default { name: 'd', createScheduler() {}, createWorker: 1 };",
      /CONNECTOR-EXPORT: .*createWorker of the connector is 1, it must be a function/,
    ],
    [
      'a syntax error',
      'e.mjs',
      'export const a = 1;\nexport default {,};\n',
      /CONNECTOR-SYNTAX: \S*e\.mjs:2: SyntaxError/,
    ],
    ['a throw at load', 'f.mjs', '\n\nundefined.x;\n', /CONNECTOR-LOAD: .*TypeError: .*f\.mjs:3:\d+/],
    ['an import that is not there', 'g.mjs', "import './no.mjs';", /CONNECTOR-LOAD: .*no\.mjs/],
    [
      'a factory that throws',
      'h.mjs',
      'export default () => { throw new RangeError("no"); };',
      /its default export threw RangeError: no/,
    ],
    [
      'an odd scenario',
      'i.mjs',
      "export const scenario = { heads: 99 };\nexport default { name: 'i', createScheduler() {}, createWorker() {} };",
      /SCENARIO-FORM: \.\/i\.mjs: scenario: heads/,
    ],
    [
      'an odd policy',
      'j.mjs',
      "export const policy = {};\nexport default { name: 'j', createScheduler() {}, createWorker() {} };",
      /create of the policy is undefined/,
    ],
  ])('%s', (_, name, text, says) => {
    if (text !== null) write(name, text);
    const { code, out, err } = check(`./${name}`);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toMatch(says);
  });

  test('a name that is neither', () => {
    expect(run('check', '--connector', 'nope')).toMatchObject({
      code: 2,
      err: expect.stringContaining('it is none of shipped, as-written, and no path of a module'),
    });
  });
});

describe('TypeScript', () => {
  const typed = EXAMPLE.replace(
    'class Scheduler {',
    'interface Unused { readonly a: number }\nclass Scheduler {',
  );

  test('is refused with what to do where nobody reads it, and read with tsx beside it', () => {
    write('typed.mts', typed);
    const readsTypes = 'typescript' in process.features && Boolean(process.features.typescript);
    const alone = check('./typed.mts');
    if (!readsTypes) {
      expect(alone.code).toBe(2);
      expect(alone.err).toMatch(/CONNECTOR-TYPESCRIPT: \.\/typed\.mts is TypeScript.*install tsx/);
    }
    symlinkSync(`${ROOT}/node_modules`, `${folder}/node_modules`);
    const { code, out, err } = check('./typed.mts');
    expect({ code, err }).toEqual({ code: 1, err: '' });
    expect(out).toContain('I1 broken');
    write('typed.mts', typed.replace('interface Unused', 'interface Unused, '));
    expect(check('./typed.mts').err).toMatch(/CONNECTOR-SYNTAX: \S*typed\.mts:\d+:\d+/);
  });
});

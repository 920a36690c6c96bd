import { execFileSync, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { afterAll, describe, expect, test } from 'vitest';
import { UsageError } from '../../../src/base/failure.ts';
import { readText, TEXT_BYTES_MAX, writeWhole } from '../../../src/cli/files.ts';

const folder = mkdtempSync(`${tmpdir()}/moriarty-files-`);
afterAll(() => rmSync(folder, { recursive: true }));
const at = (name: string): string => `${folder}/${name}`;

function refusal(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    if (error instanceof UsageError) return `${error.code}: ${error.message}`;
    throw error;
  }
  return 'taken';
}

describe('only regular files are read', () => {
  symlinkSync(at('gone'), at('dangling'));
  symlinkSync('/dev/zero', at('to-zero'));
  test.each([
    ['/dev/zero', /a device/],
    ['/dev/null', /a device/],
    [at('to-zero'), /a device/],
    [folder, /a directory/],
    [at('dangling'), /ENOENT/],
    ['', /ENOENT/],
    [`${folder}/${'x'.repeat(300)}`, /ENAMETOOLONG/],
  ])('%s', (path, why) => {
    const text = refusal(() => readText(path, 'trace'));
    expect(text).toMatch(/^FILE: .*cannot be read: /);
    expect(text).toMatch(why);
  });

  test('a pipe that nobody writes into, without waiting for him', () => {
    execFileSync('mkfifo', [at('pipe')]);
    expect(refusal(() => readText(at('pipe'), 'scenario'))).toMatch(/it is a pipe; .* standard input as -/);
  });

  test('a socket', async () => {
    const server = createServer();
    await new Promise<void>((done) => server.listen(at('socket'), done));
    expect(refusal(() => readText(at('socket'), 'scenario'))).toMatch(/a socket/);
    await new Promise((done) => server.close(done));
  });
});

describe('a file is read', () => {
  test('to the limit of its kind and no further', () => {
    writeFileSync(at('whole'), ' '.repeat(TEXT_BYTES_MAX.scenario));
    writeFileSync(at('long'), ' '.repeat(TEXT_BYTES_MAX.scenario + 1));
    expect(readText(at('whole'), 'scenario')).toHaveLength(TEXT_BYTES_MAX.scenario);
    expect(refusal(() => readText(at('long'), 'scenario'))).toMatch(/longer than 1048576 bytes/);
  });

  test.skipIf(!existsSync('/proc/self/status'))('whatever size the file system tells', () => {
    expect(readText('/proc/self/status', 'scenario')).toMatch(/^Name:/);
  });

  test.each<[string, Buffer]>([
    ['UTF-8', Buffer.from('\ufeffé')],
    ['UTF-16, low byte first', Buffer.from('\ufeffé', 'utf16le')],
    ['UTF-16, high byte first', Buffer.from('\ufeffé', 'utf16le').swap16()],
  ])('without its byte order mark, in %s', (_, bytes) => {
    writeFileSync(at('marked'), bytes);
    expect(readText(at('marked'), 'scenario')).toBe('é');
  });

  test('only if it is text', () => {
    writeFileSync(at('binary'), Buffer.from([0x7b, 0, 1]));
    expect(refusal(() => readText(at('binary'), 'scenario'))).toMatch(/no text: character 1 is NUL/);
  });
});

test('standard input is read as -, with the same limit', () => {
  const script = `import { readText } from ${JSON.stringify(new URL('../../../src/cli/files.ts', import.meta.url).href)};
    try { console.log(readText('-', 'scenario').length); } catch (error) { console.log(error.code, error.message); }`;
  const lengthOf = (input: string): string =>
    spawnSync(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], {
      input,
      encoding: 'utf8',
    }).stdout;
  expect(lengthOf('\ufeff{}')).toBe('2\n');
  expect(lengthOf(' '.repeat(TEXT_BYTES_MAX.scenario + 1))).toMatch(/^FILE standard input: is longer/);
});

describe('a file is written', () => {
  mkdirSync(at('folder'));
  symlinkSync(at('nowhere'), at('loose'));
  test.each([
    [at('folder'), /a directory/],
    ['/dev/full', /a device/],
    [at('no/such/folder.svg'), /ENOENT/],
    [at('loose'), /a link to what is not there/],
    ['-', /under a name/],
  ])('not to %s', (path, why) => {
    expect(refusal(() => writeWhole(path, 'x'))).toMatch(why);
  });

  test('whole, and through a link', () => {
    writeFileSync(at('old.svg'), 'old');
    symlinkSync(at('old.svg'), at('link.svg'));
    writeWhole(at('link.svg'), 'new');
    expect(readFileSync(at('old.svg'), 'utf8')).toBe('new');
  });
});

import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readGuestFile } from '../../../src/real/guest-file.ts';

const GOOD = { name: 'mine', modules: { m: 'm.py' }, scheduler: 'm:S', worker: 'm:W' };

function written(text: string): string {
  const path = join(mkdtempSync(join(tmpdir(), 'moriarty-test-')), 'guest.json');
  writeFileSync(path, text);
  writeFileSync(join(path, '..', 'm.py'), '');
  return path;
}

describe('a description of a guest', () => {
  test('is read with its defaults, and its files are found from its folder', () => {
    const path = written(JSON.stringify(GOOD));
    const read = readGuestFile(path);
    expect(read).toMatchObject({ name: 'mine', hooks: {}, scenario: {} });
    expect(read.files['m']).toBe(join(path, '..', 'm.py'));
  });

  test.each([
    ['{', /is not JSON/],
    ['[]', /it: /],
    [JSON.stringify({ ...GOOD, name: 'No Name' }), /name: must be small letters/],
    [JSON.stringify({ ...GOOD, worker: 'm.W' }), /worker: must be 'module:Class'/],
    [JSON.stringify({ ...GOOD, worker: 'other:W' }), /worker: other is not among the modules/],
    [JSON.stringify({ ...GOOD, hooks: { get_finished: 'a b' } }), /hooks\.get_finished: must be a name/],
    [JSON.stringify({ ...GOOD, extra: 1 }), /extra/],
  ])('%s is refused by what is wrong in it', (text, wrong) => {
    expect(() => readGuestFile(written(text))).toThrow(wrong);
  });

  test('its hash changes with any of its files', () => {
    const path = written(JSON.stringify(GOOD));
    const before = readGuestFile(path).hash;
    expect(readGuestFile(path).hash).toBe(before);
    writeFileSync(join(path, '..', 'm.py'), '# another');
    expect(readGuestFile(path).hash).not.toBe(before);
  });

  test('one whose module is not there is refused by the name of both', () => {
    const path = written(JSON.stringify({ ...GOOD, modules: { m: 'other.py' } }));
    expect(() => readGuestFile(path)).toThrow(/module m of .*guest\.json: .*other\.py: ENOENT/);
  });

  test('one that is not there is refused by its name', () => {
    expect(() => readGuestFile('/nowhere/guest.json')).toThrow(/nowhere\/guest\.json: ENOENT/);
  });
});

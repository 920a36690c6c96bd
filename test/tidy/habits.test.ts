import { existsSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { filesBelow, lineAt, ROOT, scan, textOf } from './source.ts';

const LINES_MAX = 420;

interface Habit {
  readonly name: string;
  readonly pattern: RegExp;
  readonly where: readonly ('src' | 'test')[];
  /** Whether comments count as well. */
  readonly inComments: boolean;
  readonly bad: readonly string[];
  readonly fine: readonly string[];
}

const HABITS: readonly Habit[] = [
  {
    name: 'an error without a class of its own',
    pattern: /\bthrow\s+(?:new\s+)?Error\s*\(/g,
    where: ['src'],
    inComments: false,
    bad: ["throw new Error('x');", "throw Error('x');"],
    fine: ["throw new UsageError('A', 'b');", "const text = 'throw new Error(x)';", 'throw error;'],
  },
  {
    name: 'any',
    pattern: /(?::|\bas|[<,|&])\s*any\b(?=\s*(?:[[\]>,;)=|&{}]|$))/gm,
    where: ['src', 'test'],
    inComments: false,
    bad: [
      'let a: any;',
      'f(a as any)',
      'let b = <any>a;',
      'let c: any[] = [];',
      'new Map<string, any>()',
      'let d: X | any;',
    ],
    fine: ['fc.anything()', '// as any', "const text = ': any;';", 'Promise.any(list)', 'let anyone: Many;'],
  },
  {
    name: 'a test that is focused or skipped',
    pattern: /\.\s*(?:only|skip|todo|fails)\b/g,
    where: ['src', 'test'],
    inComments: false,
    bad: ["test.only('x', f)", "describe.skip('x', f)", "test.todo('x')", "it.each([]).only('x', f)"],
    fine: ["test.skipIf(absent)('x', f)", 'readOnly(a)', "const text = 'test.only';", 'lines.skipped'],
  },
  {
    name: 'work put off',
    pattern: /\b(?:TODO|FIXME|XXX|HACK)\b/g,
    where: ['src', 'test'],
    inComments: true,
    bad: ['// TODO: later', '/* FIXME */', 'const TODO = 1;'],
    fine: ["const text = 'TODO';", 'const todos = 1;'],
  },
];

function habitsOf(source: string, folder: 'src' | 'test'): string[] {
  const { code, comments } = scan(source);
  return HABITS.filter(({ where }) => where.includes(folder)).flatMap(({ name, pattern, inComments }) =>
    [code, ...(inComments ? [comments] : [])].flatMap((text) =>
      [...text.matchAll(pattern)].map((hit) => `${lineAt(text, hit.index)}: ${name}`),
    ),
  );
}

/** Relative targets of links and pictures in a page, code blocks left out. */
function linksOf(page: string): string[] {
  const prose = page.replace(/^(```|~~~)[\s\S]*?^\1/gm, '').replace(/`[^`\n]*`/g, '');
  const inline = [...prose.matchAll(/\]\(\s*<?([^()\s>]+(?:\([^()\s]*\)[^()\s>]*)*)>?(?:\s+"[^"]*")?\s*\)/g)];
  const named = [...prose.matchAll(/^\[[^\]]+\]:\s*<?(\S+?)>?\s*$/gm)];
  return [...inline, ...named]
    .map((hit) => hit[1]!)
    .filter((target) => !/^(?:[a-z][a-z0-9+.-]*:|#|\/\/)/i.test(target));
}

function isBroken(page: string, link: string): boolean {
  const path = decodeURIComponent(link.replace(/[#?].*$/, ''));
  return path !== '' && !existsSync(resolve(ROOT, dirname(page), path));
}

describe('a habit rule fires on', () => {
  test.each(HABITS.flatMap(({ name, bad }) => bad.map((source) => [name, source] as const)))(
    '%s: %s',
    (name, source) => {
      expect(habitsOf(`const before = 1;\n${source}`, 'src')).toContain(`2: ${name}`);
    },
  );

  test.each(HABITS.flatMap(({ fine }) => fine))('nothing in: %s', (source) => {
    expect(habitsOf(source, 'src')).toEqual([]);
  });

  test.each([
    ['[a](b.md)', ['b.md']],
    ['![a](img/b.png "title") and [c](<d.md>)', ['img/b.png', 'd.md']],
    ['[a](b.md#part) [c](#here) [d](https://x.y/z.md) [e](mailto:a@b)', ['b.md#part']],
    ['```\n[a](gone.md)\n```\n`[b](gone.md)`', []],
    ['[a]: ../b.md\n', ['../b.md']],
  ])('the links of %j', (page, links) => {
    expect(linksOf(page)).toEqual(links);
  });

  test('a link to nowhere, and not on one to a file or a folder', () => {
    expect(isBroken('docs/x.md', '../package.json')).toBe(false);
    expect(isBroken('docs/x.md', '../src#part')).toBe(false);
    expect(isBroken('docs/x.md', '../no-such-file.md')).toBe(true);
  });
});

describe.each(['src', 'test'] as const)('every file under %s', (folder) => {
  const files = filesBelow(folder, '.ts');

  test('keeps the habits', () => {
    expect(files.length).toBeGreaterThan(5);
    expect(
      files.flatMap((file) => habitsOf(textOf(file), folder).map((habit) => `${file}:${habit}`)),
    ).toEqual([]);
  });

  test(`has at most ${LINES_MAX} lines`, () => {
    const long = files.map((file) => ({ file, lines: textOf(file).trimEnd().split('\n').length }));
    expect(long.filter(({ lines }) => lines > LINES_MAX)).toEqual([]);
  });
});

test('every relative link of every page leads somewhere', () => {
  const pages = filesBelow('.', '.md');
  const broken = pages.flatMap((page) =>
    linksOf(textOf(page))
      .filter((link) => isBroken(page, link))
      .map((link) => `${page}: ${link}`),
  );
  expect(existsSync(join(ROOT, 'package.json'))).toBe(true);
  expect(broken).toEqual([]);
});

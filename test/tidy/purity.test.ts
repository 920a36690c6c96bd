import { describe, expect, test } from 'vitest';
import { filesBelow, importsOf, lineAt, scan, textOf } from './source.ts';

/** Rows 0 to 7 are functions of their inputs: they run in a browser unchanged, and twice alike. */
const PURE = [
  'base',
  'kv',
  'wire',
  'io',
  'connector',
  'serving',
  'proxy',
  'oracle',
  'record',
  'faults',
  'sim',
  'zoo',
];

/** The packages that a pure folder may import; all others none. */
const PACKAGES: { readonly [folder: string]: readonly string[] } = {
  wire: ['@msgpack/msgpack'],
  zoo: ['@msgpack/msgpack'],
};

/** Functions of Math that give the same bits everywhere; sin, exp, pow and their like may differ by machine. */
const EXACT_MATH =
  'abs|ceil|clz32|floor|fround|imul|max|min|round|sign|sqrt|trunc|E|LN2|LN10|LOG2E|LOG10E|PI|SQRT1_2|SQRT2';

interface Rule {
  readonly name: string;
  readonly pattern: RegExp;
  /** Code that breaks the rule, once each. */
  readonly bad: readonly string[];
}

/** A name that is not a property of something else; a spread counts as a use. */
function word(...names: string[]): RegExp {
  return new RegExp(`(?<!(?<!\\.\\.)\\.\\s*|[\\w$#])(?:${names.join('|')})(?![\\w$])`, 'g');
}

const RULES: readonly Rule[] = [
  { name: 'Date', pattern: word('Date'), bad: ['const now = Date.now();', 'new Date()', 'let at: Date;'] },
  {
    name: 'Math.random',
    pattern: /\bMath\s*\.\s*random\b/g,
    bad: ['Math.random()', 'const r = Math.random;'],
  },
  { name: 'Promise', pattern: word('Promise'), bad: ['Promise.resolve(1)', 'let p: Promise<void>;'] },
  {
    name: 'async',
    pattern: /(?<![\w$.])async(?=\s*\(|\s*\*|[ \t]+[\w$[#])/g,
    bad: [
      'async function f() {}',
      'const f = async () => 1;',
      'const o = { async run() {} };',
      'const g = async x => x;',
    ],
  },
  { name: 'await', pattern: word('await'), bad: ['const a = await f();', 'for await (const a of b) c();'] },
  {
    name: 'timers of the host',
    pattern: word(
      'setTimeout',
      'setInterval',
      'setImmediate',
      'clearTimeout',
      'clearInterval',
      'queueMicrotask',
    ),
    bad: ['setTimeout(f, 1)', 'setInterval(f, 1)', 'setImmediate(f)', 'queueMicrotask(f)'],
  },
  { name: 'performance', pattern: word('performance'), bad: ['performance.now()'] },
  {
    name: 'process',
    pattern: word('process'),
    bad: ['process.exit(1)', 'const { env } = process;', '[...process.argv]'],
  },
  { name: 'crypto', pattern: word('crypto'), bad: ['crypto.randomUUID()'] },
  {
    name: 'the network of the host',
    pattern: word('fetch', 'XMLHttpRequest', 'WebSocket', 'EventSource'),
    bad: ["fetch('http://x')", "new WebSocket('ws://x')"],
  },
  { name: 'import.meta', pattern: /\bimport\s*\.\s*meta\b/g, bad: ['import.meta.url'] },
  { name: 'console', pattern: word('console'), bad: ["console.log('x')"] },
  { name: 'WebAssembly', pattern: word('WebAssembly'), bad: ['new WebAssembly.Module(bytes)'] },
  { name: 'Intl', pattern: word('Intl'), bad: ['new Intl.NumberFormat()'] },
  { name: 'localeCompare', pattern: /\blocaleCompare\b/g, bad: ['a.localeCompare(b)'] },
  { name: 'toLocale*', pattern: /\btoLocale\w*/g, bad: ['n.toLocaleString()', 's.toLocaleUpperCase()'] },
  {
    name: 'inexact Math',
    pattern: new RegExp(`\\bMath\\s*\\.\\s*(?!(?:${EXACT_MATH}|random)\\b)\\w+`, 'g'),
    bad: [...'sin cos tan exp log log2 log10 pow cbrt hypot expm1 atan2 tanh'.split(' ')].map(
      (f) => `Math.${f}(x)`,
    ),
  },
  {
    name: 'Math as a value',
    pattern: /\bMath\b(?!\s*\.\s*\w)/g,
    bad: ['const { sin } = Math;', "Math['sin'](1)", 'f(Math)'],
  },
  {
    name: 'bytes of the host',
    pattern: word('Buffer', 'TextEncoder', 'TextDecoder', 'btoa', 'atob', 'Blob', 'URL'),
    bad: ['Buffer.from([1])', 'new TextEncoder()', 'new TextDecoder()', "new URL('x')"],
  },
  {
    name: 'the global object',
    pattern: word('globalThis', 'window', 'global', 'self(?=\\s*[.[])'),
    bad: ['globalThis.x', "window['fetch']", 'global.gc()', 'self.postMessage(1)'],
  },
  {
    name: 'code from text',
    pattern: word('eval', 'Function(?=\\s*\\()'),
    bad: ["eval('1')", "new Function('1')"],
  },
  {
    name: 'the collector',
    pattern: word('WeakRef', 'FinalizationRegistry'),
    bad: ['new WeakRef(a)', 'new FinalizationRegistry(f)'],
  },
  { name: 'import.meta', pattern: /\bimport\s*\.\s*meta\b/g, bad: ['import.meta.url'] },
];

/** Innocent code: none of it may set a rule off. */
const FINE = [
  '// Date.now() and await Promise',
  '/* Math.random() process.exit() */',
  "const text = 'Date await process console Buffer eval(1)';",
  'const text = `globalThis fetch(x) Promise`;',
  'const match = /setTimeout|Math.sin/.test(text);',
  'const matched: Matched = { tokens, async: true };',
  'return { tokens, async };',
  'if (external.async && external.tokens > 0) go();',
  'interface Matched { readonly async: boolean; }',
  'lease.process(); this.performance; a?.console;',
  'Math.floor(Math.max(1, Math.imul(a, b)) / Math.trunc(c))',
  'const updateDate = validDate(dateOf(x)); processing(evaluate(y)); fetched();',
  'readonly self: ActorId; const { self } = env; f(self);',
  'const URLS = [1]; const callFunction = (f: Function1) => f;',
];

function rulesBroken(source: string): string[] {
  const { code } = scan(source);
  return RULES.flatMap(({ name, pattern }) =>
    [...code.matchAll(pattern)].map((hit) => `${lineAt(code, hit.index)}: ${name}`),
  );
}

function packagesRefused(folder: string, source: string): string[] {
  const allowed = PACKAGES[folder] ?? [];
  return importsOf(source).filter((specifier) => !specifier.startsWith('.') && !allowed.includes(specifier));
}

/** What makes the WebAssembly machine itself: the one place of these folders that asks the host for something. */
const HOST = 'src/sim/load-kernels.ts';
const FILES = PURE.flatMap((folder) =>
  filesBelow(`src/${folder}`, '.ts')
    .filter((file) => file !== HOST)
    .map((file) => ({ folder, file })),
);

describe('a purity rule fires on', () => {
  const cases = RULES.flatMap(({ name, bad }) => bad.map((source) => [name, source] as const));
  test.each(cases)('%s: %s', (name, source) => {
    expect(rulesBroken(`const before = 1;\n${source}`)).toContain(`2: ${name}`);
  });

  test.each(FINE)('nothing in: %s', (source) => {
    expect(rulesBroken(source)).toEqual([]);
  });

  test.each([
    ['base', "import { readFileSync } from 'node:fs';", ['node:fs']],
    ['base', "import { decode } from '@msgpack/msgpack';", ['@msgpack/msgpack']],
    ['wire', "import { decode } from '@msgpack/msgpack';", []],
    ['zoo', "import { decode } from '@msgpack/msgpack'; import 'zod';", ['zod']],
    ['wire', "const fs = require('fs'); await import('os');", ['fs', 'os']],
    ['kv', "import './view.ts'; import '../base/mix.ts';", []],
    ['kv', 'await import(name);', ['(computed)']],
  ])('the packages of %s in: %s', (folder, source, refused) => {
    expect(packagesRefused(folder, source)).toEqual(refused);
  });
});

describe('rows 0 to 6', () => {
  test('break no purity rule', () => {
    expect(FILES.length).toBeGreaterThan(35);
    const broken = FILES.flatMap(({ file }) => rulesBroken(textOf(file)).map((rule) => `${file}:${rule}`));
    expect(broken).toEqual([]);
  });

  test('import no package but the allowed ones', () => {
    const refused = FILES.flatMap(({ folder, file }) =>
      packagesRefused(folder, textOf(file)).map((name) => `${file}: ${name}`),
    );
    expect(refused).toEqual([]);
  });

  test('use the one package they are allowed', () => {
    const used = FILES.some(({ file }) => importsOf(textOf(file)).includes('@msgpack/msgpack'));
    expect(used).toBe(true);
  });
});

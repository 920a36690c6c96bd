import { describe, expect, test } from 'vitest';
import { filesBelow, lineAt, scan, textOf } from './source.ts';

/**
 * No code reads a sentence: what a person is told is made by src/report from data, and nothing decides by it. A rule fires on code
 * that looks into a field which holds a text, and on a comparison with a text of several words.
 */

/** Fields that hold a text for a person. */
const TEXTS = '(?:text|message|cause|detail|says|thrown|sentence|what|waitsFor|oddity|story|why)';
const LOOKS =
  '(?:includes|startsWith|endsWith|match|matchAll|search|indexOf|lastIndexOf|split|replace|replaceAll)';
const SELF = String.raw`(?:\.|\?\.|!\.)`;

const PATTERNS: readonly { readonly name: string; readonly pattern: RegExp }[] = [
  { name: 'looks into a text', pattern: new RegExp(String.raw`\.${TEXTS}\s*${SELF}\s*${LOOKS}\(`, 'g') },
  {
    name: 'tries a pattern on a text',
    pattern: new RegExp(String.raw`\.(?:test|exec)\([^()]*\.${TEXTS}\s*\)`, 'g'),
  },
  {
    name: 'compares a text',
    pattern: new RegExp(
      String.raw`(?<!typeof [\w$.!]{0,40})\.${TEXTS}\s*[!=]==\s*(?!null\b|undefined\b|''|"")["'\x60]`,
      'g',
    ),
  },
];

/** What stands between an operator and a literal. */
const BEFORE_LITERAL = /(?:[!=]==|\bcase)\s*$/;
const LOOKED_FOR = new RegExp(String.raw`\.${LOOKS}\(\s*$`);

/** Each place at which a file reads a sentence, as `line: rule`. */
function readingsOf(source: string): string[] {
  const { code, literals } = scan(source);
  const looks = PATTERNS.flatMap(({ name, pattern }) =>
    [...code.matchAll(pattern)].map((hit) => `${lineAt(code, hit.index)}: ${name}`),
  );
  const sentences = literals.filter(({ value }) => /\p{L}+ \p{L}+/u.test(value));
  const compared = sentences
    .filter(({ at }) => BEFORE_LITERAL.test(code.slice(Math.max(0, at - 40), at)))
    .map(({ at }) => `${lineAt(code, at)}: compares with a sentence`);
  const searched = sentences
    .filter(({ at }) => LOOKED_FOR.test(code.slice(Math.max(0, at - 40), at)))
    .map(({ at }) => `${lineAt(code, at)}: looks for a sentence`);
  return [...looks, ...compared, ...searched];
}

describe('the rule fires on', () => {
  test.each([
    ["if (violation.detail.includes('died')) f();", 'looks into a text'],
    ['return note.cause?.startsWith(prefix);', 'looks into a text'],
    ["const place = wait.what.replace(/\\d+/g, 'n');", 'looks into a text'],
    ['if (/polls for/.test(effect.text)) f();', 'tries a pattern on a text'],
    ["if (status.message === 'no session') f();", 'compares a text'],
    ["if (place === 'decode rank attention') f();", 'compares with a sentence'],
    ["switch (line) { case 'takes a turn': f(); }", 'compares with a sentence'],
    ["if (effects[0]!.includes(' polls for ')) f();", 'looks for a sentence'],
  ])('%s', (source, name) => {
    expect(readingsOf(`const before = 1;\n${source}`)).toContain(`2: ${name}`);
  });

  test.each([
    "if (note.kind === 'died') f();",
    'if (status.message !== null) f(status.message);',
    "const text = 'takes a turn: ' + note.cause;",
    "// if (violation.detail.includes('died')) f();",
    "const says = 'it compares with a sentence';",
    'if (blocks.includes(block)) f();',
    "if (outcome.what === '') f();",
    "if (typeof thrown.message === 'string') f();",
  ])('nothing in: %s', (source) => {
    expect(readingsOf(source)).toEqual([]);
  });
});

/** Code that reads a text which somebody else wrote, and why: there is no data behind it. */
const READERS: { readonly [file: string]: string } = {
  'src/base/thrown.ts': "an engine's own name for what was thrown",
  'src/cli/bench/kv-native.ts': 'the first line of what a C compiler says',
  'src/cli/plan/model-config.ts': 'what the JSON parser says, on one line',
  'src/explore/fabric-diff/lockstep.ts': 'a name of two words, of a union that the compiler knows',
  'src/explore/fabric-diff/tell.ts': 'a name of two words, of a union that the compiler knows',
  'src/node/linked.ts': "what the dynamic linker's tool prints",
  'src/node/native-addon.ts': 'the first line of what the loader of modules says',
};

describe('code under src', () => {
  const files = filesBelow('src', '.ts').filter((file) => !file.startsWith('src/report/'));

  test('reads no sentence, unless it is one of somebody else', () => {
    expect(files.length).toBeGreaterThan(150);
    const readings = files.flatMap((file) => readingsOf(textOf(file)).map((reading) => ({ file, reading })));
    expect(
      readings
        .filter(({ file }) => !Object.hasOwn(READERS, file))
        .map(({ file, reading }) => `${file}:${reading}`),
    ).toEqual([]);
  });

  test('that may is still there and still does', () => {
    for (const file of Object.keys(READERS)) expect([file, readingsOf(textOf(file))]).not.toEqual([file, []]);
  });

  test('leaves the templates of words to src/report', () => {
    const users = files.filter((file) => /\.says\b|\bsays\s*[,}]/.test(scan(textOf(file)).code));
    // The form of a message is checked, and its words are laid beside the record.
    expect(users).toEqual(['src/sim/closing.ts', 'src/wire/peer-codec.ts']);
  });
});

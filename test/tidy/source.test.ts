import { describe, expect, test } from 'vitest';
import { COMPUTED, filesBelow, importsOf, scan, textOf } from './source.ts';

describe('the scanner', () => {
  test.each([
    ['a // import "x"\nb', 'a \nb'],
    ['a /* require("x") */ b', 'a  b'],
    ['/** one\n two */ c', '\n c'],
    ["f('Date // no comment') + g", "f('') + g"],
    ['f("it\'s \\" one") + g', 'f("") + g'],
    ['`a @{b + `c @{d} e`} f` + g', '`{b + `{d}`}` + g'],
    ['`@{{ a: 1 }}` + g', '`{{ a: 1 }}` + g'],
    ['x = /[/"\'`]+/g + y', 'x = g + y'],
    ['x = a / b / c + "//"', 'x = a / b / c + ""'],
    ['return /\\/"/.test(a)', 'return .test(a)'],
    ['f(a) / 2 // half', 'f(a) / 2 '],
  ])('keeps the code of %j, with @ for a dollar sign', (text, wanted) => {
    const source = text.replaceAll('@', '$');
    const { code } = scan(source);
    expect(code.length).toBe(source.length);
    const squeeze = (text: string): string => text.replace(/[ ]+/g, '');
    expect(squeeze(code)).toBe(squeeze(wanted));
  });

  test('keeps only comments in the comment view', () => {
    expect(scan('a("// x") // y\n/* z */ b').comments.replace(/ +/g, ' ').trim()).toBe('// y\n/* z */');
  });

  test.each([
    ["import { a } from './a.ts';", ['./a.ts']],
    ["import type { A } from './a.ts';", ['./a.ts']],
    ["import a, { type B } from './a.ts';", ['./a.ts']],
    ["import { \n  a, \n  b, \n } from './a.ts';", ['./a.ts']],
    ["import * as a from 'a';", ['a']],
    ["import 'side';", ['side']],
    ['import "side";', ['side']],
    ["export { a } from './a.ts';", ['./a.ts']],
    ["export type { A } from './a.ts';", ['./a.ts']],
    ["export * from './a.ts';", ['./a.ts']],
    ["const a = await import('./a.ts');", ['./a.ts']],
    ['const a = import(`./a.ts`);', ['./a.ts']],
    ["const a = require('fs');", ['fs']],
    ["import a = require('a');", ['a']],
    ["type A = import('./a.ts').A;", ['./a.ts']],
    ['const a = import(name);', [COMPUTED]],
    ['const a = require(name);', [COMPUTED]],
    ['const a = import(`./@{name}.ts`);', [COMPUTED]],
    ["new Worker(new URL('./a.ts', import.meta.url))", ['./a.ts']],
    ["new URL('../x.wasm', import.meta.url)", []],
    ["new URL('./a.ts', base)", []],
    ["// import './a.ts'\n/* import './b.ts' */", []],
    ['const text = "import \'./a.ts\'";', []],
    ["Array.from('abc'); object.from = 'x'; const from1 = 'y';", []],
    ["import './a.ts'; import './b.ts'; export * from './c.ts'", ['./a.ts', './b.ts', './c.ts']],
  ])('finds the imports of %j, with @ for a dollar sign', (source, wanted) => {
    expect(importsOf(source.replaceAll('@{', ['$', '{'].join('')))).toEqual(wanted);
  });

  test('finds an import on every line of the tree that begins with one', () => {
    let lines = 0;
    for (const file of filesBelow('src', '.ts')) {
      const source = textOf(file);
      const plain = [...source.matchAll(/^(?:import|export)[^;'"()]*? from '([^']+)';$/gm)].map(
        (hit) => hit[1]!,
      );
      lines += plain.length;
      expect([file, ...importsOf(source)]).toEqual(expect.arrayContaining([file, ...plain]));
    }
    expect(lines).toBeGreaterThan(150);
  });
});

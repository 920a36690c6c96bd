import { describe, expect, test } from 'vitest';
import { greatest, least, pushAll } from '../../src/base/lists.ts';
import { filesBelow, lineAt, scan, textOf } from './source.ts';

/** A list spread into a call goes over the engine's stack, which is full at some hundred thousand values. */

/** Tuples, by the text after the dots, and how long they are. */
const TUPLES: Readonly<Record<string, number>> = { 'unitsOf(': 2, 'lists,': 6, 'args)': 4 };

const CLOSING: Readonly<Record<string, string>> = { '(': ')', '[': ']', '{': '}' };

/** Lines on which a call is handed a list as its arguments: `f(...list)`, `new F(...list)`, `f.apply(x, list)`. */
function spreadsOf(source: string): number[] {
  const { code } = scan(source);
  const open: { bracket: string; spreads: number[] }[] = [];
  const found: number[] = [];
  for (let at = 0; at < code.length; at++) {
    const char = code[at]!;
    if (CLOSING[char] !== undefined) open.push({ bracket: char, spreads: [] });
    else if (char === ')' || char === ']' || char === '}') {
      const closed = open.pop();
      if (closed !== undefined && !/^\)\s*=>/.test(code.slice(at, at + 40))) found.push(...closed.spreads);
    } else if (code.startsWith('...', at)) {
      const isTypedParameter = /^\.\.\.\s*\w+\s*:/.test(code.slice(at, at + 80));
      const isTuple = Object.keys(TUPLES).some((name) => code.startsWith(`...${name}`, at));
      if (open.at(-1)?.bracket === '(' && !isTypedParameter && !isTuple) open.at(-1)!.spreads.push(at);
      at += 2;
    }
  }
  for (const hit of code.matchAll(/\.\s*apply\s*\(/g)) found.push(hit.index);
  return found.map((at) => lineAt(code, at));
}

describe('the rule fires on', () => {
  test.each([
    'list.push(...more);',
    'Math.max(0, ...list.map((x) => x.y))',
    'new Map(\n  ...pairs,\n)',
    'f(a ? [] : b, ...(c ?? []))',
    'String.fromCharCode.apply(null, codes)',
    'ok ? f(...list) : g',
    'f(g(...list))',
  ])('%s', (source) => {
    expect(spreadsOf(source)).toHaveLength(1);
  });

  test.each([
    'f([...list, ...more])',
    'f({ ...a, b })',
    'const f = (...all) => all;',
    'function f(...all: number[]): void {}',
    'type F = (...all: unknown[]) => void;',
    'const [a, ...rest] = b;',
    "f('...x', `...`) // f(...x)",
  ])('nothing in: %s', (source) => {
    expect(spreadsOf(source)).toEqual([]);
  });
});

test('no list is spread into a call anywhere in src', () => {
  const files = filesBelow('src', '.ts');
  expect(files.length).toBeGreaterThan(100);
  expect(files.flatMap((file) => spreadsOf(textOf(file)).map((line) => `${file}:${line}`))).toEqual([]);
});

test('what stands for it takes a million values', () => {
  const many = Array.from({ length: 1_000_000 }, (_, value) => value);
  const list: number[] = [];
  pushAll(list, many);
  expect([list.length, greatest(list), least(list)]).toEqual([1_000_000, 999_999, 0]);
  expect([greatest([], 3), least([], 3)]).toEqual([3, 3]);
});

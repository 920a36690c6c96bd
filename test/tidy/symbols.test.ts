import { describe, expect, test } from 'vitest';
import { ENTRIES, SOURCES } from './entries.ts';
import { textOf } from './source.ts';
import { unreachedSymbols } from './symbols.ts';

test('every top-level declaration is reached from an entry of the package: what tests alone use lies in test/', () => {
  const files = new Map(SOURCES.map((file) => [file, textOf(file)]));
  expect(unreachedSymbols(files, ENTRIES)).toEqual([]);
});

describe('the search for dead declarations', () => {
  const dead = (files: Record<string, string>): string[] =>
    unreachedSymbols(new Map(Object.entries(files)), ['src/index.ts']);

  test.each([
    ['a function that nothing calls', 'export function lost() {}'],
    ['a constant', 'export const lost = 1;'],
    ['one of several in a pattern', 'export const { used, lost } = { used: 1, lost: 2 };', ['lost', 'used']],
    ['a type', 'export type lost = number;'],
    ['an interface', 'interface lost { readonly a: number }'],
    ['a class', 'export class lost {}'],
    ['a function that only calls itself', 'export function lost() { lost(); }'],
    ['a name that is only a property elsewhere', 'export const lost = 1; console.log(globalThis.lost);'],
    ['a name that is only a key elsewhere', 'export const lost = 1; console.log({ lost: 2 });'],
  ])('names %s', (_, source, names = ['lost']) => {
    const found = dead({ 'src/index.ts': "import './a.ts';", 'src/a.ts': source });
    expect(found.toSorted()).toEqual(names.map((name) => `src/a.ts#${name}`));
  });

  test('names two that only use each other, and one that a dead one uses', () => {
    const source =
      'export const a = () => b; export const b = () => a; export const c = () => d; const d = 1;';
    expect(dead({ 'src/index.ts': "import './a.ts';", 'src/a.ts': source })).toHaveLength(4);
  });

  test.each([
    ['is exported by an entry', "export { used } from './a.ts';"],
    ['is exported by an entry with all others', "export * from './a.ts';"],
    ['is exported by an entry under a name for all', "export * as a from './a.ts';"],
    ['is imported and used at load', "import { used } from './a.ts'; used();"],
    ['is imported under another name', "import { used as other } from './a.ts'; export const x = other;"],
    ['is used through a namespace', "import * as a from './a.ts'; a.used();"],
    ['is a type of what is exported', "import type { used } from './a.ts'; export type X = used[];"],
    ['is loaded while running', "export const x = async () => (await import('./a.ts')).used;"],
  ])('finds nothing where it %s', (_, source) => {
    const a = 'export function used() { return inner; } const inner = 1;';
    expect(dead({ 'src/index.ts': source, 'src/a.ts': a })).toEqual([]);
  });
});

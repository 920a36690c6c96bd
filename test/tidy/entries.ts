import { filesBelow, textOf } from './source.ts';

export const SOURCES = filesBelow('src', '.ts');

/** The ways into the code: what package.json offers. Never a test. */
export const ENTRIES = [
  ...new Set(
    [...textOf('package.json').matchAll(/"\.?\/?dist\/([^"]+?)(?:\.d\.ts|\.js)"/g)].map((hit) => hit[1]!),
  ),
].map((path) => `src/${path}.ts`);

/** Those that are built of the folders and stand above all of them. */
export const PRODUCTS = ENTRIES.filter((path) => path.split('/').length === 2);

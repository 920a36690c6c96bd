import { filesBelow, textOf } from './source.ts';

export const SOURCES = filesBelow('src', '.ts');

/** The ways into the code: what package.json offers, and the page that a bundler begins at. Never a test. */
export const ENTRIES = [
  ...new Set(
    [...textOf('package.json').matchAll(/"\.?\/?dist\/([^"]+?)(?:\.d\.ts|\.js)"/g)].map((hit) => hit[1]!),
  ),
]
  .map((path) => `src/${path}.ts`)
  .concat('src/browser.ts');

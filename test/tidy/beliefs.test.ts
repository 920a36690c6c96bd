import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const CODE = /INV-[A-Z]+-\d+/g;

function codesUnder(folder: string): Set<string> {
  const files = readdirSync(`${ROOT}${folder}`, { recursive: true, encoding: 'utf8' });
  const texts = files
    .filter((name) => /\.ts$/.test(name))
    .map((name) => readFileSync(`${ROOT}${folder}/${name}`, 'utf8'));
  return new Set(texts.flatMap((text) => text.match(CODE) ?? []));
}

test('every belief of the code has its row in docs/INVARIANTS.md, and no row is stale', () => {
  const asserted = [...codesUnder('src'), ...codesUnder('assembly')].sort();
  const rows = readFileSync(`${ROOT}docs/INVARIANTS.md`, 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('| INV-'));
  const documented = rows.map((line) => line.match(CODE)![0]).sort();
  expect(asserted.length).toBeGreaterThan(10);
  expect(documented).toEqual([...new Set(asserted)]);
});

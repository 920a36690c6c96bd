import { describe, expect, test } from 'vitest';
import type { MoveTable } from '../../src/base/moves.ts';
import { SOURCES } from './entries.ts';
import { lineAt, scan, textOf } from './source.ts';

/** Lives of records are tables: nothing sets a phase past them, and the tables themselves make sense. */

const MOVER = 'src/base/moves.ts';

function phasesSet(source: string): number[] {
  const { code } = scan(source);
  return [...code.matchAll(/\.(?:phase|status)\s*=(?![=>])(?!\s*null\b)/g)].map((hit) =>
    lineAt(code, hit.index),
  );
}

test.each([
  ["call.phase = 'returned';", 1],
  ["served.status = 'ended';", 1],
  ["const { phase } = call; if (call.phase === 'returned') return; const phase2 = a;", 0],
  ["// call.phase = 'x'\nconst text = 'a.phase = b';", 0],
  ["move(CALL_MOVES, call, 'Returned');", 0],
])('%s sets %d phases', (source, count) => {
  expect(phasesSet(source)).toHaveLength(count);
});

test('no file but that of `move` sets a phase', () => {
  const found = SOURCES.filter((file) => file !== MOVER).flatMap((file) =>
    phasesSet(textOf(file)).map((line) => `${file}:${line}`),
  );
  expect(found).toEqual([]);
  expect(phasesSet(textOf(MOVER))).toHaveLength(1);
});

const EXPORTED = SOURCES.flatMap((file) =>
  [...textOf(file).matchAll(/^export const (\w+): MoveTable</gm)].map((hit) => [hit[1]!, file] as const),
);

describe.each(EXPORTED)('%s', async (name, file) => {
  const table: MoveTable<string, string> = (await import(/* @vite-ignore */ `../../${file}`))[name];
  const moves = Object.entries(table.moves);

  test('has a page of docs/PROTOCOL.md with every phase', () => {
    const page = textOf('docs/PROTOCOL.md');
    expect(page).toContain(`### ${table.title}\n`);
    const section = page
      .slice(page.indexOf(`### ${table.title}\n`))
      .split('\n## ')[0]!
      .split('\n### ')[0]!;
    for (const [phase] of moves) expect(section).toContain(`\n| ${phase} |`);
  });

  test('leads to phases and by triggers that it has, and uses all of both', () => {
    const used = moves.flatMap(([, to]) => Object.keys(to));
    expect([...new Set(used)].sort()).toEqual(Object.keys(table.triggers).sort());
    const reached = new Set(moves.flatMap(([, to]) => Object.values(to)));
    const [first] = moves.map(([phase]) => phase);
    const begins = name === 'FLOW_MOVES' ? ['Prefilling', 'Both'] : [first];
    expect([...reached, ...begins].filter((phase) => !Object.hasOwn(table.moves, phase!))).toEqual([]);
    expect(
      moves.map(([phase]) => phase).filter((phase) => !reached.has(phase) && !begins.includes(phase)),
    ).toEqual([]);
  });
});

test('there are tables', () => {
  expect(EXPORTED.length).toBeGreaterThanOrEqual(7);
});

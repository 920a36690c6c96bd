import { parseSync } from 'vite';
import { expect, test } from 'vitest';
import { SOURCES } from './entries.ts';
import { lineAt, textOf } from './source.ts';

/** What is said one after the other is mixed up: from five values on they have names. */

const PARAMETERS_MAX = 4;

/** Functions and methods with more, by file; how many there were when the rule came. The number may only go down. */
const KNOWN: { readonly [file: string]: number } = {
  'src/cli/bench/figures.ts': 1,
  'src/cli/bench/kv-blocks.ts': 1,
  'src/cli/bench/nic.ts': 1,
  'src/cli/plan/ranks.ts': 1,
  'src/explore/run.ts': 1,
  'src/explore/shrink.ts': 2,
  'src/io/engine/calls.ts': 3,
  'src/io/engine/control-server.ts': 1,
  'src/io/engine/copies.ts': 1,
  'src/io/engine/credit.ts': 1,
  'src/io/engine/notify.ts': 1,
  'src/io/engine/sessions.ts': 3,
  'src/io/engine/submit.ts': 2,
  'src/io/engine/workers.ts': 1,
  'src/io/introsort.ts': 2,
  'src/io/loopback.ts': 1,
  'src/io/submission.ts': 1,
  'src/io/verbs-land.ts': 3,
  'src/io/verbs-sim.ts': 2,
  'src/kv/kernels.ts': 3,
  'src/node/native-addon.ts': 3,
  'src/node/native-core.ts': 1,
  'src/node/native-engine.ts': 2,
  'src/real/guest-worker.ts': 1,
  'src/serving/batch.ts': 2,
  'src/serving/model.ts': 4,
  'src/serving/scheduler.ts': 2,
  'src/sim/core.ts': 1,
  'src/sim/nic-side.ts': 1,
  'src/sim/request-trace.ts': 1,
  'src/sim/tape.ts': 4,
  'src/zoo/as-written/threads.ts': 2,
};

interface Node {
  readonly type?: string;
  readonly start: number;
  readonly params?: readonly unknown[];
}

function linesOver(file: string, source: string): number[] {
  const lines: number[] = [];
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) return value.forEach(visit);
    if (value === null || typeof value !== 'object') return;
    const { type = '', start, params } = value as Node;
    const takes = /Function|TSMethodSignature/.test(type) && Array.isArray(params) ? params.length : 0;
    if (takes > PARAMETERS_MAX) lines.push(lineAt(source, start));
    Object.values(value).forEach(visit);
  };
  visit(parseSync(file, source).program.body);
  return lines;
}

test.each([
  ['function f(a, b, c, d, e) {}', 1],
  ['const f = (a, b, c, d, e) => a;', 1],
  ['class C { m(a, b, c, d, e) {} }', 1],
  ['interface I { m(a: 1, b: 1, c: 1, d: 1, e: 1): void; }', 1],
  ['function f(a, b, c, { d, e, g }) {}', 0],
])('%s has %d too many', (source, count) => {
  expect(linesOver('a.ts', source)).toHaveLength(count);
});

test('no function takes more than four values one after the other, but those that always did', () => {
  const found = Object.fromEntries(
    SOURCES.map((file) => [file, linesOver(file, textOf(file))] as const)
      .filter(([, lines]) => lines.length > 0)
      .map(([file, lines]) => [file, lines.length]),
  );
  expect(found).toEqual(KNOWN);
});

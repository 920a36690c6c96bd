import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { Recorder, type TraceScenario, type TraceStep } from './trace-record.ts';
import { SCRIPTS as TRANSFER_SCRIPTS } from './trace-scripts.ts';
import { SETUP_SCRIPTS } from './trace-scripts-setup.ts';

/** The library's own traces, step by step: every work request, wr_id, signal, status, text and inbound count. */

const SCRIPTS = { ...TRANSFER_SCRIPTS, ...SETUP_SCRIPTS };

const FILE = new URL('../../golden/mori-io-traces.json', import.meta.url);
const { scenarios } = JSON.parse(readFileSync(FILE, 'utf8')) as { scenarios: TraceScenario[] };

/** Worker threads post in no promised order across queue pairs; the trace groups them. */
function grouped(steps: readonly TraceStep[]): TraceStep[] {
  return steps.map((step) => {
    const posts = step.posts as { qp: number }[];
    return { ...step, posts: [...posts].sort((left, right) => left.qp - right.qp) };
  });
}

describe('the traces of the library', () => {
  test('are all here', () => {
    expect(scenarios).toHaveLength(28);
    expect(scenarios.reduce((sum, { steps }) => sum + steps.length, 0)).toBe(111);
    expect(Object.keys(SCRIPTS).sort()).toEqual(scenarios.map(({ scenario }) => scenario).sort());
  });

  test.each(scenarios.map((scenario) => [scenario.scenario, scenario] as const))('%s', (name, wanted) => {
    const recorder = new Recorder(wanted.config, wanted.nics);
    SCRIPTS[name](recorder);
    const steps = name === 'exec' ? grouped(recorder.steps) : recorder.steps;
    expect(steps.map(({ step }) => step)).toEqual(wanted.steps.map(({ step }) => step));
    steps.forEach((step, index) => {
      expect({ ...step, qps: undefined }).toEqual({ ...wanted.steps[index], qps: undefined });
    });
    // Queue pairs are listed with the step in which the test made them; their order and sizes are what counts.
    expect(steps.flatMap(({ qps }) => qps ?? [])).toEqual(wanted.steps.flatMap(({ qps }) => qps ?? []));
  });
});

import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { readReplayText } from '../../src/explore/replay-line.ts';
import { invariantById } from '../../src/oracle/registry.ts';
import type { FailureKey } from '../../src/oracle/verdict.ts';
import { readKernelBytes } from '../../src/node/kernel-bytes.ts';
import { instantiateKernels } from '../../src/sim/load-kernels.ts';
import { CHECK_PAGES, CHECK_SIZES, createWorldMemory } from '../../src/sim/memory.ts';
import { runTape } from '../../src/explore/run.ts';

/** Every bug that was found leaves its tape here, with its story and what caught it. */
const FOLDER = new URL('.', import.meta.url);
const names = readdirSync(FOLDER).filter((name) => name.endsWith('.json'));
const memory = createWorldMemory(instantiateKernels(readKernelBytes(), CHECK_PAGES), CHECK_SIZES);

test('the corpus is not empty', () => {
  expect(names.length).toBeGreaterThanOrEqual(5);
});

test.each(names)('the bug of %s is gone', (name) => {
  const text = readFileSync(new URL(name, FOLDER), 'utf8');
  const { story, broke } = JSON.parse(text) as { story: string; broke: Partial<FailureKey> };
  expect(story.length).toBeGreaterThan(40);
  // What stopped the harness itself is told by the code of its belief, and showed at no site.
  const { invariant, site } = broke as { invariant: string; site?: string };
  if (invariant !== 'INV-WORLD-1') expect(Object.keys(invariantById(invariant)!.sites)).toContain(site);
  const { scenario, source } = readReplayText(text, name);
  expect('tape' in source).toBe(true);
  if (!('tape' in source)) return;
  const { result, tape } = runTape(memory, scenario, source.tape);
  expect(result.violation).toBeNull();
  expect(result.steps).toBeGreaterThan(5);
  // A tape whose draws nobody asks for any more tests nothing: it has to be recorded anew.
  expect(tape.recorded.length).toBeGreaterThan(0);
});

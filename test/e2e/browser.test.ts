import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { build } from 'vite';
import { expect, test } from 'vitest';
import { runSeed } from '../../src/explore/run.ts';
import { readKernelBytes } from '../../src/node/kernel-bytes.ts';
import { instantiateKernels } from '../../src/sim/load-kernels.ts';
import { CHECK_PAGES, CHECK_SIZES, createWorldMemory } from '../../src/sim/memory.ts';
import { AS_WRITTEN_MIX } from '../../src/zoo/as-written/mix.ts';
import { SHIPPED_MIX } from '../../src/zoo/shipped.ts';

const CHROMIUM = '/usr/bin/chromium';
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];
const SEEDS = Array.from({ length: 200 }, (_, seed) => seed);

const missing = !existsSync(CHROMIUM);
// A machine without a browser says so; CI installs one and must not pass without it.
if (missing && process.env['CI'] === undefined)
  console.warn(`skipped: no ${CHROMIUM}; install Debian's package chromium to run the browser test`);

async function bundle(): Promise<string> {
  const output = await build({
    configFile: false,
    logLevel: 'error',
    build: {
      write: false,
      minify: false,
      lib: {
        entry: fileURLToPath(new URL('../../src/browser.ts', import.meta.url)),
        formats: ['iife'],
        name: 'moriarty',
      },
    },
  });
  const [first] = Array.isArray(output) ? output : [output];
  if (first === undefined || !('output' in first)) throw new TypeError('vite built nothing');
  return first.output[0].code;
}

test.skipIf(missing && process.env['CI'] === undefined)(
  'a browser gives the digests that Node gives',
  async () => {
    const memory = createWorldMemory(instantiateKernels(readKernelBytes(), CHECK_PAGES), CHECK_SIZES);
    const browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
    try {
      const page = await browser.newPage();
      const problems: string[] = [];
      page.on('pageerror', (error) => problems.push(error.message));
      await page.goto('about:blank');
      await page.addScriptTag({ content: await bundle() });
      for (const scenario of [SHIPPED_MIX, AS_WRITTEN_MIX]) {
        const here = SEEDS.map((seed) => runSeed(memory, scenario, seed).result.digest);
        const call = `moriarty.digestsOf(Uint8Array.from([${readKernelBytes().join(',')}]), ${JSON.stringify(scenario.name)}, [${SEEDS.join(',')}])`;
        const there = await page.evaluate(call);
        expect(there).toEqual(here);
        expect(new Set(here).size).toBeGreaterThan(150);
      }
      expect(problems).toEqual([]);
    } finally {
      await browser.close();
    }
  },
);

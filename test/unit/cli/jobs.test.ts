import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { exitOf, showHarnessFailures } from '../../../src/cli/harness-report.ts';
import { campaignInThreads } from '../../../src/cli/jobs.ts';
import { loadOwnConnector } from '../../../src/cli/own-connector.ts';
import { shipped } from '../../../src/connector/shipped/index.ts';
import { type Campaign, type CampaignOptions, runCampaign } from '../../../src/explore/campaign.ts';
import { packageFile } from '../../../src/node/package-file.ts';
import { IN_TURN } from '../../../src/proxy/choose.ts';
import { AS_WRITTEN } from '../../../src/zoo/as-written/index.ts';
import { SHIPPED_MIX } from '../../../src/zoo/shipped.ts';
import { newMemory } from '../../helpers/world.ts';

const memory = newMemory();
const folder = mkdtempSync(join(tmpdir(), 'moriarty-jobs-'));
afterAll(() => rmSync(folder, { recursive: true }));

const CLEAN: CampaignOptions = {
  scenario: { ...SHIPPED_MIX, requestsMax: 2 },
  seedFrom: 5,
  goOn: (done) => done < 70,
  stopAtFirst: false,
};
const FAILING: CampaignOptions = {
  ...CLEAN,
  scenario: { ...AS_WRITTEN.scenario, requestsMax: 2, faults: ['F3', 'F8'] },
};
const uninterrupted = { signal: null, ignore: () => {} };

function inThreads(options: CampaignOptions, threads: number, file?: string): Promise<Campaign> {
  const jobs = { threads, backend: { backend: 'wasm' as const }, ...(file === undefined ? {} : { file }) };
  return campaignInThreads(options, jobs, uninterrupted);
}

/** The threads run the bundle: the frames of a stack are compared by the names of their functions. */
function shown(campaign: Campaign): object {
  const findings = campaign.findings.map(({ violation, ...rest }) => {
    const stack = violation.stack?.map((frame) => frame.split(' (')[0]);
    return { ...rest, violation: { ...violation, stack } };
  });
  return { ...campaign, findings };
}

describe('a campaign in threads is the one of a single thread', () => {
  const kinds = [CLEAN, FAILING, { ...FAILING, stopAtFirst: true }];
  const alone = kinds.map((options) => shown(runCampaign(memory, options)));

  test.each([1, 2, 3])('in %d, without and with findings, whole and up to the first', async (threads) => {
    const together = await Promise.all(kinds.map((options) => inThreads(options, threads)));
    expect(together.map(shown)).toEqual(alone);
  });

  test('and the failing one does fail, more than once of a kind and in more than one stretch', () => {
    const { findings } = runCampaign(memory, FAILING);
    expect(findings.length).toBeGreaterThan(0);
    expect(Math.max(...findings.map(({ count }) => count))).toBeGreaterThan(1);
    expect(runCampaign(memory, { ...FAILING, seedFrom: 37 }).findings.length).toBeGreaterThan(0);
  });

  test('up to where a signal came', async () => {
    const interruption = { signal: null as 'SIGINT' | null, ignore: () => {} };
    const onProgress = (): void => {
      interruption.signal = 'SIGINT';
    };
    const options = { ...FAILING, goOn: () => true, onProgress };
    const jobs = { threads: 2, backend: { backend: 'wasm' as const } };
    const campaign = await campaignInThreads(options, jobs, interruption);
    expect(campaign.schedules).toBeLessThan(1000);
    const same = { ...FAILING, goOn: (done: number) => done < campaign.schedules };
    expect(shown(campaign)).toEqual(shown(runCampaign(memory, same)));
  });

  test('and a connector of somebody else is loaded by each thread', async () => {
    const { parts, scenario } = await loadOwnConnector(packageFile('examples/own-connector/pull.mjs'));
    const options = { ...CLEAN, scenario, parts };
    const alone = shown(runCampaign(memory, options));
    expect(alone).toMatchObject({ findings: [{}] });
    expect(shown(await inThreads(options, 2))).toEqual(alone);
    const here = { ...options, parts: () => ({ connector: shipped, policy: IN_TURN }) };
    await expect(inThreads(here, 2)).rejects.toMatchObject({ code: 'JOBS' });
  });

  test('and a scenario that cannot be is refused alike', async () => {
    const odd = { ...CLEAN, scenario: { ...SHIPPED_MIX, connector: 'nobody' } };
    const refusal = (error: { code: string; message: string }) => ({ code: error.code, text: error.message });
    const alone = await Promise.resolve()
      .then(() => runCampaign(memory, odd))
      .then(() => null, refusal);
    expect(alone).not.toBeNull();
    expect(await inThreads(odd, 2).then(() => null, refusal)).toEqual(alone);
  });
});

test('a thread that dies is a harness failure with the seeds it had; the others go on', async () => {
  const file = join(folder, 'dying.mjs');
  writeFileSync(
    file,
    `import { parentPort } from 'node:worker_threads';
const on = parentPort.on.bind(parentPort);
parentPort.on = (name, answer) => on(name, (stretch) => {
  if (stretch.from === 32) process.exit(9);
  answer(stretch);
});
await import(${JSON.stringify(packageFile('dist/cli/main.js'))});`,
  );
  const { harness, findings, schedules } = await inThreads(FAILING, 2, file);
  expect(schedules).toBe(70);
  expect(findings.length).toBeGreaterThan(0);
  expect(harness).toMatchObject({ count: 1, kept: [{ code: 'WORKER-LOST', seed: 37, during: 'run' }] });
  expect(exitOf(findings.length, harness)).toBe(3);
  const page = showHarnessFailures(harness, { scenario: FAILING.scenario, flags: '' }).join('\n');
  expect(page).toContain(
    'WORKER-LOST: a worker thread was lost with the seeds 37 to 68: it ended with exit code 9',
  );
});

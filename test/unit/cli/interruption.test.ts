import { describe, expect, test } from 'vitest';
import { campaignInSlices, reportsOf } from '../../../src/cli/campaign.ts';
import { showFinding } from '../../../src/cli/finding-report.ts';
import { exitUnless, inSlices, type Signal, watchSignals } from '../../../src/cli/interruption.ts';
import { type CampaignOptions, runCampaign } from '../../../src/explore/campaign.ts';
import { readReplayLine } from '../../../src/explore/replay-line.ts';
import { AS_WRITTEN_MIX } from '../../../src/zoo/as-written/mix.ts';
import { newMemory } from '../../helpers/world.ts';

const memory = newMemory();
const options: CampaignOptions = {
  scenario: { ...AS_WRITTEN_MIX, faults: ['F3'] },
  seedFrom: 0,
  goOn: (done) => done < 40,
  stopAtFirst: false,
};
const at = (signal: Signal | null) => ({ signal, ignore: () => {} });

test.each(['SIGINT', 'SIGTERM'] as const)('%s is seen between two slices, and only once', async (name) => {
  const before = process.listenerCount(name);
  const interruption = watchSignals();
  let slices = 0;
  await inSlices(interruption, () => {
    if (++slices === 3) process.kill(process.pid, name);
    return slices < 1_000_000;
  });
  expect(slices).toBeGreaterThanOrEqual(3);
  expect(slices).toBeLessThan(1_000_000);
  expect(interruption.signal).toBe(name);
  expect(process.listenerCount(name)).toBe(before);
  expect(exitUnless(interruption, 1)).toBe(name === 'SIGINT' ? 130 : 143);
});

describe('a campaign in slices', () => {
  test('is the same as one at a stretch', async () => {
    const sliced = await campaignInSlices(memory, options, at(null));
    expect(sliced).toEqual(runCampaign(memory, options));
    expect(sliced.findings.length).toBeGreaterThan(0);
  });

  test('stops at the first violation where that is asked for', async () => {
    const first = { ...options, stopAtFirst: true };
    expect(await campaignInSlices(memory, first, at(null))).toEqual(runCampaign(memory, first));
  });

  test('tells its findings with a line that replays them when a signal came before they were shrunk', async () => {
    const campaign = runCampaign(memory, options);
    const reports = await reportsOf(memory, options, campaign, at('SIGINT'));
    expect(reports.map(({ finding }) => finding)).toEqual(campaign.findings);
    const text = showFinding(reports[0]!);
    expect(text).toContain('not shrunk, because the run was interrupted');
    const line = text.match(/FAIL \w+ replay: npx moriarty replay (\S+)/)![1]!;
    expect(readReplayLine(line).source).toEqual({ seed: campaign.findings[0]!.seed });
  });
});

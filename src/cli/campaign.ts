import { advanceCampaign, type Campaign, type CampaignOptions, newCampaign } from '../explore/campaign.ts';
import { addHarnessFailures } from '../explore/harness-failure.ts';
import type { WorldMemory } from '../sim/memory.ts';
import { asFound, type FindingReport, reportOf } from './finding-report.ts';
import { type Interruption, inSlices } from './interruption.ts';
import { showProgress } from './output.ts';

/** A campaign of a command, and the reports of what it found; a signal ends either. */

/** Schedules between two looks for a signal. */
const SLICE = 16;

/** A campaign that a signal ends early. */
export async function campaignInSlices(
  memory: WorldMemory,
  options: CampaignOptions,
  interruption: Interruption,
): Promise<Campaign> {
  const campaign = newCampaign();
  await inSlices(interruption, () => advanceCampaign(memory, options, campaign, SLICE));
  return campaign;
}

/** A report of each finding; those that a signal came before are told as they were found. */
export async function reportsOf(
  memory: WorldMemory,
  { scenario, ...options }: CampaignOptions,
  { findings, harness }: Campaign,
  interruption: Interruption,
): Promise<FindingReport[]> {
  const { fabric, parts } = options;
  const runOptions = {
    ...(fabric === undefined ? {} : { fabric }),
    ...(parts === undefined ? {} : { parts }),
  };
  const reports: FindingReport[] = [];
  await inSlices(interruption, () => {
    const finding = findings[reports.length];
    if (finding === undefined) return false;
    showProgress(`shrinking ${reports.length + 1} of ${findings.length}`);
    reports.push(reportOf(memory, scenario, finding, runOptions));
    return true;
  });
  for (const finding of findings.slice(reports.length))
    reports.push(asFound(scenario, finding, runOptions, 'the run was interrupted'));
  for (const report of reports) addHarnessFailures(harness, report.harness);
  return reports;
}

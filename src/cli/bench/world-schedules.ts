import { believe } from '../../base/failure.ts';
import { runCampaign } from '../../explore/campaign.ts';
import type { WorldMemory } from '../../sim/memory.ts';
import { SHIPPED_MIX } from '../../zoo/shipped.ts';

/** Runs schedules of the default mix, as a campaign does. @returns their steps */
export function runSchedules(memory: WorldMemory, seedFrom: number, schedules: number): number {
  const ran = runCampaign(memory, {
    scenario: SHIPPED_MIX,
    seedFrom,
    goOn: (done) => done < schedules,
    stopAtFirst: false,
  });
  const { harness, findings } = ran;
  believe(
    ran.schedules === schedules && findings.length === 0 && harness.count === 0,
    'INV-BENCH-2',
    `of ${schedules} schedules ${ran.schedules} ran, ${findings.length} with a violation, ${harness.count} broken`,
  );
  return ran.steps;
}

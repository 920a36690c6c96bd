import type { Command } from 'commander';
import { BrokenBelief } from '../base/failure.ts';
import { FAULT_IDS, FAULTS, type FaultId } from '../connector/as-written/faults.ts';
import { type Campaign, runCampaign } from '../explore/campaign.ts';
import { addHarnessFailures, type HarnessFailures, noHarnessFailures } from '../explore/harness-failure.ts';
import type { WorldMemory } from '../sim/memory.ts';
import { AS_WRITTEN_MIX, type Scenario, SHIPPED_MIX } from '../sim/scenario.ts';
import { TRACE_DEFAULTS } from '../sim/trace-run.ts';
import { reportOf, showFinding } from './check.ts';
import { checkMemory } from './harness.ts';
import { showHarnessFailures } from './harness-report.ts';
import { complain, EXIT, endProgress, print, showProgress, thousands } from './output.ts';
import { SMALL_TRACE, showSummary, traceFile } from './trace.ts';

/** Schedules of the shipped connector in each mode, and the most that one known fault may take. */
const SHIPPED_SCHEDULES = 2_000;
const FAULT_SCHEDULES_MAX = 2_000;

export function addDemo(program: Command, finish: (code: number) => void): void {
  program
    .command('demo')
    .description(
      'the main job: attack the shipped connector, find the faults of the first published one, run a trace',
    )
    .action(() => finish(demo()));
}

/** What the campaigns of the demo share. */
interface Attack {
  readonly memory: WorldMemory;
  readonly harness: HarnessFailures;
}

function demo(): number {
  const attack: Attack = { memory: checkMemory(), harness: noHarnessFailures() };
  print(
    '1. The shipped connector under attack: 2 P, 2 D, TP 1 and 2, chunked prefill, aborts, ordinary requests, crashes, lost messages',
  );
  const clean = (['write', 'read'] as const).map((mode) => attackShipped(attack, mode)).every(Boolean);
  print('\n2. The first published connector, as it was first written: each known fault, found and shrunk');
  const found = FAULT_IDS.map((fault) => hunt(attack, fault)).every(Boolean);
  print('3. A request trace through the cluster, in time order');
  const { summary, result } = traceFile(SMALL_TRACE, TRACE_DEFAULTS);
  print(showSummary('examples/small.jsonl', TRACE_DEFAULTS, summary));
  const traced = result.violation === null && summary.blocksLeft === 0;
  if (attack.harness.count > 0) return EXIT.harness;
  if (!found) throw new BrokenBelief('INV-DEMO-1', 'a known fault of the first connector was not found');
  return clean && traced ? EXIT.fine : EXIT.violation;
}

function campaignOf(
  attack: Attack,
  scenario: Scenario,
  schedules: number,
  stopAtFirst: boolean,
  name: string,
): Campaign & { seconds: number } {
  const started = performance.now();
  const onProgress = (progress: Campaign): void =>
    showProgress(
      `   ${name}: ${thousands(progress.schedules)} schedules, ${progress.findings.length} violations`,
    );
  const campaign = runCampaign(attack.memory, {
    scenario,
    seedFrom: 0,
    goOn: (done) => done < schedules,
    stopAtFirst,
    onProgress,
  });
  endProgress();
  for (const line of showHarnessFailures(campaign.harness, { scenario, flags: '' })) complain(line);
  addHarnessFailures(attack.harness, campaign.harness);
  return { ...campaign, seconds: (performance.now() - started) / 1000 };
}

function attackShipped(attack: Attack, mode: 'read' | 'write'): boolean {
  const scenario = { ...SHIPPED_MIX, mode };
  const campaign = campaignOf(attack, scenario, SHIPPED_SCHEDULES, false, mode.toUpperCase());
  const { schedules, steps, seconds, findings } = campaign;
  print(
    `   ${mode.toUpperCase().padEnd(5)} ${thousands(schedules)} schedules, ${thousands(steps)} steps, ${thousands(schedules / seconds)} schedules/s: ${findings.length} violations`,
  );
  for (const finding of findings) print(showFinding(reportOf(attack.memory, scenario, finding)));
  return findings.length === 0;
}

function hunt(attack: Attack, fault: FaultId): boolean {
  const { where, what } = FAULTS[fault];
  const scenario = { ...AS_WRITTEN_MIX, faults: [fault] };
  const campaign = campaignOf(attack, scenario, FAULT_SCHEDULES_MAX, true, fault);
  const { schedules, findings } = campaign;
  const finding = findings[0];
  if (finding === undefined) {
    print(`${fault} (${where}): not found in ${thousands(schedules)} schedules`);
    return false;
  }
  print(`${fault} (${where}: ${what}): found in schedule ${schedules}`);
  print(showFinding(reportOf(attack.memory, scenario, finding)));
  return true;
}

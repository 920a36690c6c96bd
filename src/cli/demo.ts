import type { Command } from 'commander';
import { BrokenBelief } from '../base/failure.ts';
import { FAULT_IDS, FAULTS, type FaultId } from '../connector/as-written/faults.ts';
import { type Campaign, runCampaign } from '../explore/campaign.ts';
import type { WorldMemory } from '../sim/memory.ts';
import { AS_WRITTEN_MIX, type Scenario, SHIPPED_MIX } from '../sim/scenario.ts';
import { TRACE_DEFAULTS } from '../sim/trace-run.ts';
import { reportOf, showFinding } from './check.ts';
import { checkMemory } from './harness.ts';
import { EXIT, endProgress, print, showProgress, thousands } from './output.ts';
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

function demo(): number {
  const memory = checkMemory();
  print(
    '1. The shipped connector under attack: 2 P, 2 D, TP 1 and 2, chunked prefill, aborts, ordinary requests, crashes, lost messages',
  );
  const clean = (['write', 'read'] as const).map((mode) => attackShipped(memory, mode)).every(Boolean);
  print('\n2. The first published connector, as it was first written: each known fault, found and shrunk');
  const found = FAULT_IDS.map((fault) => hunt(memory, fault)).every(Boolean);
  print('3. A request trace through the cluster, in time order');
  const { summary, result } = traceFile(SMALL_TRACE, TRACE_DEFAULTS);
  print(showSummary('examples/small.jsonl', TRACE_DEFAULTS, summary));
  const traced = result.violation === null && summary.blocksLeft === 0;
  if (!found) throw new BrokenBelief('INV-DEMO-1', 'a known fault of the first connector was not found');
  return clean && traced ? EXIT.fine : EXIT.violation;
}

function campaignOf(
  memory: WorldMemory,
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
  const campaign = runCampaign(memory, {
    scenario,
    seedFrom: 0,
    goOn: (done) => done < schedules,
    stopAtFirst,
    onProgress,
  });
  endProgress();
  return { ...campaign, seconds: (performance.now() - started) / 1000 };
}

function attackShipped(memory: WorldMemory, mode: 'read' | 'write'): boolean {
  const scenario = { ...SHIPPED_MIX, mode };
  const { schedules, steps, seconds, findings } = campaignOf(
    memory,
    scenario,
    SHIPPED_SCHEDULES,
    false,
    mode.toUpperCase(),
  );
  print(
    `   ${mode.toUpperCase().padEnd(5)} ${thousands(schedules)} schedules, ${thousands(steps)} steps, ${thousands(schedules / seconds)} schedules/s: ${findings.length} violations`,
  );
  for (const finding of findings) print(showFinding(reportOf(memory, scenario, finding)));
  return findings.length === 0;
}

function hunt(memory: WorldMemory, fault: FaultId): boolean {
  const { where, what } = FAULTS[fault];
  const scenario = { ...AS_WRITTEN_MIX, faults: [fault] };
  const { schedules, findings } = campaignOf(memory, scenario, FAULT_SCHEDULES_MAX, true, fault);
  const finding = findings[0];
  if (finding === undefined) {
    print(`${fault} (${where}): not found in ${thousands(schedules)} schedules`);
    return false;
  }
  print(`${fault} (${where}: ${what}): found in schedule ${schedules}`);
  print(showFinding(reportOf(memory, scenario, finding)));
  return true;
}

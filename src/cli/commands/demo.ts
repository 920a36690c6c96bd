import { BrokenBelief } from '../../base/failure.ts';
import type { Campaign } from '../../explore/campaign.ts';
import {
  addHarnessFailures,
  type HarnessFailures,
  noHarnessFailures,
} from '../../explore/harness-failure.ts';
import { TRACE_DEFAULTS } from '../../explore/trace-run.ts';
import type { WorldMemory } from '../../sim/memory.ts';
import type { Scenario } from '../../sim/scenario.ts';
import { AS_WRITTEN } from '../../zoo/as-written/index.ts';
import { SHIPPED_MIX } from '../../zoo/shipped.ts';
import { campaignInSlices, reportsOf } from '../campaign.ts';
import { commandOf } from '../command.ts';
import { showFinding } from '../finding-report.ts';
import { checkMemory } from '../harness.ts';
import { showHarnessFailures } from '../harness-report.ts';
import { exitUnless, type Interruption, showInterruption, watchSignals } from '../interruption.ts';
import { complain, EXIT, endProgress, print, showProgress, thousands } from '../output.ts';
import { SMALL_TRACE, showSummary, traceFile } from './trace.ts';

/** Schedules of the shipped connector in each mode, and the most that one known fault may take. */
const SHIPPED_SCHEDULES = 2_000;
const FAULT_SCHEDULES_MAX = 2_000;

export const command = commandOf({
  options: [],
  examples: [
    {
      line: 'demo',
      does: 'what `npm start` shows: both modes attacked, each known fault found, a trace run',
    },
  ],
  run: demo,
});

/** What the campaigns of the demo share. */
interface Attack {
  readonly memory: WorldMemory;
  readonly harness: HarnessFailures;
  readonly interruption: Interruption;
}

async function demo(): Promise<number> {
  const interruption = watchSignals();
  const attack: Attack = { memory: checkMemory(), harness: noHarnessFailures(), interruption };
  print(
    '1. The shipped connector under attack: 2 P, 2 D, TP 1 and 2, chunked prefill, aborts, ordinary requests, crashes, lost messages',
  );
  const clean = await every(attack, ['write', 'read'] as const, attackShipped);
  if (interruption.signal === null)
    print('\n2. The first published connector, as it was first written: each known fault, found and shrunk');
  const found = await every(attack, Object.keys(AS_WRITTEN.bugs), hunt);
  interruption.ignore();
  for (const line of showInterruption(interruption)) print(line);
  if (interruption.signal !== null) return exitUnless(interruption, EXIT.fine);
  return conclude(attack, clean, found);
}

/** Whether `part` holds for each; after a signal no further one is begun. */
async function every<T>(
  attack: Attack,
  list: readonly T[],
  part: (attack: Attack, each: T) => Promise<boolean>,
): Promise<boolean> {
  let holds = true;
  for (const each of list) {
    if (attack.interruption.signal === null) holds = (await part(attack, each)) && holds;
  }
  return holds;
}

function conclude({ harness }: Attack, clean: boolean, found: boolean): number {
  print('3. A request trace through the cluster, in time order');
  const { summary, result } = traceFile(SMALL_TRACE, TRACE_DEFAULTS);
  print(showSummary('examples/small.jsonl', TRACE_DEFAULTS, summary));
  const traced = result.violation === null && summary.blocksLeft === 0;
  if (harness.count > 0) return EXIT.harness;
  if (!found) throw new BrokenBelief('INV-DEMO-1', 'a known fault of the first connector was not found');
  return clean && traced ? EXIT.fine : EXIT.violation;
}

interface Hunt {
  readonly name: string;
  readonly scenario: Scenario;
  readonly schedules: number;
  readonly stopAtFirst: boolean;
}

interface HuntOutcome {
  readonly campaign: Campaign;
  readonly seconds: number;
  /** Its findings on a page each. */
  readonly pages: readonly string[];
}

async function campaignOf(
  attack: Attack,
  { name, scenario, schedules, stopAtFirst }: Hunt,
): Promise<HuntOutcome> {
  const { memory, interruption } = attack;
  const started = performance.now();
  const onProgress = (progress: Campaign): void =>
    showProgress(
      `   ${name}: ${thousands(progress.schedules)} schedules, ${progress.findings.length} violations`,
    );
  const goOn = (done: number): boolean => done < schedules;
  const options = { scenario, seedFrom: 0, goOn, stopAtFirst, onProgress };
  const campaign = await campaignInSlices(memory, options, interruption);
  const seconds = (performance.now() - started) / 1000;
  const reports = await reportsOf(memory, options, campaign, interruption);
  endProgress();
  for (const line of showHarnessFailures(campaign.harness, { scenario, flags: '' })) complain(line);
  addHarnessFailures(attack.harness, campaign.harness);
  return { campaign, seconds, pages: reports.map(showFinding) };
}

async function attackShipped(attack: Attack, mode: 'read' | 'write'): Promise<boolean> {
  const name = mode.toUpperCase();
  const scenario = { ...SHIPPED_MIX, mode };
  const task = { name, scenario, schedules: SHIPPED_SCHEDULES, stopAtFirst: false };
  const { campaign, seconds, pages } = await campaignOf(attack, task);
  const { schedules, steps, findings } = campaign;
  print(
    `   ${name.padEnd(5)} ${thousands(schedules)} schedules, ${thousands(steps)} steps, ${thousands(schedules / seconds)} schedules/s: ${findings.length} violations`,
  );
  for (const page of pages) print(page);
  return findings.length === 0;
}

async function hunt(attack: Attack, fault: string): Promise<boolean> {
  const { where, what } = AS_WRITTEN.bugs[fault]!;
  const scenario = { ...AS_WRITTEN.scenario, faults: [fault] };
  const task = { name: fault, scenario, schedules: FAULT_SCHEDULES_MAX, stopAtFirst: true };
  const { campaign, pages } = await campaignOf(attack, task);
  const { schedules, findings } = campaign;
  if (findings.length === 0) {
    print(`${fault} (${where}): not found in ${thousands(schedules)} schedules`);
    return false;
  }
  print(`${fault} (${where}: ${what}): found in schedule ${schedules}`);
  for (const page of pages) print(page);
  return true;
}

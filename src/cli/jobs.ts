import { UsageError } from '../base/failure.ts';
import {
  type Campaign,
  type CampaignOptions,
  joinLost,
  joinStretch,
  newCampaign,
  type Stretch,
} from '../explore/campaign.ts';
import type { HarnessFailure } from '../explore/harness-failure.ts';
import { packageFile } from '../node/package-file.ts';
import type { ModuleRef } from '../node/user-module.ts';
import { type Done, workInOrder } from '../node/worker-pool.ts';
import type { BackendFlags } from './backend.ts';
import type { Interruption } from './interruption.ts';
import type { StretchAnswer, StretchSetup } from './stretches.ts';

/** Schedules that a thread runs at a time: some tens of milliseconds, which is how long a signal or a deadline waits. */
const STRETCH = 32;

export interface Jobs {
  readonly threads: number;
  readonly backend: BackendFlags;
  readonly python?: string | undefined;
  /** What each thread runs, if not the program itself, as it is built. */
  readonly file?: string;
}

/**
 * The campaign that one thread would run, whatever the number of threads: its stretches are joined in the order of their seeds.
 *
 * @throws UsageError as advanceCampaign does; JOBS for parts that no thread can load.
 */
export async function campaignInThreads(
  options: CampaignOptions,
  jobs: Jobs,
  interruption: Interruption,
): Promise<Campaign> {
  const { scenario, seedFrom, stopAtFirst, onProgress } = options;
  const module = moduleOf(options);
  const { backend, python } = jobs;
  const data: StretchSetup = { scenario, seedFrom, stopAtFirst, module, backend, python };
  const campaign = newCampaign();
  let refusal = null as UsageError | null;
  const take = (done: Done<Stretch, StretchAnswer>): boolean => {
    if ('lost' in done) joinLost(campaign, done.task, lostThread(seedFrom, done.task, done.lost));
    else if ('part' in done.result) joinStretch(campaign, done.result.part);
    else refusal = new UsageError(done.result.refusal.code, done.result.refusal.message);
    onProgress?.(campaign);
    return refusal === null && !(stopAtFirst && campaign.findings.length > 0);
  };
  const next = stretches(options.goOn, interruption);
  const file = jobs.file ?? packageFile('dist/cli/main.js');
  await workInOrder({ file, data, threads: jobs.threads, next, take });
  if (refusal !== null) throw refusal;
  return campaign;
}

/** A thread cannot be given code, only where to load it from. */
function moduleOf({ parts }: CampaignOptions): ModuleRef | null {
  if (parts === undefined) return null;
  const { module } = parts();
  if (module === undefined)
    throw new UsageError('JOBS', 'parts that come from no module cannot be sent to a thread');
  return module;
}

/** One stretch after the other, for as long as the campaign is to go on. */
function stretches(goOn: CampaignOptions['goOn'], interruption: Interruption): () => Stretch | null {
  let from = 0;
  return () => {
    let schedules = 0;
    if (interruption.signal === null) while (schedules < STRETCH && goOn(from + schedules)) schedules++;
    if (schedules === 0) return null;
    const stretch = { from, schedules };
    from += schedules;
    return stretch;
  };
}

function lostThread(seedFrom: number, { from, schedules }: Stretch, why: string): HarnessFailure {
  const seed = seedFrom + from;
  const message = `a worker thread was lost with the seeds ${seed} to ${seed + schedules - 1}: ${why}`;
  return { seed, code: 'WORKER-LOST', message, stack: [], during: 'run', tape: null };
}

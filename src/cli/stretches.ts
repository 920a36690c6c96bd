import { UsageError } from '../base/failure.ts';
import { type Campaign, type CampaignOptions, runStretch, type Stretch } from '../explore/campaign.ts';
import type { ModuleRef } from '../node/user-module.ts';
import { type BackendFlags, openBackend } from './backend.ts';
import { checkMemory } from './harness.ts';
import { kindOfFile } from './own-kinds.ts';

/** What a worker thread of `check --jobs` is told at its start, and how it answers: plain data, both ways. */

export interface StretchSetup extends Pick<CampaignOptions, 'scenario' | 'seedFrom' | 'stopAtFirst'> {
  readonly backend: BackendFlags;
  /** Where a connector of the user's own comes from; each thread loads it. */
  readonly module: ModuleRef | null;
  /** Of a guest: the interpreter that was asked for. */
  readonly python: string | undefined;
}

export type StretchAnswer =
  | { readonly part: Campaign }
  /** The caller's scenario is wrong. */
  | { readonly refusal: { readonly code: string; readonly message: string } };

/** Memory, backend, connector and options of one thread; what it returns runs a stretch. */
export async function openStretches(setup: StretchSetup): Promise<(stretch: Stretch) => StretchAnswer> {
  const { backend: flags, module, python, ...rest } = setup;
  const memory = checkMemory();
  const backend = openBackend(flags, memory);
  const own =
    module === null ? {} : { parts: (await kindOfFile(module.path).load(module.path, python)).parts };
  const options = { ...rest, ...own, ...backend.options, goOn: () => true };
  return (stretch) => {
    try {
      return { part: runStretch(memory, options, stretch) };
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      return { refusal: { code: error.code, message: error.message } };
    }
  };
}

import { UsageError } from '../base/failure.ts';
import { type Campaign, type CampaignOptions, runStretch, type Stretch } from '../explore/campaign.ts';
import { type BackendFlags, openBackend } from './backend.ts';
import { checkMemory } from './harness.ts';

/** What a worker thread of `check --jobs` is told at its start, and how it answers: plain data, both ways. */

export interface StretchSetup extends Pick<CampaignOptions, 'scenario' | 'seedFrom' | 'stopAtFirst'> {
  readonly backend: BackendFlags;
}

export type StretchAnswer =
  | { readonly part: Campaign }
  /** The caller's scenario is wrong. */
  | { readonly refusal: { readonly code: string; readonly message: string } };

/** Memory, backend and options of one thread; what it returns runs a stretch. */
export function openStretches({
  backend: flags,
  ...rest
}: StretchSetup): (stretch: Stretch) => StretchAnswer {
  const memory = checkMemory();
  const backend = openBackend(flags, memory);
  const options = { ...rest, ...backend.options, goOn: () => true };
  return (stretch) => {
    try {
      return { part: runStretch(memory, options, stretch) };
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      return { refusal: { code: error.code, message: error.message } };
    }
  };
}

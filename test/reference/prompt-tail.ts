import { requireWhole } from '../../src/base/checks.ts';
import { UsageError } from '../../src/base/failure.ts';

/** `blocks[0]` holds the tokens from `firstToken`, a block border, on. */
export interface TailSpan {
  readonly blocks: readonly number[];
  readonly firstToken: number;
}

/**
 * Which tokens two block lists of one prompt have in common when all that is known is that each list ends with the block
 * of the last prompt token. After a prefix hit D's list is the shorter one: it holds the tail of the prompt, so it is
 * paired with the tail of P's list, by token position, whatever the block sizes of either side.
 */
export interface PromptTail {
  readonly local: TailSpan;
  readonly remote: TailSpan;
  /** First token that the local list holds; equals the number of prompt tokens when there is nothing to move. */
  readonly tokenFrom: number;
}

/**
 * Block sizes and `promptTokens` in tokens. `localBlocks` without any block means a release without a transfer.
 * @throws UsageError TAIL-SIZE for a bad size, TAIL-LENGTH when a list is longer than the prompt or the remote list
 * begins behind the local one.
 */
export function promptTail(
  localBlocks: readonly number[],
  localBlockTokens: number,
  remoteBlocks: readonly number[],
  remoteBlockTokens: number,
  promptTokens: number,
): PromptTail {
  requireWhole(promptTokens, [0, Number.MAX_SAFE_INTEGER], 'TAIL-SIZE', 'the length of the prompt');
  const local = tailSpan(localBlocks, localBlockTokens, promptTokens);
  const remote = tailSpan(remoteBlocks, remoteBlockTokens, promptTokens);
  const tokenFrom = localBlocks.length === 0 ? promptTokens : local.firstToken;
  if (localBlocks.length > 0 && remote.firstToken > tokenFrom) {
    throw new UsageError(
      'TAIL-LENGTH',
      `the peer's blocks begin at token ${remote.firstToken}, ours at token ${tokenFrom}`,
    );
  }
  return { local, remote, tokenFrom };
}

function tailSpan(blocks: readonly number[], blockTokens: number, promptTokens: number): TailSpan {
  requireWhole(blockTokens, [1, Number.MAX_SAFE_INTEGER], 'TAIL-SIZE', 'the size of a block');
  const firstBlock = Math.ceil(promptTokens / blockTokens) - blocks.length;
  if (firstBlock < 0) {
    throw new UsageError(
      'TAIL-LENGTH',
      `${blocks.length} blocks of ${blockTokens} tokens are more than ${promptTokens} prompt tokens need`,
    );
  }
  return { blocks, firstToken: firstBlock * blockTokens };
}

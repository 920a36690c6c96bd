import { mix } from '../base/mix.ts';
import { stampOf } from '../kv/stamps.ts';
import type { Prompt } from '../wire/messages.ts';
import type { RequestSetup, Setup } from './draws.ts';
import { take, type WorldMemory } from './memory.ts';

/**
 * Requests and the answers a single node would give. A token's lineage is a hash of all tokens up to it, so equal
 * prefixes have equal lineages, and a cell's stamp follows from it. The next token is the sum of all stamps before it.
 */
export interface ReferencedPrompt {
  readonly prompt: Prompt;
  readonly reference: readonly number[];
}

const ROOT = 0x6d6f7269;

export function layPrompt(
  setup: Setup,
  request: RequestSetup,
  blockTokens: number,
  memory: WorldMemory,
): ReferencedPrompt {
  const { promptTokens, outputTokens } = request;
  const parts = setup.prefillOrder === 'BN' ? 1 : 2;
  const lineageAddress = take(memory, (promptTokens + outputTokens) * 4);
  const reference: number[] = [];
  const blockKeys: number[] = [];
  let lineage = ROOT;
  let sum = 0;
  for (let position = 0; position < promptTokens + outputTokens; position++) {
    if (position >= promptTokens) reference.push(sum);
    const token = position < promptTokens ? promptToken(request, position) : sum;
    lineage = mix(lineage, token);
    memory.words[(lineageAddress >>> 2) + position] = lineage;
    sum = (sum + cellSum(setup, lineage, parts)) >>> 0;
    if (position < promptTokens && (position + 1) % blockTokens === 0) blockKeys.push(lineage);
  }
  return {
    prompt: Object.freeze({
      request: request.request,
      promptTokens,
      maxTokens: outputTokens,
      lineageAddress,
      blockKeys,
    }),
    reference,
  };
}

function promptToken(request: RequestSetup, position: number): number {
  const shared = request.family > 0 && position < request.sharedTokens;
  return mix(shared ? 0x10000 + request.family : request.request, position);
}

function cellSum(setup: Setup, lineage: number, parts: number): number {
  let sum = 0;
  for (let layer = 0; layer < setup.layers; layer++) {
    for (let part = 0; part < parts; part++) {
      for (let head = 0; head < setup.heads; head++) sum = (sum + stampOf(lineage, layer, part, head)) >>> 0;
    }
  }
  return sum;
}

import type { Mode } from '../base/topology.ts';
import type { Leg } from '../wire/messages.ts';
import type { Matched } from './plug.ts';

/**
 * How many tokens a scheduler may expect from the peer, by the shipped connector's rule. READ leaves the last prompt
 * token to D, which must compute it anyway to get its first logits. Whatever comes at all comes between two steps, never
 * inside a forward pass; nothing to come means nothing to wait for. Source: wire.md 6.5.
 */
export function matchedTokens(mode: Mode, leg: Leg, promptTokens: number, computedTokens: number): Matched {
  const wanted = mode === 'read' ? promptTokens - 1 : promptTokens;
  const tokens = leg === 'decode' ? Math.max(0, wanted - computedTokens) : 0;
  return { tokens, async: tokens > 0 };
}

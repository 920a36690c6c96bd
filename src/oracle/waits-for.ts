import type { ActorId } from '../base/topology.ts';
import type { Wait } from '../wire/machine.ts';

/** The chain of waits that starts at an actor: who waits for whom, down to the one that waits for nobody or for a circle. */
export function waitChain(waits: readonly Wait[], from: ActorId): Wait[] {
  const chain: Wait[] = [];
  const seen = new Set<ActorId>();
  for (let who = from; !seen.has(who); ) {
    seen.add(who);
    const wait = waits.find((candidate) => candidate.who === who);
    if (wait === undefined) break;
    chain.push(wait);
    if (wait.whom < 0) break;
    who = wait.whom;
  }
  return chain;
}

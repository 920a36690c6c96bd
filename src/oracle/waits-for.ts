import type { ActorId, Topology } from '../base/topology.ts';
import type { Wait } from '../wire/machine.ts';

/** The chain of waits that starts at the proxy: who waits for whom, down to the one that waits for nobody or for a circle. */
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

/** The end of a chain, without the numbers that differ from run to run: it names the kind of hang. */
export function placeOfHang(chain: readonly Wait[], topology: Topology): string {
  const last = chain.at(-1);
  if (last === undefined) return 'nobody waits';
  const what = last.what
    .replace(/\d+/g, 'n')
    .replace(/\(.*\)/, '')
    .trim();
  return `${roleOf(last.who, topology)} waits for ${what}${last.whom < 0 ? '' : ` from ${roleOf(last.whom, topology)}`}`;
}

function roleOf(actor: ActorId, topology: Topology): string {
  const spec = topology.actors[actor]!;
  if (spec.engine < 0) return 'proxy';
  return `${topology.engines[spec.engine]!.role} ${spec.tpRank < 0 ? 'scheduler' : 'rank'}`;
}

export function showChain(chain: readonly Wait[], topology: Topology): string[] {
  return chain.map(
    (wait) =>
      `${topology.actors[wait.who]!.name} waits for ${wait.what}${wait.whom < 0 ? '' : ` from ${topology.actors[wait.whom]!.name}`}`,
  );
}

import type { ActorId } from '../base/topology.ts';
import type { CacheMap } from '../oracle/cache-map.ts';
import type { Effect, PostedBatch } from '../wire/machine.ts';
import type { RunSpec } from './run-spec.ts';

/**
 * What comes out of a machine is input to the world: a connector that asks for what cannot be done is told on, by the name of
 * who asked, and the effect is not performed. Each check gives words that go on from that name, or null.
 */

export interface Border {
  readonly spec: RunSpec;
  readonly cacheOf: (actor: ActorId) => CacheMap | undefined;
}

type Check<K extends Effect['kind']> = (
  effect: Extract<Effect, { kind: K }>,
  actor: ActorId,
  border: Border,
) => string | null;

/** Timers' kinds share a number with their objects. */
const TIMERS = 16;

const CHECKS: { readonly [K in Effect['kind']]: Check<K> } = {
  send: ({ to, message }, _, { spec }) => {
    if (spec.setup.topology.actors[to] === undefined) return `sends to actor ${to}, who does not exist`;
    return isObject(message) ? null : `sends ${String(message)}, which is no message`;
  },
  arm: (effect) => {
    const { earliest, latest } = effect;
    const isSpan = Number.isFinite(earliest) && Number.isFinite(latest) && earliest <= latest;
    return wrongTimer('arms', effect) ?? (isSpan ? null : `arms a timer for [${earliest}, ${latest}]`);
  },
  stop: (effect) => wrongTimer('stops', effect),
  turn: ({ thread, delayMicros }) =>
    isWhole(thread) && isDelay(delayMicros)
      ? null
      : `asks for a turn of thread ${thread} in ${delayMicros} us`,
  join: ({ phase, delayMicros }) =>
    isWhole(phase) && isDelay(delayMicros) ? null : `joins phase ${phase} for ${delayMicros} us`,
  connect: ({ peer, epoch }, actor, border) =>
    wrongPeer('connects to', actor, peer, border) ??
    (isWhole(epoch) ? null : `connects to actor ${peer} in epoch ${epoch}, which is not a whole number`),
  fence: ({ peer, epoch }, actor, border) =>
    wrongPeer('fences', actor, peer, border) ??
    (isWhole(epoch) ? null : `fences actor ${peer} with epoch ${epoch}, which is not a whole number`),
  reset: ({ peer }, actor, border) => wrongPeer('resets its queue pairs towards', actor, peer, border),
  post: ({ batch }, actor, border) => {
    const wrong = isObject(batch) ? wrongBatch(batch, actor, border) : 'is none';
    return wrong === null ? null : `posts a batch that ${wrong}`;
  },
  note: () => null,
};

/** What is wrong with an effect of an actor, in words that go on from the actor's name; null when nothing is. */
export function mistakeIn(effect: Effect, actor: ActorId, border: Border): string | null {
  // The table's type says that each check gets its own kind; the compiler cannot follow that through the index.
  const check = CHECKS[effect.kind] as Check<Effect['kind']> | undefined;
  return check === undefined
    ? `asks for ${String(effect.kind)}, which is no effect`
    : check(effect, actor, border);
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isDelay(value: number): boolean {
  return Number.isFinite(value) && value >= 0;
}

function wrongTimer(
  verb: string,
  { timer, object }: { readonly timer: number; readonly object: number },
): string | null {
  return isWhole(timer) && timer < TIMERS && isWhole(object)
    ? null
    : `${verb} timer ${timer} for object ${object}`;
}

/** Only a rank has a NIC, and its peers are the ranks of other engines. */
function wrongPeer(verb: string, actor: ActorId, peer: ActorId, { spec }: Border): string | null {
  const { actors } = spec.setup.topology;
  const [own, other] = [actors[actor]!, actors[peer]];
  if (own.tpRank < 0) return `${verb} actor ${peer}, but is no rank and has no NIC`;
  if (other === undefined) return `${verb} actor ${peer}, who does not exist`;
  if (other.tpRank < 0) return `${verb} ${other.name}, which is no rank and has no NIC`;
  return other.engine === own.engine ? `${verb} ${other.name}, which is of its own engine` : null;
}

const NUMBERS = ['tag', 'transfer', 'request', 'layer', 'part'] as const;

function wrongBatch(batch: PostedBatch, actor: ActorId, border: Border): string | null {
  const { setup, limits } = border.spec;
  const { peer, queuePair, operation, layer, request } = batch;
  const peerIsWrong = wrongPeer('goes to', actor, peer, border);
  if (peerIsWrong !== null) return peerIsWrong;
  const odd = NUMBERS.find((name) => !isWhole(batch[name]));
  if (odd !== undefined) return `has ${odd} ${batch[odd]}, which is not a whole number`;
  if (operation !== 'read' && operation !== 'write') return `is a ${operation}, neither read nor write`;
  if (!isWhole(queuePair) || queuePair >= setup.queuePairs)
    return `is for queue pair ${queuePair} of ${setup.queuePairs}`;
  if (layer >= setup.layers) return `is of layer ${layer} of ${setup.layers}`;
  if (request >= setup.requests.length) return `is of request ${request} of ${setup.requests.length}`;
  const own = border.cacheOf(actor)!;
  const other = border.cacheOf(peer)!;
  return (
    wrongBlocks('local', batch.localBlocks, limits.blocks) ??
    wrongBlocks('remote', batch.remoteBlocks, limits.blocks) ??
    wrongRuns(batch.runs, own.bytes, other.bytes)
  );
}

function wrongBlocks(side: string, blocks: unknown, count: number): string | null {
  if (!Array.isArray(blocks)) return `has no list of ${side} blocks`;
  for (const block of blocks)
    if (!isWhole(block) || block >= count) return `names ${side} block ${block} of ${count}`;
  return null;
}

const RUN_NUMBERS = 3;

function wrongRuns(runs: unknown, localBytes: number, remoteBytes: number): string | null {
  if (!Array.isArray(runs) || runs.length === 0) return 'has no runs';
  if (runs.length % RUN_NUMBERS !== 0) return `has ${runs.length} numbers as its runs, not three for each`;
  for (let at = 0; at < runs.length; at += RUN_NUMBERS) {
    const [local, remote, bytes]: unknown[] = [runs[at], runs[at + 1], runs[at + 2]];
    const isSound = isWhole(local) && isWhole(remote) && isWhole(bytes);
    if (isSound && local + bytes <= localBytes && remote + bytes <= remoteBytes) continue;
    const run = `run ${at / RUN_NUMBERS} of ${bytes} bytes from local offset ${local} to remote offset ${remote}`;
    return isSound
      ? `leaves a region: ${run}, the regions have ${localBytes} and ${remoteBytes} bytes`
      : `is not counted in bytes: ${run}`;
  }
  return null;
}

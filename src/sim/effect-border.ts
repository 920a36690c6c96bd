import { describeValue } from '../base/thrown.ts';
import type { ActorId } from '../base/topology.ts';
import type { Breach } from '../oracle/breach.ts';
import type { CacheMap } from '../oracle/cache-map.ts';
import { IMPOSSIBLE } from '../oracle/invariants/i12-possible-request.ts';
import type { Description, Effect, Fields, PostedBatch } from '../wire/machine.ts';
import type { RunSpec } from './run-spec.ts';

/**
 * What comes out of a machine is input to the world: a connector that asks for what cannot be done is told on, by the name of
 * who asked, and the effect is not performed. Each check gives what is wrong, or null.
 */

export interface Border {
  readonly spec: RunSpec;
  readonly cacheOf: (actor: ActorId) => CacheMap | undefined;
}

/** What is wrong with an effect: which way, and with which numbers. Who asked, and for what kind of effect, is told with it. */
export interface Mistake {
  readonly breach: Breach;
  readonly ids: Fields;
}

type Check<K extends Effect['kind']> = (
  effect: Extract<Effect, { kind: K }>,
  actor: ActorId,
  border: Border,
) => Mistake | null;

/** Timers' kinds share a number with their objects. */
const TIMERS = 16;

const CHECKS: { readonly [K in Effect['kind']]: Check<K> } = {
  send: ({ to, message }, _, { spec }) => {
    if (spec.setup.topology.actors[to] === undefined) return wrong('sends-to-nobody', { to });
    return isObject(message) ? null : wrong('sends-no-message', { value: message });
  },
  arm: (effect) => {
    const { earliest, latest } = effect;
    const isSpan = Number.isFinite(earliest) && Number.isFinite(latest) && earliest <= latest;
    return wrongTimer(effect) ?? (isSpan ? null : wrong('odd-time', { earliest, latest }));
  },
  stop: wrongTimer,
  turn: ({ thread, delayMicros }) =>
    isWhole(thread) && isDelay(delayMicros) ? null : wrong('odd-turn', { thread, delayMicros }),
  join: ({ phase, delayMicros }) =>
    isWhole(phase) && isDelay(delayMicros) ? null : wrong('odd-join', { phase, delayMicros }),
  connect: ({ peer, ...description }, actor, border) =>
    wrongPeer(actor, peer, border) ?? wrongDescription(peer, description),
  fence: ({ peer }, actor, border) => wrongPeer(actor, peer, border),
  reset: ({ peer }, actor, border) => wrongPeer(actor, peer, border),
  post: ({ batch }, actor, border) =>
    isObject(batch) ? wrongBatch(batch, actor, border) : wrong('posts-no-batch', {}),
  note: () => null,
};

/** What is wrong with an effect of an actor; null when nothing is. */
export function mistakeIn(effect: Effect, actor: ActorId, border: Border): Mistake | null {
  // The table's type says that each check gets its own kind; the compiler cannot follow that through the index.
  const check = CHECKS[effect.kind] as Check<Effect['kind']> | undefined;
  return check === undefined ? wrong('no-effect', { value: effect.kind }) : check(effect, actor, border);
}

/** What a machine gave may be anything: a number stays one, all else is described. */
function wrong(name: keyof typeof IMPOSSIBLE, values: Readonly<Record<string, unknown>>): Mistake {
  const told = Object.entries(values).map(([key, value]) => [key, toldOf(value)]);
  return { breach: IMPOSSIBLE[name], ids: Object.fromEntries(told) as Fields };
}

function toldOf(value: unknown): number | string {
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value);
  return typeof value === 'string' ? value : describeValue(value);
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

function wrongTimer({ timer, object }: { readonly timer: number; readonly object: number }): Mistake | null {
  return isWhole(timer) && timer < TIMERS && isWhole(object) ? null : wrong('odd-timer', { timer, object });
}

/** Longer than any that our engines pack, by far. */
const DESCRIPTOR_BYTES_MAX = 4096;

/** Bytes of a fair length; what they say is for the engine to find out. */
function wrongDescription(peer: ActorId, { engineDesc, memoryDesc }: Description): Mistake | null {
  for (const value of [engineDesc, memoryDesc]) {
    const bytes = value instanceof Uint8Array ? value.length : -1;
    if (bytes < 0 || bytes > DESCRIPTOR_BYTES_MAX)
      return wrong('odd-descriptor', { peer, value: bytes < 0 ? value : `${bytes} bytes` });
  }
  return null;
}

/** Only a rank has a NIC, and its peers are the ranks of other engines. */
function wrongPeer(actor: ActorId, peer: ActorId, { spec }: Border): Mistake | null {
  const { actors } = spec.setup.topology;
  const [own, other] = [actors[actor]!, actors[peer]];
  if (own.tpRank < 0) return wrong('has-no-nic', { peer });
  if (other === undefined) return wrong('peer-unknown', { peer });
  if (other.tpRank < 0) return wrong('peer-has-no-nic', { peer });
  return other.engine === own.engine ? wrong('peer-of-own-engine', { peer }) : null;
}

const NUMBERS = ['tag', 'transfer', 'request', 'layer', 'part'] as const;

function wrongBatch(batch: PostedBatch, actor: ActorId, border: Border): Mistake | null {
  const { setup, limits } = border.spec;
  const { peer, queuePair, operation, layer, request } = batch;
  const peerIsWrong = wrongPeer(actor, peer, border);
  if (peerIsWrong !== null) return peerIsWrong;
  for (let at = 0; at < NUMBERS.length; at++) {
    const field = NUMBERS[at]!;
    if (!isWhole(batch[field])) return wrong('batch-odd-number', { field, value: batch[field] });
  }
  if (operation !== 'read' && operation !== 'write') return wrong('batch-odd-operation', { operation });
  if (!isWhole(queuePair) || queuePair >= setup.queuePairs)
    return wrong('batch-no-queue-pair', { queuePair, count: setup.queuePairs });
  if (layer >= setup.layers) return wrong('batch-no-layer', { layer, count: setup.layers });
  if (request >= setup.requests.length)
    return wrong('batch-no-request', { request, count: setup.requests.length });
  const own = border.cacheOf(actor)!;
  const other = border.cacheOf(peer)!;
  return (
    wrongBlocks('local', batch.localBlocks, limits.blocks) ??
    wrongBlocks('remote', batch.remoteBlocks, limits.blocks) ??
    wrongRuns(batch.runs, own.bytes, other.bytes)
  );
}

function wrongBlocks(side: string, blocks: unknown, count: number): Mistake | null {
  if (!Array.isArray(blocks)) return wrong('batch-no-block-list', { side });
  for (let at = 0; at < blocks.length; at++) {
    const block: unknown = blocks[at];
    if (!isWhole(block) || block >= count) return wrong('batch-no-block', { side, block, count });
  }
  return null;
}

const RUN_NUMBERS = 3;

function wrongRuns(runs: unknown, localBytes: number, remoteBytes: number): Mistake | null {
  if (!Array.isArray(runs) || runs.length === 0) return wrong('batch-no-runs', {});
  if (runs.length % RUN_NUMBERS !== 0) return wrong('batch-odd-runs', { count: runs.length });
  for (let at = 0; at < runs.length; at += RUN_NUMBERS) {
    const local: unknown = runs[at];
    const remote: unknown = runs[at + 1];
    const bytes: unknown = runs[at + 2];
    const isSound = isWhole(local) && isWhole(remote) && isWhole(bytes);
    if (isSound && local + bytes <= localBytes && remote + bytes <= remoteBytes) continue;
    const ids = { run: at / RUN_NUMBERS, bytes, local, remote, localBytes, remoteBytes };
    return wrong(isSound ? 'batch-leaves-region' : 'batch-odd-run', ids);
  }
  return null;
}

import { below, finish } from '../base/mix.ts';
import type { ActorId } from '../base/topology.ts';
import { effectsNamed, type NicEffect, nicEffectOf } from '../faults/nic-faults.ts';
import type { Notification } from '../io/engine/host.ts';
import type { PostedBatch } from '../wire/machine.ts';
import type { Core } from './core.ts';
import { sendKind } from './nic-flights.ts';
import { DRAW } from './tape.ts';

/** What is posted: a layer or a SEND, and its transfer. */
interface PostKey {
  readonly kind: number;
  readonly object: number;
  readonly isSend: boolean;
}

export function keyOfPost({ layer, transfer }: PostedBatch): PostKey {
  return { kind: layer, object: transfer, isSend: false };
}

export function keyOfSend({ qpIndex, id }: Notification): PostKey {
  return { kind: sendKind(qpIndex), object: id, isSend: true };
}

/** Draws what the NIC does to one post. */
export function drawEffect(core: Core, actor: ActorId, { kind, object, isSend }: PostKey): NicEffect | null {
  const { tape, profile, replaying, nicFaults } = core.spec;
  if (!replaying && profile.nic === 0) return null;
  const who = core.keys.actors[actor]!;
  const occurrence = core.occurrences.next(DRAW.nicFate, who, kind, object);
  const pick = (hash: number): number => {
    if (below(hash, 64 >> profile.nic) !== 0 || nicFaults.length === 0) return 0;
    const effects = effectsNamed(nicFaults[below(finish(hash), nicFaults.length)]!);
    return effects.length === 0 ? 0 : effects[below(finish(hash ^ 0xfa7e), effects.length)]!.value;
  };
  // A tape may hold any number, and a seed may draw a fault that this kind of post does not know.
  const effect = nicEffectOf(tape.choose(DRAW.nicFate, who, kind, object, occurrence, pick), isSend);
  if (effect !== null) core.judge.disturbed();
  return effect;
}

const SLOW_MOST = 400;

/** How many times slower than its profile a rank's NIC is in this run. */
export function drawSlowness(core: Core, actor: ActorId): number {
  const { tape, profile, replaying, nicFaults } = core.spec;
  if (!replaying && (profile.nic === 0 || !nicFaults.includes('slow'))) return 1;
  const pick = (hash: number): number => (below(hash, 4) === 0 ? 1 + below(finish(hash), SLOW_MOST) : 0);
  const extra = Math.min(tape.choose(DRAW.slowNic, core.keys.actors[actor]!, 0, 0, 0, pick), SLOW_MOST);
  if (extra > 0) core.judge.disturbed();
  return 1 + extra;
}

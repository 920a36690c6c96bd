import { finish, mix } from '../../base/mix.ts';
import type { Pick } from './classes.ts';
import { type DrawnTransfer, GUARD_BYTES, PROBE_BYTES, REGION_BYTES, type Round } from './drawing.ts';

/**
 * What the two regions hold before a round and must hold after it. Sources are random bytes that differ by place, so that
 * bytes of another place are seen; a target, and the guards around it, begin as the very bytes that would land there,
 * each with some bits turned, so that every byte that is missing or too many is seen, whatever its value.
 */
export interface Image {
  readonly before: Uint8Array;
  readonly after: Uint8Array;
  /** Where the far region begins in both. */
  readonly remoteAt: number;
  readonly bytes: number;
}

/** The bits in which a target differs from what is to come. */
export const TURNED = 0xa5;

const SHIFTS = 4099;

interface Patterns {
  readonly plain: Uint8Array;
  readonly turned: Uint8Array;
}

/** Made when it is first needed, and the same for every seed. */
let patterns: Patterns | null = null;

function patternsOf(): Patterns {
  if (patterns !== null) return patterns;
  const words = new Uint32Array((REGION_BYTES + 2 * SHIFTS) / 4 + GUARD_BYTES);
  for (let at = 0; at < words.length; at++) words[at] = finish(mix(0x5eed, at));
  const plain = new Uint8Array(words.buffer);
  patterns = { plain, turned: plain.map((byte) => byte ^ TURNED) };
  return patterns;
}

/** The images of a round, over buffers that are used again by the next one. */
export function createImage(): { readonly before: Uint8Array; readonly after: Uint8Array } {
  return { before: new Uint8Array(2 * REGION_BYTES), after: new Uint8Array(2 * REGION_BYTES) };
}

export function drawImage(buffers: ReturnType<typeof createImage>, round: Round, pick: Pick): Image {
  const { plain, turned } = patternsOf();
  const { before, after } = buffers;
  const localBytes = inUse(round.localBytes);
  const remoteAt = localBytes;
  const bytes = localBytes + inUse(round.remoteBytes);
  // Two regions with equal bytes at equal places would hide a copy of a region onto itself.
  const near = pick(SHIFTS, 1);
  const far = near + 1 + pick(SHIFTS - 1, 2);
  before.set(plain.subarray(near, near + localBytes));
  before.set(plain.subarray(far, far + bytes - remoteAt), remoteAt);
  for (const guard of [GUARD_BYTES, 0])
    for (const transfer of round.transfers)
      forEach(transfer, (source, target, length) =>
        before.set(
          turned.subarray(
            startOf(transfer, near, far) + source - guard,
            startOf(transfer, near, far) + source + length + guard,
          ),
          target - guard + (transfer.operation === 'write' ? remoteAt : 0),
        ),
      );
  after.set(before.subarray(0, bytes));
  for (const transfer of round.transfers) {
    const start = startOf(transfer, near, far);
    forEach(transfer, (source, target, length) =>
      after.set(
        plain.subarray(start + source, start + source + length),
        target + (transfer.operation === 'write' ? remoteAt : 0),
      ),
    );
  }
  return { before, after, remoteAt, bytes };
}

function startOf({ operation }: DrawnTransfer, near: number, far: number): number {
  return operation === 'write' ? near : far;
}

/** A page behind the last place: what lands there was not asked for. */
function inUse(bytes: number): number {
  return Math.min(bytes + 4096, REGION_BYTES);
}

function forEach(
  { operation, pieces }: DrawnTransfer,
  visit: (source: number, target: number, bytes: number) => void,
): void {
  for (const { local, remote, bytes } of pieces)
    if (operation === 'write') visit(local, remote, bytes);
    else visit(remote, local, bytes);
}

/** Whether a place is compared at all: the probes' is not. */
export const FIRST_COMPARED = PROBE_BYTES;

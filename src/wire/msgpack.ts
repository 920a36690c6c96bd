import { decode } from '@msgpack/msgpack';
import { UsageError } from '../base/failure.ts';

/**
 * The one way in for msgpack that @msgpack/msgpack reads. The library makes room by the counts that its input claims: five
 * bytes are an array of four thousand million. So the input is walked first, without a copy and without recursion, and
 * every claim is held against the bytes that are there.
 */

/** Arrays and maps within each other. Our deepest message, a handshake with views and parts, has 6. */
export const MSGPACK_DEPTH_MAX = 16;

/**
 * The value of bytes that hold exactly one object.
 * @throws UsageError MSGPACK-SHORT when more is claimed than is there, MSGPACK-DEPTH when it is nested too deep,
 *   MSGPACK-FORMAT when a byte starts nothing, bytes follow the object, or the library refuses a key or an extension.
 */
export function decodeMsgpack(bytes: Uint8Array): unknown {
  const end = endOfObject(bytes);
  if (end < bytes.length)
    throw new UsageError('MSGPACK-FORMAT', `${bytes.length - end} bytes follow the object of ${end} bytes`);
  const most = bytes.length;
  try {
    return decode(bytes, {
      maxArrayLength: most,
      maxMapLength: most,
      maxStrLength: most,
      maxBinLength: most,
      maxExtLength: most,
    });
  } catch (error) {
    throw new UsageError('MSGPACK-FORMAT', error instanceof Error ? error.message : 'not msgpack');
  }
}

/** What a tag claims: bytes of content, and objects within (a map's keys and values). */
interface Claim {
  headBytes: number;
  contentBytes: number;
  objects: number;
}

/** Where the object ends that starts at byte 0. All objects that are still to come need a byte each at least. */
function endOfObject(bytes: Uint8Array): number {
  const claim: Claim = { headBytes: 0, contentBytes: 0, objects: 0 };
  const left = [1];
  let pending = 1;
  let at = 0;
  while (left.length > 0) {
    const level = left.length - 1;
    if (left[level] === 0) {
      left.pop();
      continue;
    }
    left[level]! -= 1;
    requireBytes(bytes, at, pending);
    readClaim(bytes, at, claim);
    at += claim.headBytes + claim.contentBytes;
    pending += claim.objects - 1;
    requireBytes(bytes, at, pending);
    if (claim.objects === 0) continue;
    if (level === MSGPACK_DEPTH_MAX)
      throw new UsageError('MSGPACK-DEPTH', `nested more than ${MSGPACK_DEPTH_MAX} deep at byte ${at}`);
    left.push(claim.objects);
  }
  return at;
}

function requireBytes(bytes: Uint8Array, at: number, wanted: number): void {
  if (at + wanted > bytes.length)
    throw new UsageError('MSGPACK-SHORT', `${at + wanted} bytes claimed, ${bytes.length} there`);
}

/** Tags from c0 to df: what follows ('bytes' of fixed size, or counted in so many bytes), and that number. */
type WideTag = readonly ['bytes' | 'counted' | 'ext' | 'array' | 'map' | 'none', number];

// biome-ignore format: one row per group of tags, in the order of the tags from c0
const WIDE_TAGS: readonly WideTag[] = [
  ['bytes', 0], ['none', 0], ['bytes', 0], ['bytes', 0],
  ['counted', 1], ['counted', 2], ['counted', 4], ['ext', 1], ['ext', 2], ['ext', 4],
  ['bytes', 4], ['bytes', 8],
  ['bytes', 1], ['bytes', 2], ['bytes', 4], ['bytes', 8], ['bytes', 1], ['bytes', 2], ['bytes', 4], ['bytes', 8],
  ['bytes', 2], ['bytes', 3], ['bytes', 5], ['bytes', 9], ['bytes', 17],
  ['counted', 1], ['counted', 2], ['counted', 4], ['array', 2], ['array', 4], ['map', 2], ['map', 4],
];

function readClaim(bytes: Uint8Array, at: number, claim: Claim): void {
  const tag = bytes[at]!;
  claim.headBytes = 1;
  claim.contentBytes = 0;
  claim.objects = 0;
  if (tag <= 0x7f || tag >= 0xe0) return;
  if (tag <= 0x8f) claim.objects = 2 * (tag & 0x0f);
  else if (tag <= 0x9f) claim.objects = tag & 0x0f;
  else if (tag <= 0xbf) claim.contentBytes = tag & 0x1f;
  else readWideClaim(bytes, at, WIDE_TAGS[tag - 0xc0]!, claim);
}

function readWideClaim(bytes: Uint8Array, at: number, [what, width]: WideTag, claim: Claim): void {
  if (what === 'none') throw new UsageError('MSGPACK-FORMAT', `no object starts at byte ${at}`);
  if (what === 'bytes') {
    claim.contentBytes = width;
    return;
  }
  requireBytes(bytes, at + 1, width);
  let count = 0;
  for (let index = at + 1; index <= at + width; index++) count = count * 256 + bytes[index]!;
  claim.headBytes = 1 + width;
  if (what === 'array') claim.objects = count;
  else if (what === 'map') claim.objects = 2 * count;
  else claim.contentBytes = what === 'ext' ? count + 1 : count;
}

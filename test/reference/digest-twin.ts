/**
 * The digest of a byte range, as assembly/digest.ts defines it and in its words: stripes of 64 bytes, the
 * last one padded with zeros, a key of sixteen words that moves on with every stripe, and eight lanes of 64
 * bits.
 *
 * Lane L adds the product of two keyed words, and the plain 64-bit word L ^ 4 of the stripe: that keeps a
 * word visible when its partner in the product happens to be zero.
 */
export function digestOf(bytes: Uint8Array): bigint {
  const lanes = new BigUint64Array(LANES);
  for (let stripe = 0; stripe * STRIPE_BYTES < bytes.length; stripe++) {
    addStripe(lanes, stripeWords(bytes, stripe), stripe);
  }
  let hash = BigInt(bytes.length) * LENGTH_FACTOR + FOLD_FACTOR;
  for (const lane of lanes) {
    hash = wrap((hash ^ lane) * FOLD_FACTOR);
    hash ^= hash >> 32n;
  }
  hash = wrap((hash ^ (hash >> 29n)) * LENGTH_FACTOR);
  return hash ^ (hash >> 32n);
}

const LANES = 8;
const STRIPE_BYTES = 64;
const LENGTH_FACTOR = 0x9e3779b97f4a7c15n;
const FOLD_FACTOR = 0xd1b54a32d192ed03n;
const KEY_STEP = 0x9e3779b9;
/** finish(mix(0x6b7663, i + 1)) of src/base/mix.ts, for i from 0 to 15. */
const KEY = [
  0xa43560c7, 0x63ae0d70, 0xb563d270, 0xc57f5293, 0x8a8bf092, 0x11b6e39a, 0x3ebb2364, 0x5646989f, 0xdd57c8b5,
  0x0b9f3d7e, 0x4d78ded5, 0x6015ad0f, 0x74360224, 0x3cbcc746, 0x1128ce9c, 0xc75ca9a2,
];

function wrap(value: bigint): bigint {
  return BigInt.asUintN(64, value);
}

/** The sixteen little-endian words of a stripe; bytes that do not exist are zero. */
function stripeWords(bytes: Uint8Array, stripe: number): number[] {
  const padded = new DataView(new ArrayBuffer(STRIPE_BYTES));
  const piece = bytes.subarray(stripe * STRIPE_BYTES, (stripe + 1) * STRIPE_BYTES);
  for (let i = 0; i < piece.length; i++) padded.setUint8(i, piece[i]!);
  return KEY.map((_, i) => padded.getUint32(i * 4, true));
}

function addStripe(lanes: BigUint64Array, words: readonly number[], stripe: number): void {
  const keyed = words.map((word, i) => (word ^ (KEY[i]! + Math.imul(stripe, KEY_STEP))) >>> 0);
  for (let lane = 0; lane < LANES; lane++) {
    const first = (lane >> 2) * 8 + (lane & 3);
    const product = BigInt(keyed[first]!) * BigInt(keyed[first + 4]!);
    const plain = (lane ^ 4) * 2;
    lanes[lane] = wrap(lanes[lane]! + product + BigInt(words[plain]!) + (BigInt(words[plain + 1]!) << 32n));
  }
}

import { UsageError } from '../../src/base/failure.ts';
import { finish, mix } from '../../src/base/mix.ts';
import { FORMS, type ShippedMessage } from '../../src/connector/shipped/messages.ts';
import {
  decodeMessage,
  emptyRdmaMemoryRegion,
  emptyRegEndpoint,
  encodeMessage,
  MessageType,
} from '../../src/io/control-frames.ts';
import {
  emptyEngineDesc,
  emptyMemoryDesc,
  packEngineDesc,
  packMemoryDesc,
  unpackEngineDesc,
  unpackMemoryDesc,
} from '../../src/io/descriptors.ts';
import { serve } from '../../src/io/engine/inputs.ts';
import { layView } from '../../src/kv/view.ts';
import { decodeMsgpack } from '../../src/wire/msgpack.ts';
import { decodePeerMessage, encodePeerMessage } from '../../src/wire/peer-codec.ts';
import { readMap } from '../../src/zoo/as-written/wire.ts';
import {
  decodeNotifMessage,
  encodeNotifMessage,
  packBackendBitmap,
  packRdmaMemoryRegion,
  packTcpContextHandle,
  unpackBackendBitmap,
  unpackRdmaMemoryRegion,
  unpackTcpContextHandle,
} from '../reference/control-parts.ts';
import { addPair, createRig } from '../unit/io/rig.ts';
import { COUNTS, Dice, joined, MUTATION_NAMES, MUTATIONS } from './mutations.ts';
import { ShippedRanks } from './shipped-ranks.ts';

/** Frames spoiled in many ways, with a checksum that is true again, for everything that reads bytes of others. */

// --- what is spoiled ----------------------------------------------------------------------------------------------

const VIEW = layView(0, 0, {
  order: 'BKNH',
  blockCount: 16,
  blockUnits: 4,
  unitTokens: 1,
  cellBytes: 16,
  headFirst: 0,
  headCount: 2,
});

const PEER_MESSAGES: readonly ShippedMessage[] = [
  { kind: 'peer', name: 'metaRequest', attempt: 0 },
  {
    kind: 'peer',
    name: 'metaReply',
    attempt: 0,
    epoch: 0,
    engineDesc: packEngineDesc({ ...emptyEngineDesc(), key: 'D0.r0' }),
    memoryDesc: packMemoryDesc({ ...emptyMemoryDesc(), engineKey: 'D0.r0', size: 4096n }),
    geometry: { engine: 1, role: 'decode', tpRank: 0, tpSize: 1, blockTokens: 4, views: [VIEW, VIEW] },
  },
  { kind: 'peer', name: 'claim', transfer: 7, tpSize: 1, attempt: 0 },
  {
    kind: 'peer',
    name: 'grant',
    transfer: 7,
    grant: 1,
    blocks: [1, 2, 3],
    epoch: 0,
    firstSlot: 0,
    slotFrom: 0,
    slotTo: 10,
    attempt: 0,
  },
  { kind: 'peer', name: 'refuse', transfer: 7, attempt: 0 },
  { kind: 'peer', name: 'seal', transfer: 7, ok: true, tpSize: 1, attempt: 0 },
  { kind: 'peer', name: 'sealAck', transfer: 7, attempt: 0 },
  { kind: 'peer', name: 'revoke', transfer: 7, grant: 1, attempt: 0 },
];
const PEER_FRAMES = PEER_MESSAGES.map((message) => encodePeerMessage(message, FORMS));
const CONTROL_FRAMES = [
  encodeMessage({ type: MessageType.RegEndpoint, endpoint: { ...emptyRegEndpoint(), ekey: 'peer' } }),
  encodeMessage({
    type: MessageType.AskMemoryRegion,
    region: { ekey: 'peer', devId: 0, id: 0, mr: emptyRdmaMemoryRegion() },
  }),
];

/** The checksum and, in a control frame, the length are made true again; other forms have none. */
type Repair = 'none' | 'checksum' | 'length';

interface Decoder {
  readonly name: string;
  readonly seeds: readonly Uint8Array[];
  readonly repair: Repair;
  /** What was read, or the text of a refusal after `refused: `; a coded error is a refusal as well. */
  readonly read: (bytes: Uint8Array) => unknown;
}

const REFUSED = 'refused: ';

function told(read: unknown): unknown {
  return typeof read === 'string' ? REFUSED + read.replace(/\d+/g, '#') : read;
}

/** Each call makes the machines behind them anew. */
export function decoders(): readonly Decoder[] {
  return [
    {
      name: 'peer message',
      seeds: PEER_FRAMES,
      repair: 'checksum',
      read: (bytes) => told(decodePeerMessage(bytes, FORMS)),
    },
    {
      name: 'msgpack',
      seeds: PEER_FRAMES.map((frame) => frame.slice(0, -4)),
      repair: 'none',
      read: decodeMsgpack,
    },
    {
      name: 'block list',
      seeds: BLOCK_LISTS,
      repair: 'none',
      read: (bytes) => readMap(bytes) ?? told('text'),
    },
    { name: 'EngineDesc', seeds: [ENGINE_DESC], repair: 'none', read: unpackEngineDesc },
    {
      name: 'MemoryDesc',
      seeds: [packMemoryDesc(emptyMemoryDesc())],
      repair: 'none',
      read: unpackMemoryDesc,
    },
    { name: 'control frame', seeds: CONTROL_FRAMES, repair: 'length', read: (bytes) => decodeMessage(bytes) },
    {
      name: 'memory region',
      seeds: [packRdmaMemoryRegion(emptyRdmaMemoryRegion())],
      repair: 'none',
      read: unpackRdmaMemoryRegion,
    },
    {
      name: 'TCP handle',
      seeds: [packTcpContextHandle({ host: '127.0.0.1', port: 1 })],
      repair: 'none',
      read: unpackTcpContextHandle,
    },
    { name: 'backends', seeds: [packBackendBitmap(5)], repair: 'none', read: unpackBackendBitmap },
    {
      name: 'notification',
      seeds: [encodeNotifMessage({ id: 7n, qpIndex: 0, totalNum: 1 })],
      repair: 'none',
      read: decodeNotifMessage,
    },
    rankDecoder('rank that writes', 'write'),
    rankDecoder('rank that is read', 'read'),
    engineDecoder(),
  ];
}

const ENGINE_DESC = packEngineDesc({
  key: 'D0.r0',
  nodeId: 'n',
  hostname: 'h',
  host: '127.0.0.1',
  port: 6301,
  pid: 1,
});

const BLOCK_LISTS = [
  Uint8Array.of(0x82, 0xa4, 0x74, 0x79, 0x70, 0x65, 0xa1, 0x78, 0xa1, 0x79, 0x93, 1, 2, 3),
];

/** A rank of P of the shipped connector with a transfer under way; its mail is thrown away. */
function rankDecoder(name: string, mode: 'read' | 'write'): Decoder {
  const ranks = new ShippedRanks({ mode, prefillTp: 1, decodeTp: 1, heads: 2 });
  const [rank, peer] = [2, 4];
  let transfer = 7;
  return {
    name,
    seeds: PEER_FRAMES,
    repair: 'checksum',
    read(bytes) {
      // Live ones now and then; the cache of the harness takes any number of them, one after the other.
      if (ranks.census() === 0) ranks.startPrefill(transfer++, 1);
      const before = ranks.refused.length;
      ranks.deliver({ from: peer, to: rank, message: { kind: 'bytes', port: 'notify', bytes } });
      const cause = ranks.refused[before];
      ranks.refused.length = 0;
      ranks.mail.length = 0;
      ranks.ended.length = 0;
      ranks.posted.length = 0;
      if (ranks.census() > 600) throw new Error(`${ranks.census()} things are kept`);
      return cause === undefined ? null : told(cause.reason);
    },
  };
}

/** The control plane of an engine, made anew now and then: like the library it makes a queue pair for whoever asks. */
function engineDecoder(): Decoder {
  let left = 0;
  let engine = addPair(createRig()).target;
  return {
    name: 'engine',
    seeds: CONTROL_FRAMES,
    repair: 'length',
    read(bytes) {
      if (left-- === 0) {
        left = 300;
        engine = addPair(createRig()).target;
      }
      return serve(engine, bytes) ?? told('closed');
    },
  };
}

// --- how it is spoiled --------------------------------------------------------------------------------------------

const CHECKSUM_BYTES = 4;
const HEADER_BYTES = 5;

/** The part that is spoiled, and the frame around it. */
function spoil(dice: Dice, { seeds, repair }: Decoder, name: string): Uint8Array {
  const bodies = repair === 'checksum' ? seeds.map((seed) => seed.subarray(0, -CHECKSUM_BYTES)) : seeds;
  const mutation = MUTATIONS[name]!;
  const seed = dice.pick(bodies);
  if (repair !== 'length') {
    const body = mutation(dice, seed, bodies);
    return repair === 'checksum' ? framed(body) : body;
  }
  const body = mutation(dice, seed.subarray(HEADER_BYTES), [seed.subarray(HEADER_BYTES)]);
  const frame = joined([dice.below(16) === 0 ? dice.below(256) : seed[0]!, 0, 0, 0, 0], body);
  new DataView(frame.buffer).setUint32(1, dice.below(16) === 0 ? dice.pick(COUNTS) : body.length);
  return frame;
}

/** The body with the checksum that a sender would have put behind it. */
function framed(body: Uint8Array): Uint8Array {
  let hash = body.length;
  for (const byte of body) hash = mix(hash, byte);
  const frame = joined(body, new Uint8Array(CHECKSUM_BYTES));
  new DataView(frame.buffer).setUint32(body.length, finish(hash));
  return frame;
}

// --- the run ------------------------------------------------------------------------------------------------------

export interface FuzzReport {
  readonly frames: number;
  readonly longestBytes: number;
  /** For each decoder the frames it accepted, and those it refused by code or cause. */
  readonly verdicts: { readonly [decoder: string]: { readonly [verdict: string]: number } };
}

/**
 * So many frames, each for one decoder in turn.
 * @throws Error when one of them ends in anything but a value or a coded refusal, or in a value with more elements than the
 *   frame has bytes.
 */
export function fuzzFrames(frames: number, seed: number): FuzzReport {
  const dice = new Dice(seed);
  const all = decoders();
  const verdicts = Object.fromEntries(all.map(({ name }) => [name, {} as Record<string, number>]));
  let longestBytes = 0;
  for (let number = 0; number < frames; number++) {
    const decoder = all[number % all.length]!;
    const mutation = dice.pick(MUTATION_NAMES);
    const frame = spoil(dice, decoder, mutation);
    longestBytes = Math.max(longestBytes, frame.length);
    const verdict = verdictOf(
      decoder,
      frame,
      `frame ${number} of seed ${seed} (${mutation}, ${decoder.name})`,
    );
    const counts = verdicts[decoder.name]!;
    counts[verdict] = (counts[verdict] ?? 0) + 1;
  }
  return { frames, longestBytes, verdicts };
}

function verdictOf(decoder: Decoder, frame: Uint8Array, told: string): string {
  let read: unknown;
  try {
    read = decoder.read(frame);
  } catch (error) {
    if (error instanceof UsageError) return error.code;
    const hex = Buffer.from(frame.subarray(0, 200)).toString('hex');
    throw new Error(`${told} ends in ${String(error)}: ${hex}`, { cause: error });
  }
  if (typeof read === 'string' && read.startsWith(REFUSED)) return read.slice(REFUSED.length);
  // Defaults of a descriptor that says nothing are not claimed by the frame.
  const elements = countElements(read);
  if (elements > frame.length + DEFAULT_ELEMENTS)
    throw new Error(`${told}: ${elements} elements of ${frame.length} bytes`);
  return 'accepted';
}

const DEFAULT_ELEMENTS = 32;

/** Values within a value, bytes and texts as one each. */
function countElements(value: unknown): number {
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array || value instanceof Date)
    return 1;
  return Object.values(value).reduce<number>((sum, each) => sum + countElements(each), 1);
}

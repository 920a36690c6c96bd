import { believe } from '../../base/failure.ts';
import {
  PART_WORDS,
  PARTS_JOB,
  PARTS_JOB_BYTES,
  type PartFields,
  ROW_BYTES,
  writePart,
  writePartsJob,
} from '../../kv/row-kernels.ts';
import { type Figure, figure, heapGrowth, timeInTurn } from './figures.ts';
import { blockIds, type KvMemory } from './kv-memory.ts';
import { C, type NativeKernels } from './kv-native.ts';

const TOKENS = 32_768;
/** Neighbouring blocks of a list: neither one run nor all apart. */
const STRETCH = 8;
const C_CEILING = 2;
/** A call may leave this much on the heap, whatever it plans. */
const HEAP_BYTES_MAX = 1024;

/** A cache of one side: which heads and how they lie within a block. */
interface Side {
  readonly blockTokens: number;
  readonly heads: number;
  readonly headsFirst: boolean;
}

/** Two sides, how many layers and regions of each (K and V, or one latent) go over, and in how many calls. */
interface Pairing {
  readonly name: string;
  readonly layers: number;
  readonly regions: number;
  readonly calls: number;
  readonly bytes: number;
  readonly local: Side;
  readonly remote: Side;
}

/** Llama 70B: 80 layers, 8 KV heads of 128 bf16. DeepSeek R1: 61 layers of one latent of 576 bf16. */
const LLAMA = { layers: 80, regions: 2, calls: 1, bytes: 256 };
const side = (blockTokens: number, heads: number, headsFirst: boolean): Side => ({
  blockTokens,
  heads,
  headsFirst,
});
const PAIRINGS: readonly Pairing[] = [
  { name: 'Llama 70B, TP 8 to 4, NHD', ...LLAMA, local: side(16, 1, false), remote: side(16, 2, false) },
  { name: 'Llama 70B, TP 8 to 4, HND', ...LLAMA, local: side(16, 1, true), remote: side(16, 2, true) },
  { name: 'Llama 70B, PP 1 to 2', ...LLAMA, calls: 2, local: side(16, 1, false), remote: side(16, 1, false) },
  {
    name: 'DeepSeek R1 MLA, block 16 to 64',
    layers: 61,
    regions: 1,
    calls: 1,
    bytes: 1152,
    local: side(16, 1, false),
    remote: side(64, 1, false),
  },
];

/** Plans of 32k tokens between caches of unequal shape: time against C, and what a plan leaves on the heap. */
export function planFigures(memory: KvMemory, native: NativeKernels | undefined, rounds: number): Figure[] {
  return PAIRINGS.flatMap((pairing) => {
    const plan = planner(memory, pairing);
    const name = `plan of ${TOKENS} tokens, ${pairing.name}`;
    const figures: Figure[] = [];
    const rows = plan(memory.kernels);
    const calls = rows > 1_000_000 ? 1 : 10;
    if (native) {
      const digest = digestOf(memory, rows);
      const same = plan(native) === rows && digestOf(memory, rows) === digest;
      believe(same, 'INV-BENCH-1', `${name}: C makes other rows than we`);
      const { seconds, ratios } = timeInTurn([() => plan(native), () => plan(memory.kernels)], rounds, calls);
      figures.push(
        figure(name, seconds[1]! * 1e6, 'us', `the time of ${C}`, ratios[1]!, 'atMost', C_CEILING),
      );
    }
    const left = heapGrowth(() => plan(memory.kernels), rounds);
    const bound = `${HEAP_BYTES_MAX} bytes, for ${rows} rows`;
    figures.push(figure(`${name}: heap`, left, 'bytes/call', bound, left / HEAP_BYTES_MAX, 'atMost', 1));
    return figures;
  });
}

/** Lays parts and lists down and returns one whole plan by whichever side. */
function planner(memory: KvMemory, pairing: Pairing): (side: Pick<NativeKernels, 'planParts'>) => number {
  const parts = pairing.layers * pairing.regions;
  const partsOfCall = parts / pairing.calls;
  const capacity = Math.floor((2 * memory.size) / ROW_BYTES);
  const remotePartsAt = parts * PART_WORDS * 8;
  const localIdsAt = remotePartsAt * 2;
  const localCount = TOKENS / pairing.local.blockTokens;
  const remoteIdsAt = localIdsAt + localCount * 4;
  const remoteCount = TOKENS / pairing.remote.blockTokens;
  believe(remoteIdsAt + remoteCount * 4 <= memory.first, 'INV-BENCH-1', 'the lists leave their place');
  for (let part = 0; part < parts; part++) {
    writePart(memory.doubles, part, partOf(pairing.local, pairing.bytes, part, 0));
    writePart(
      memory.doubles,
      parts + part,
      partOf(pairing.remote, pairing.bytes, part % partsOfCall, 2 ** 42),
    );
  }
  memory.words.set(blockIds(localCount, localCount * 4, STRETCH, 6), localIdsAt / 4);
  memory.words.set(blockIds(remoteCount, remoteCount * 4, STRETCH, 7), remoteIdsAt / 4);
  const jobAt = remoteIdsAt + remoteCount * 4;
  believe(jobAt + PARTS_JOB_BYTES <= memory.first, 'INV-BENCH-1', 'the job leaves its place');
  writePartsJob(memory.words, jobAt, {
    localParts: 0,
    localBlocks: localIdsAt,
    localCount,
    localFirstUnit: 0,
    remoteParts: remotePartsAt,
    remoteBlocks: remoteIdsAt,
    remoteCount,
    remoteFirstUnit: 0,
    partCount: partsOfCall,
    from: 0,
    to: TOKENS,
    out: memory.first,
    count: 0,
    capacity,
  });
  const job = memory.words.subarray(jobAt / 4, (jobAt + PARTS_JOB_BYTES) / 4);
  return (side) => {
    let rows = 0;
    for (let call = 0; call < pairing.calls; call++) {
      const at = call * partsOfCall * PART_WORDS * 8;
      job[PARTS_JOB.localParts] = at;
      job[PARTS_JOB.remoteParts] = remotePartsAt + at;
      job[PARTS_JOB.count] = rows;
      rows = side.planParts(jobAt);
    }
    return rows;
  };
}

/** Region number `index` of a side, one after the other from `base` on, each with four times the request's blocks. */
function partOf(
  { blockTokens, heads, headsFirst }: Side,
  bytes: number,
  index: number,
  base: number,
): PartFields {
  const blockCount = (TOKENS / blockTokens) * 4;
  const blockBytes = blockTokens * heads * bytes;
  return {
    base: base + index * blockCount * blockBytes,
    blockStride: blockBytes,
    unitStride: headsFirst ? bytes : heads * bytes,
    headStride: headsFirst ? blockTokens * bytes : bytes,
    bytes,
    blockUnits: blockTokens,
    pageUnits: blockTokens,
    headFirst: 0,
    headCount: heads,
    blockCount,
    contextRanks: 1,
    contextRank: 0,
    interleaveUnits: 1,
  };
}

/** Over the rows' columns, which lie apart. */
function digestOf({ kernels, words, first, size }: KvMemory, rows: number): string {
  const capacity = Math.floor((2 * size) / ROW_BYTES);
  const at = first - 8;
  return [0, 1, 2]
    .map((column) => {
      kernels.digest(first + column * capacity * 8, rows * 8, at);
      return `${words[at / 4]}.${words[at / 4 + 1]}`;
    })
    .join(' ');
}

import { believe } from '../../base/failure.ts';
import { BLOCKS_JOB_BYTES, scratchBytes, writeBlocksJob } from '../../kv/row-kernels.ts';
import { type Figure, figure, timeInTurn } from './figures.ts';
import { blockIds, type KvMemory, shuffled } from './kv-memory.ts';
import { C, type NativeKernels } from './kv-native.ts';
import type { BlockLists, Numpy, NumpyForm, NumpyResult } from './kv-numpy.ts';

const BLOCKS = 4096;
const LAYERS = 64;
const POOL = 16_384;
const BLOCK_BYTES = 32_768;
const CALLS = 50;

/** The lists of one request, in no order; and the bounds: times the time of C at most, times as fast as numpy at least. */
interface Form {
  readonly name: string;
  readonly localIds: readonly number[];
  readonly remoteIds: readonly number[];
  readonly cCeiling: number;
  readonly repeatedFloor: number;
  readonly vectorisedFloor: number;
}

function forms(): Form[] {
  const order = shuffled(BLOCKS, 3);
  const inOrder = (ids: readonly number[]): number[] => order.map((i) => ids[i]!);
  return [
    {
      name: 'all contiguous',
      localIds: order.map((i) => 1000 + i),
      remoteIds: order.map((i) => 5000 + i),
      cCeiling: 1.5,
      repeatedFloor: 300,
      vectorisedFloor: 1.3,
    },
    {
      name: 'runs of 8',
      localIds: inOrder(blockIds(BLOCKS, POOL, 8, 4)),
      remoteIds: inOrder(blockIds(BLOCKS, POOL, 8, 5)),
      cCeiling: 1.5,
      repeatedFloor: 300,
      vectorisedFloor: 1.3,
    },
    {
      name: 'random',
      localIds: blockIds(BLOCKS, POOL, 1, 4),
      remoteIds: blockIds(BLOCKS, POOL, 1, 5),
      cCeiling: 2,
      repeatedFloor: 100,
      vectorisedFloor: 0.95,
    },
  ];
}

/** 4,096 blocks of 64 layers to merged rows, ids copied in each time: time against C, speed against numpy. */
export function blockFigures(
  memory: KvMemory,
  native: NativeKernels | undefined,
  numpy: Numpy | undefined,
  rounds: number,
): Figure[] {
  return forms().flatMap((form) => formFigures(memory, native, numpy, rounds, form));
}

function formFigures(
  memory: KvMemory,
  native: NativeKernels | undefined,
  numpy: Numpy | undefined,
  rounds: number,
  form: Form,
): Figure[] {
  const lists: BlockLists = {
    localIds: form.localIds,
    remoteIds: form.remoteIds,
    localBases: Array.from({ length: LAYERS }, (_, layer) => layer * 2 ** 33),
    remoteBases: Array.from({ length: LAYERS }, (_, layer) => 2 ** 40 + layer * 2 ** 34),
    stride: BLOCK_BYTES,
  };
  const plan = planner(memory, lists);
  const ours = () => plan(memory.kernels);
  const made = checkOf(memory, ours());
  const { seconds, ratios } = timeInTurn(native ? [() => plan(native), ours] : [ours], rounds, CALLS);
  const mine = seconds.at(-1)!;
  const name = `${BLOCKS} blocks x ${LAYERS} layers, ${form.name}`;
  const show = (against: string, ratio: number, sense: 'atLeast' | 'atMost', floor: number): Figure =>
    figure(name, mine * 1e6, 'us', against, ratio, sense, floor);
  const figures: Figure[] = [];
  if (native) {
    believeSame(name, 'C', checkOf(memory, plan(native)), made);
    figures.push(show(`the time of ${C}`, ratios[1]!, 'atMost', form.cCeiling));
  }
  if (numpy) {
    for (const [way, floor] of [
      ['repeated', form.repeatedFloor],
      ['vectorised', form.vectorisedFloor],
    ] as const satisfies [NumpyForm, number][]) {
      const result = numpy(way, rounds, lists);
      believeSame(name, `numpy, ${way}`, result, made);
      const against = way === 'repeated' ? 'numpy, repeated for each layer' : 'numpy, fully vectorised';
      figures.push(show(`the speed of ${against}`, result.seconds / mine, 'atLeast', floor));
    }
  }
  return figures;
}

/** Lays the lists down once and returns one whole call, with the ids copied in, of whichever side. */
function planner(
  memory: KvMemory,
  lists: BlockLists,
): (side: Pick<NativeKernels, 'planWholeBlocks'>) => number {
  const localIds = Uint32Array.from(lists.localIds);
  const remoteIds = Uint32Array.from(lists.remoteIds);
  const remoteAt = BLOCKS * 4;
  const localBasesAt = remoteAt + BLOCKS * 4;
  const remoteBasesAt = localBasesAt + LAYERS * 8;
  const scratchAt = remoteBasesAt + LAYERS * 8;
  const jobAt = scratchAt + scratchBytes(BLOCKS);
  believe(jobAt + BLOCKS_JOB_BYTES <= memory.first, 'INV-BENCH-1', 'the lists leave their place');
  writeBlocksJob(memory, jobAt, {
    localStride: BLOCK_BYTES,
    remoteStride: BLOCK_BYTES,
    blockBytes: BLOCK_BYTES,
    localIds: 0,
    remoteIds: remoteAt,
    count: BLOCKS,
    localBases: localBasesAt,
    remoteBases: remoteBasesAt,
    layers: LAYERS,
    out: memory.first,
    capacity: BLOCKS * LAYERS,
    scratch: scratchAt,
  });
  memory.doubles.set(lists.localBases, localBasesAt / 8);
  memory.doubles.set(lists.remoteBases, remoteBasesAt / 8);
  return (side) => {
    memory.words.set(localIds, 0);
    memory.words.set(remoteIds, remoteAt / 4);
    return side.planWholeBlocks(jobAt);
  };
}

type Check = Pick<NumpyResult, 'rows' | 'sum'>;

/** The check sum of bench/numpy/blocks.py. */
function checkOf({ doubles, first }: KvMemory, rows: number): Check {
  let sum = 0;
  for (let column = 0; column < 3; column++) {
    const start = first / 8 + column * BLOCKS * LAYERS;
    for (let i = start; i < start + rows; i++) sum += doubles[i]! % 1_000_003;
  }
  return { rows, sum };
}

function believeSame(name: string, side: string, theirs: Check, ours: Check): void {
  const same = theirs.rows === ours.rows && theirs.sum === ours.sum;
  believe(same, 'INV-BENCH-1', `${name}: ${side} makes ${theirs.rows} rows, we make ${ours.rows}`);
}

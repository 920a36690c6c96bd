import { believe } from '../../base/failure.ts';
import { INSTANT } from '../../io/profiles.ts';
import type { BatchEntries } from '../../io/submission.ts';
import { ALL_FINE, type Kernels, RUN_BYTES } from '../../kv/kernels.ts';
import { readKernelBytes } from '../../node/kernel-bytes.ts';
import { instantiateKernels } from '../../sim/load-kernels.ts';
import { aligned } from '../../sim/memory.ts';
import { type Figure, figure, timeInTurn } from './figures.ts';
import { createNicRig, runBatch, strided } from './nic-rig.ts';
import { TABLES, type Table, type TableRow } from './nic-tables.ts';
import { runPlainLoop } from './plain-loop.ts';

/** The RDMA engine's times against published ones, and its own speed. */
export function nicFigures(rounds: number): Figure[] {
  return [...TABLES.flatMap(tableFigures), workRequestRate(rounds), copyRate(rounds)];
}

function tableFigures(table: Table): Figure[] {
  return table.rows.map((row) => {
    const ours = simulatedMicros(table, row);
    const error = Math.abs(ours / row.micros - 1);
    const name = `${table.name}: ${row.batch} x ${sizeText(row.bytes)}`;
    return figure(name, ours, 'us', `${row.micros} us published`, error, 'atMost', table.bound);
  });
}

function simulatedMicros({ times, config, operation }: Table, { batch, bytes }: TableRow): number {
  const rig = createNicRig(times, config, batch * (bytes + 1));
  return runBatch(rig, operation, strided(batch, bytes)) / 1000;
}

function sizeText(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 2 ** 20 ? `${bytes / 1024} KiB` : `${bytes / 2 ** 20} MiB`;
}

const RATE_BATCH = 4096;
const RATE_CALLS = 50;
const RATE_FLOOR = 0.8;
/** Steps of the plain loop beside a round; they take about as long. */
const PLAIN_STEPS = 150_000;

/** Work requests posted, landed and completed in a second, without bytes, against the steps of the plain loop. */
function workRequestRate(rounds: number): Figure {
  const rig = createNicRig(INSTANT, { qpPerTransfer: 4 }, RATE_BATCH * 65);
  const entries = strided(RATE_BATCH, 64);
  const { seconds, ratios } = timeInTurn(
    [
      () => {
        runPlainLoop(PLAIN_STEPS, 0);
      },
      () => {
        for (let call = 0; call < RATE_CALLS; call += 1) runBatch(rig, 'write', entries);
      },
    ],
    rounds,
    1,
  );
  const requests = RATE_BATCH * RATE_CALLS;
  const ratio = requests / PLAIN_STEPS / ratios[1];
  const against = 'steps of a plain loop with the duties of a world';
  return figure('work requests', requests / seconds[1], '1/s', against, ratio, 'atLeast', RATE_FLOOR);
}

const COPY_BATCH = 4096;
const COPY_BYTES = 4096;
/** Batches that lie side by side, so that the regions are larger than a cache, as a KV cache is. */
const COPY_PARTS = 8;
const COPY_FLOOR = 0.5;

/** 4 KiB work requests with their bytes, against the copy kernel on the same runs. */
function copyRate(rounds: number): Figure {
  const parts = Array.from({ length: COPY_PARTS }, (_, part) => partOf(part));
  const ground = copyGround(COPY_PARTS * COPY_BATCH * (COPY_BYTES + 1));
  const lists = parts.map(({ localOffsets, remoteOffsets, sizes }) =>
    Float64Array.from(sizes.flatMap((size, at) => [localOffsets[at], remoteOffsets[at], size])),
  );
  const rig = createNicRig(INSTANT, { qpPerTransfer: 4 }, ground.regionBytes, (_, __, runs, count) => {
    ground.copy(runs, count);
    return true;
  });
  const { seconds, ratios } = timeInTurn(
    [
      () => {
        for (const list of lists) ground.copy(list, COPY_BATCH);
      },
      () => {
        for (const part of parts) runBatch(rig, 'write', part);
      },
    ],
    rounds,
    1,
  );
  const rate = (COPY_PARTS * COPY_BATCH * COPY_BYTES) / seconds[1] / 1e9;
  return figure(
    '4 KiB writes with bytes',
    rate,
    'GB/s',
    'the copy kernel alone',
    1 / ratios[1],
    'atLeast',
    COPY_FLOOR,
  );
}

function partOf(part: number): BatchEntries {
  const { localOffsets, sizes } = strided(COPY_BATCH, COPY_BYTES);
  const offsets = localOffsets.map((offset) => offset + part * COPY_BATCH * (COPY_BYTES + 1));
  return { localOffsets: offsets, remoteOffsets: offsets, sizes };
}

interface CopyGround {
  readonly regionBytes: number;
  readonly copy: (runs: Float64Array, count: number) => void;
}

const RUNS_AT = 64;

/** Memory of a run list and two regions. */
function copyGround(regionBytes: number): CopyGround {
  const sourceBase = aligned(RUNS_AT + COPY_BATCH * RUN_BYTES);
  const targetBase = sourceBase + aligned(regionBytes);
  const pages = Math.ceil((targetBase + regionBytes) / 65_536);
  const { kernels, memory } = instantiateKernels(readKernelBytes(), pages);
  const words = new Uint32Array(memory.buffer);
  const copy = (runs: Float64Array, count: number): void => {
    const first = RUNS_AT / 4;
    for (let at = 0; at < count * 3; at += 1) words[first + at] = runs[at];
    copyAll(kernels, count, sourceBase, targetBase, regionBytes);
  };
  return { regionBytes, copy };
}

function copyAll(
  kernels: Kernels,
  count: number,
  sourceBase: number,
  targetBase: number,
  regionBytes: number,
): void {
  const [sourceEnd, targetEnd] = [sourceBase + regionBytes, targetBase + regionBytes];
  const complaint = kernels.copyRuns(RUNS_AT, count, sourceBase, sourceEnd, targetBase, targetEnd);
  believe(complaint === ALL_FINE, 'INV-KERNEL-1', `the copy kernel refused a bench run: ${complaint}`);
}

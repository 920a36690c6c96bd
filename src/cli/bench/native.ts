import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { BrokenBelief, UsageError } from '../../base/failure.ts';
import type { Connection } from '../../io/fabric.ts';
import { readKernelBytes } from '../../node/kernel-bytes.ts';
import { type NativeFabric, type NativeProvider, openNativeFabric } from '../../node/native-fabric.ts';
import { instantiateKernels } from '../../sim/load-kernels.ts';
import { type Figure, figure, median } from './figures.ts';

/** Bandwidth and posting through the bridge, beside native-bridge/bench/baseline.c in the same round. */

const BASELINE = fileURLToPath(new URL('../../../native-bridge/build/baseline', import.meta.url));
const HALF = 32 * 1024 * 1024;
const PAGES = (2 * HALF) / 65_536;
const POSTS = 200;

/** Sizes as in the C program; `window` batches are under way. */
interface Shape {
  readonly bytes: number;
  readonly operations: number;
  readonly window: number;
  readonly batches: number;
}

const LARGE: Shape = { bytes: 1024 * 1024, operations: 1, window: 16, batches: 512 };
const SMALL: Shape = { bytes: 4096, operations: 64, window: 4, batches: 512 };

interface Timed {
  readonly seconds: number;
  readonly postMicros: number;
}

const LARGE_FLOOR = 0.9;
const SMALL_FLOOR = 0.7;
const POST_BOUND = 1.5;

export function nativeFigures(rounds: number): Figure[] {
  if (!existsSync(BASELINE))
    throw new UsageError('NATIVE', `no C baseline at ${BASELINE}: run \`npm run build:native\``);
  return (['shm', 'tcp'] as const).flatMap((provider) => figuresOf(provider, rounds));
}

function figuresOf(provider: NativeProvider, rounds: number): Figure[] {
  const { buffer } = instantiateKernels(readKernelBytes(), PAGES).memory;
  const memory = new Uint8Array(buffer).fill(1, 0, HALF);
  const opened = openNativeFabric({ provider, memory, runsMax: SMALL.operations });
  if (opened.fabric === null)
    throw new UsageError('NATIVE', `native: not available, because ${opened.reason}`);
  const bridge = new Bridge(opened.fabric);
  const pairs = { large: [] as Pair[], small: [] as Pair[] };
  bridge.run(LARGE);
  for (let round = 0; round < rounds; round++) {
    pairs.large.push({ bridge: bridge.run(LARGE), baseline: baseline(provider, LARGE) });
    pairs.small.push({ bridge: bridge.run(SMALL), baseline: baseline(provider, SMALL) });
  }
  if (!memory.subarray(HALF).every((byte) => byte === 1))
    throw new BrokenBelief('INV-NATIVE-2', 'the bytes that were timed did not arrive');
  void opened.fabric.close();
  return [
    bandwidth(`${provider}, batches of one write of 1 MiB`, LARGE, pairs.large, LARGE_FLOOR),
    bandwidth(`${provider}, batches of 64 writes of 4 KiB`, SMALL, pairs.small, SMALL_FLOOR),
    posting(`${provider}, posting a batch of 64`, pairs.small),
  ];
}

interface Pair {
  readonly bridge: Timed;
  readonly baseline: Timed;
}

function bandwidth(name: string, shape: Shape, pairs: readonly Pair[], floor: number): Figure {
  const gigabytes = (shape.bytes * shape.operations * shape.batches) / 1e9;
  const rate = median(pairs.map(({ bridge }) => gigabytes / bridge.seconds));
  const ratio = median(pairs.map((pair) => pair.baseline.seconds / pair.bridge.seconds));
  const theirs = median(pairs.map((pair) => gigabytes / pair.baseline.seconds));
  return figure(name, rate, 'GB/s', `C, ${theirs.toFixed(2)} GB/s`, ratio, 'atLeast', floor);
}

function posting(name: string, pairs: readonly Pair[]): Figure {
  const ours = median(pairs.map(({ bridge }) => bridge.postMicros));
  const theirs = median(pairs.map((pair) => pair.baseline.postMicros));
  const ratio = median(pairs.map((pair) => pair.bridge.postMicros / pair.baseline.postMicros));
  return figure(name, ours, 'us', `64 calls in C, ${theirs.toFixed(1)} us`, ratio, 'atMost', POST_BOUND);
}

class Bridge {
  readonly #fabric: NativeFabric;
  readonly #connection: Connection;
  #id = 0;

  constructor(fabric: NativeFabric) {
    this.#fabric = fabric;
    this.#connection = fabric.connect(
      fabric.registerMemory(0, 0, HALF),
      fabric.registerMemory(1, HALF, 2 * HALF),
    );
  }

  run(shape: Shape): Timed {
    const lists = runLists(shape);
    const started = performance.now();
    let posted = 0;
    for (let ended = 0; ended < shape.batches; ) {
      while (posted < shape.batches && posted - ended < shape.window)
        this.#post(lists[posted++ % lists.length]!);
      ended += this.#ended();
    }
    const seconds = (performance.now() - started) / 1000;
    return { seconds, postMicros: this.#posting(lists[0]!) };
  }

  /** Median of posting one batch with nothing else under way. */
  #posting(runs: readonly number[]): number {
    const micros: number[] = [];
    for (let round = 0; round < POSTS; round++) {
      const started = performance.now();
      this.#post(runs);
      micros.push((performance.now() - started) * 1000);
      this.#ended();
    }
    return median(micros);
  }

  #post(runs: readonly number[]): void {
    this.#fabric.post(this.#connection, 'write', runs, this.#id++);
  }

  /** Waits until something has ended. */
  #ended(): number {
    for (;;) {
      const completions = this.#fabric.poll();
      const bad = completions.find(({ code }) => code !== 0);
      if (bad !== undefined) throw new BrokenBelief('INV-NATIVE-2', bad.message);
      if (completions.length > 0) return completions.length;
      this.#fabric.rest();
    }
  }
}

/** Batches that walk through the whole of both regions, as the C program does. */
function runLists({ bytes, operations }: Shape): number[][] {
  return Array.from({ length: HALF / bytes / operations }, (_, batch) =>
    Array.from({ length: operations }, (_, operation) => {
      const at = (batch * operations + operation) * bytes;
      return [at, at, bytes];
    }).flat(),
  );
}

function baseline(provider: NativeProvider, shape: Shape): Timed {
  const name = provider === 'tcp' ? 'tcp;ofi_rxm' : provider;
  const { bytes, operations, window, batches } = shape;
  const args = [name, ...[bytes, operations, window, batches].map(String)];
  const { status, stdout, stderr } = spawnSync(BASELINE, args, { encoding: 'utf8', timeout: 120_000 });
  if (status !== 0) throw new BrokenBelief('INV-NATIVE-2', `the C baseline failed: ${stderr}`);
  return JSON.parse(stdout) as Timed;
}

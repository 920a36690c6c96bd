import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { BrokenBelief, UsageError } from '../../base/failure.ts';
import type { Connection } from '../../io/fabric.ts';
import { type NativeFabric, type NativeProvider, openNativeFabric } from '../../node/native-fabric.ts';
import { packageFile } from '../../node/package-file.ts';
import { median } from './figures.ts';
import type { Shape, Timed } from './native-rounds.ts';

/** The two programs that `bench native` times: the bridge in this process, native-bridge/bench/baseline.c in another. */

const BASELINE = packageFile('native-bridge/build/baseline');
const TASKS = '/proc/self/task';

/** Bytes of the region that is written from, and of the one that is written to, as in the C program. */
export const HALF = 32 * 1024 * 1024;

/** Seconds in which threads of this process could have run and no core was free, since each began. */
function waitedSeconds(): number {
  const nanos = readdirSync(TASKS).map((task) => {
    try {
      return Number(readFileSync(`${TASKS}/${task}/schedstat`, 'utf8').split(' ')[1]);
    } catch {
      return 0; // it has just ended
    }
  });
  return nanos.reduce((sum, each) => sum + each, 0) / 1e9;
}

function cpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

export class Bridge {
  readonly #fabric: NativeFabric;
  readonly #connection: Connection;
  readonly #memory: Uint8Array;
  #id = 0;

  constructor(provider: NativeProvider, memory: Uint8Array<ArrayBuffer>, runsMax: number) {
    if (!existsSync('/proc/self/schedstat'))
      throw new UsageError('NATIVE', 'without /proc/self/schedstat nobody knows who waited for a core');
    const opened = openNativeFabric({ provider, memory: memory.fill(1, 0, HALF), runsMax });
    if (opened.fabric === null)
      throw new UsageError('NATIVE', `native: not available, because ${opened.reason}`);
    this.#fabric = opened.fabric;
    this.#memory = memory;
    this.#connection = opened.fabric.connect(
      opened.fabric.registerMemory(0, 0, HALF),
      opened.fabric.registerMemory(1, HALF, 2 * HALF),
    );
  }

  run(shape: Shape): Timed {
    const lists = runLists(shape);
    const waited = waitedSeconds();
    const cpu = cpuSeconds();
    const started = performance.now();
    let posted = 0;
    for (let ended = 0; ended < shape.batches; ) {
      while (posted < shape.batches && posted - ended < shape.window)
        this.#post(lists[posted++ % lists.length]!);
      ended += this.#ended();
    }
    const seconds = (performance.now() - started) / 1000;
    const used = cpuSeconds() - cpu;
    const postMicros = this.#posting(lists[0]!, shape.posts);
    return { seconds, cpuSeconds: used, waitedSeconds: waitedSeconds() - waited, postMicros };
  }

  close(): void {
    if (!this.#memory.subarray(HALF).every((byte) => byte === 1))
      throw new BrokenBelief('INV-NATIVE-2', 'the bytes that were timed did not arrive');
    void this.#fabric.close();
  }

  /** Median of posting one batch with nothing else under way; 0 when none is asked for. */
  #posting(runs: readonly number[], posts: number): number {
    const micros: number[] = [];
    for (let round = 0; round < posts; round++) {
      const started = performance.now();
      this.#post(runs);
      micros.push((performance.now() - started) * 1000);
      this.#ended();
    }
    return posts === 0 ? 0 : median(micros);
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

/** The C program, opened once: it sleeps between rounds. */
export class Baseline {
  readonly #child: ReturnType<typeof spawn>;
  readonly #answers: AsyncIterator<string>;

  constructor(provider: NativeProvider) {
    if (!existsSync(BASELINE))
      throw new UsageError('NATIVE', `no C baseline at ${BASELINE}: run \`npm run build:native\``);
    const name = provider === 'tcp' ? 'tcp;ofi_rxm' : provider;
    this.#child = spawn(BASELINE, [name], { stdio: ['pipe', 'pipe', 'inherit'] });
    for (const one of [this.#child, this.#child.stdin!]) one.on('error', () => {}); // its answer says so
    this.#answers = createInterface({ input: this.#child.stdout! })[Symbol.asyncIterator]();
  }

  async run({ bytes, operations, window, batches, posts }: Shape): Promise<Timed> {
    this.#child.stdin!.write(`${[bytes, operations, window, batches, posts].join(' ')}\n`);
    const { done, value } = await this.#answers.next();
    if (done)
      throw new UsageError('NATIVE', `the C baseline ${BASELINE} has ended: run \`npm run build:native\``);
    return JSON.parse(value) as Timed;
  }

  close(): void {
    this.#child.stdin!.end();
  }
}

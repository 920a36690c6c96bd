import fc from 'fast-check';
import { expect } from 'vitest';
import { type CellView, type Kernels, writeCellView } from '../../src/kv/kernels.ts';
import { readKernelBytes } from '../../src/node/kernel-bytes.ts';
import { instantiateKernels } from '../../src/sim/load-kernels.ts';
import { createKernelTwin } from '../reference/kernel-twin.ts';
import { stampWord } from '../reference/stamp-words.ts';

export const PAGE_BYTES = 65_536;
export const U32_MAX = 0xffff_ffff;

/** One memory for the module, one for the twin; each step happens in both, and both agree to the last byte. */
export class Pair {
  readonly module: Kernels;
  readonly twin: Kernels;
  readonly moduleBytes: Buffer;
  readonly twinBytes: Buffer;
  readonly #noise: Buffer;

  constructor(pages: number) {
    const loaded = instantiateKernels(readKernelBytes(), pages);
    const twinMemory = { buffer: new ArrayBuffer(pages * PAGE_BYTES) };
    this.module = loaded.kernels;
    this.twin = createKernelTwin(twinMemory);
    this.moduleBytes = Buffer.from(loaded.memory.buffer);
    this.twinBytes = Buffer.from(twinMemory.buffer);
    this.#noise = Buffer.alloc(pages * PAGE_BYTES);
    for (let i = 0; i < this.#noise.length / 4; i++)
      this.#noise.writeUInt32LE(stampWord(i ^ 0x5bd1, i), i * 4);
  }

  get bytes(): number {
    return this.moduleBytes.length;
  }

  /** Both memories get the same noise: a byte written by mistake shows up. */
  reset(): void {
    this.#noise.copy(this.moduleBytes);
    this.#noise.copy(this.twinBytes);
  }

  /** Writes words at any byte address of both memories. */
  put(address: number, words: readonly number[]): void {
    words.forEach((word, i) => {
      this.moduleBytes.writeUInt32LE(word >>> 0, address + i * 4);
      this.twinBytes.writeUInt32LE(word >>> 0, address + i * 4);
    });
  }

  putView(address: number, view: CellView): void {
    const words = new Int32Array(13);
    writeCellView(words, 0, view);
    this.put(address, [...words]);
  }

  word(address: number): number {
    return this.moduleBytes.readUInt32LE(address);
  }

  /** Writes doubles at any byte address of both memories. */
  putDoubles(address: number, values: readonly number[]): void {
    values.forEach((value, i) => {
      this.moduleBytes.writeDoubleLE(value, address + i * 8);
      this.twinBytes.writeDoubleLE(value, address + i * 8);
    });
  }

  doubles(address: number, count: number): number[] {
    return Array.from({ length: count }, (_, i) => this.moduleBytes.readDoubleLE(address + i * 8));
  }

  /** The result both agree on. What they leave in `scratch`, a first byte and one past the last, is their own affair. */
  agree(call: (kernels: Kernels) => number, scratch?: readonly [number, number]): number {
    const actual = call(this.module);
    expect(actual).toBe(call(this.twin));
    if (scratch) for (const bytes of [this.moduleBytes, this.twinBytes]) bytes.fill(0, ...scratch);
    const same = this.moduleBytes.equals(this.twinBytes);
    if (!same) throw new Error(`memories differ at ${firstDifference(this.moduleBytes, this.twinBytes)}`);
    return actual;
  }
}

function firstDifference(a: Buffer, b: Buffer): number {
  return a.findIndex((byte, i) => byte !== b[i]);
}

/** Counts what happened, so that no property holds for want of cases. */
export class Tally {
  readonly #counts: Record<string, number> = {};

  add(outcome: string, happened = true): void {
    if (happened) this.#counts[outcome] = (this.#counts[outcome] ?? 0) + 1;
  }

  expectEach(outcomes: readonly string[], timesMin: number): void {
    for (const outcome of outcomes) {
      expect(this.#counts[outcome] ?? 0, `cases of ${outcome}`).toBeGreaterThanOrEqual(timesMin);
    }
  }
}

export const small = new Pair(1);
export const SETTINGS = { seed: 42, numRuns: 2000 };

/** Any word, the edges of a one-page memory and of 32 bits well represented. */
export const anyWord = fc.oneof(
  fc.integer({ min: 0, max: 64 }),
  fc.integer({ min: 0, max: PAGE_BYTES + 16 }),
  fc.integer({ min: PAGE_BYTES - 64, max: PAGE_BYTES + 8 }),
  fc.integer({ min: 0x7fff_fff0, max: 0x8000_0010 }),
  fc.integer({ min: U32_MAX - 64, max: U32_MAX }),
  fc.integer({ min: 0, max: U32_MAX }),
);

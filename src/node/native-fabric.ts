import { BrokenBelief, UsageError } from '../base/failure.ts';
import { StatusCode } from '../io/codes.ts';
import type { Completion, Connection, Fabric, MemoryRegion } from '../io/fabric.ts';
import {
  type EngineHandle,
  findNativeAddon,
  HEADER,
  HEADER_BYTES,
  type NativeAddon,
  type NativeHalf,
  RECORD_BYTES,
  REFUSAL,
  STAGED_BYTES,
  STATE,
} from './native-addon.ts';

export const NATIVE_PROVIDERS = ['shm', 'tcp', 'mori'] as const;
export type NativeProvider = (typeof NATIVE_PROVIDERS)[number];

/** The half of the bridge that has the provider, and the name there: libfabric's plain `tcp` has no one-sided operations. */
const PROVIDERS: { readonly [provider in NativeProvider]: readonly [half: NativeHalf, name: string] } = {
  shm: ['libfabric', 'shm'],
  tcp: ['libfabric', 'tcp;ofi_rxm'],
  mori: ['mori', 'rdma'],
};

function nameOf(provider: NativeProvider): string {
  const [half, name] = PROVIDERS[provider];
  const host = process.env['MORIARTY_MORI_HOST'];
  return half === 'mori' && host !== undefined && host !== '' ? `${name};${host}` : name;
}

export interface NativeOptions {
  readonly provider: NativeProvider;
  /** The whole of an ArrayBuffer that is never grown or transferred, such as a WebAssembly memory of fixed size. */
  readonly memory: Uint8Array<ArrayBuffer>;
  /** The longest batch, in work requests. */
  readonly runsMax: number;
}

/** Moves the bytes with libfabric or MoRI-IO: two endpoints in this process, the memory registered as it is. */
export interface NativeFabric extends Fabric {
  readonly name: 'native';
  readonly provider: NativeProvider;
  /** Name and version of what moves the bytes. */
  readonly library: string;
  rest(): void;
  /**
   * Registers GPU memory of HIP, which only the provider `mori` can; the region's offsets begin at 0. It must stay
   * allocated until `close` has resolved. @throws UsageError FABRIC-REGION
   */
  registerDeviceMemory(owner: number, pointer: bigint, bytes: number, device: number): MemoryRegion;
  /** Takes back every region, as the next run wants to find it. Nothing may be in flight. */
  reset(): void;
  /** What is in flight ends with ERR_BAD_STATE; resolves when nothing can touch the memory any more. */
  close(): Promise<void>;
}

export type NativeOpened =
  | { readonly fabric: NativeFabric }
  | { readonly fabric: null; readonly reason: string };

/** Batches in flight, and completions that nobody has polled yet: a power of two. */
const SLOTS = 1024;
const OPEN_MILLIS_MAX = 20_000;
/** Rests that return at once; later ones sleep, so that a busy machine can give the core to the dispatcher. */
const RESTS_AWAKE = 300;
const NAP_MILLIS = 0.05;
/** 20 s of naps at the least: a batch without an end until then will have none. Counted, as a stopped process has no time. */
const RESTS_MAX = 400_000;

/** Only ever slept on. */
const nobody = new Int32Array(new SharedArrayBuffer(4));

function nap(millis: number): void {
  Atomics.wait(nobody, 0, 0, millis);
}

/** Opens the engine, or says in one sentence why it cannot be. Opening takes some tenths of a second and is waited for. */
export function openNativeFabric(options: NativeOptions): NativeOpened {
  const found = findNativeAddon(PROVIDERS[options.provider][0]);
  if (found.addon === null) return { fabric: null, reason: found.reason };
  const { memory, provider, runsMax } = options;
  if (memory.byteOffset !== 0 || memory.byteLength !== memory.buffer.byteLength || memory.byteLength === 0)
    throw new UsageError('FABRIC-MEMORY', 'the memory must be the whole of its buffer, and not empty');
  const engine = new Engine(found.addon, provider, memory, runsMax);
  const reason = engine.waitUntilOpen();
  return reason === null ? { fabric: engine } : { fabric: null, reason };
}

class Engine implements NativeFabric {
  readonly name = 'native';
  readonly provider: NativeProvider;
  readonly library: string;
  readonly #addon: NativeAddon;
  readonly #engine: EngineHandle;
  /** Null once the engine is closed: it no longer keeps the memory alive. */
  #memory: ArrayBuffer | null;
  readonly #memoryBytes: number;
  readonly #runsMax: number;
  readonly #header: Int32Array;
  readonly #recordIds: Float64Array;
  readonly #recordWords: Int32Array;
  readonly #staging: Float64Array;
  readonly #keys = new Set<number>();
  #refused: Completion[] = [];
  #consumed = 0;
  #posted = 0;
  #rests = 0;
  #closing: Promise<void> | null = null;

  constructor(
    addon: NativeAddon,
    provider: NativeProvider,
    memory: Uint8Array<ArrayBuffer>,
    runsMax: number,
  ) {
    const control = new ArrayBuffer(HEADER_BYTES + SLOTS * RECORD_BYTES + runsMax * STAGED_BYTES);
    this.provider = provider;
    const { library, running } = addon.about();
    this.library = `${library} ${running}`;
    this.#addon = addon;
    this.#memory = memory.buffer;
    this.#memoryBytes = memory.byteLength;
    this.#runsMax = runsMax;
    this.#header = new Int32Array(control, 0, HEADER_BYTES / 4);
    this.#recordIds = new Float64Array(control, HEADER_BYTES, SLOTS * 2);
    this.#recordWords = new Int32Array(control, HEADER_BYTES, SLOTS * 4);
    this.#staging = new Float64Array(control, HEADER_BYTES + SLOTS * RECORD_BYTES, runsMax * 3);
    this.#engine = addon.open(nameOf(provider), memory.buffer, control, SLOTS, runsMax);
  }

  /** Null, or why the engine is none. */
  waitUntilOpen(): string | null {
    const deadline = performance.now() + OPEN_MILLIS_MAX;
    while (this.#state() === STATE.opening && performance.now() < deadline) nap(1);
    const state = this.#state();
    if (state === STATE.open) return null;
    const name = nameOf(this.provider);
    const reason =
      state === STATE.opening
        ? `the provider ${name} was not open after ${OPEN_MILLIS_MAX / 1000} s`
        : `${this.library} cannot open the provider ${name}: ${this.#errorText(this.#header[HEADER.openError]!)}`;
    // One that hangs while it opens is left to whoever collects it: nothing would ever end a wait for it.
    if (state === STATE.opening) this.#addon.close(this.#engine);
    else void this.close();
    return reason;
  }

  registerMemory(owner: number, start: number, end: number): MemoryRegion {
    this.#mustBeWhole();
    if (!(start >= 0 && start <= end && end <= this.#memoryBytes)) {
      throw new UsageError(
        'FABRIC-REGION',
        `region [${start}, ${end}) of actor ${owner} does not lie in the memory of ${this.#memoryBytes} bytes`,
      );
    }
    if (this.#closing !== null) throw new UsageError('FABRIC-CLOSED', 'the native fabric is closed');
    const key = this.#addon.addRegion(this.#engine, start, end);
    this.#keys.add(key);
    return { owner, start, end, key };
  }

  registerDeviceMemory(owner: number, pointer: bigint, bytes: number, device: number): MemoryRegion {
    if (this.#closing !== null) throw new UsageError('FABRIC-CLOSED', 'the native fabric is closed');
    const key = this.#addon.addDeviceRegion(this.#engine, pointer, bytes, device);
    if (key === 0) {
      throw new UsageError(
        'FABRIC-REGION',
        `${bytes} bytes at 0x${pointer.toString(16)} cannot be registered as memory of GPU ${device}: ${this.library} does not know them, or another length is registered there`,
      );
    }
    this.#keys.add(key);
    return { owner, start: 0, end: bytes, key };
  }

  deregisterMemory(region: MemoryRegion): void {
    if (this.#keys.delete(region.key)) this.#addon.dropRegion(this.#engine, region.key);
  }

  connect(initiator: MemoryRegion, target: MemoryRegion): Connection {
    return { initiator, target };
  }

  post(
    { initiator, target }: Connection,
    operation: 'read' | 'write',
    runs: readonly number[],
    id: number,
  ): void {
    this.#mustBeWhole();
    const count = Math.trunc(runs.length / 3);
    if (count > this.#runsMax) return this.#refuse(id, REFUSAL.tooLong, count);
    const staging = this.#staging;
    for (let i = 0; i < runs.length; i++) staging[i] = runs[i]!;
    const refusal = this.#addon.post(
      this.#engine,
      initiator.key,
      target.key,
      operation === 'write',
      count,
      id,
    );
    if (refusal !== REFUSAL.none) return this.#refuse(id, refusal, count);
    this.#posted = (this.#posted + 1) >>> 0;
    this.#rests = 0;
  }

  poll(): Completion[] {
    const ended = this.#refused;
    this.#refused = [];
    const produced = Atomics.load(this.#header, HEADER.produced) >>> 0;
    while (this.#consumed !== produced) {
      const slot = this.#consumed & (SLOTS - 1);
      const id = this.#recordIds[slot * 2]!;
      const code = this.#recordWords[slot * 4 + 2]! as StatusCode;
      ended.push({ id, code, message: this.#messageOf(code, this.#recordWords[slot * 4 + 3]!) });
      this.#consumed = (this.#consumed + 1) >>> 0;
    }
    if (ended.length > 0) {
      Atomics.store(this.#header, HEADER.consumed, this.#consumed | 0);
      this.#rests = 0;
    }
    return ended;
  }

  /** @throws BrokenBelief INV-NATIVE-1 when nothing is in flight, or nothing has ended for long. */
  rest(): void {
    if (this.#posted === this.#consumed && this.#refused.length === 0)
      throw new BrokenBelief('INV-NATIVE-1', 'somebody waits for a completion, and nothing is in flight');
    if (this.#rests++ < RESTS_AWAKE) return;
    nap(NAP_MILLIS);
    if (this.#rests > RESTS_MAX)
      throw new BrokenBelief(
        'INV-NATIVE-1',
        `${this.provider}: nothing has ended in ${(RESTS_MAX * NAP_MILLIS) / 1000} s of waiting`,
      );
  }

  reset(): void {
    for (const key of this.#keys) this.#addon.dropRegion(this.#engine, key);
    this.#keys.clear();
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#keys.clear();
    this.#addon.close(this.#engine);
    while (!this.#addon.release(this.#engine)) await new Promise((resolve) => setTimeout(resolve, 1));
    this.#memory = null;
  }

  #state(): number {
    return Atomics.load(this.#header, HEADER.state);
  }

  /** A buffer that was grown or transferred has no bytes any more; the engine would move bytes that nobody sees. */
  #mustBeWhole(): void {
    if (this.#memory === null || this.#memory.byteLength === this.#memoryBytes) return;
    throw new UsageError(
      'FABRIC-MEMORY',
      'the memory of the native fabric was grown or transferred: it must keep its size and place',
    );
  }

  #refuse(id: number, refusal: number, count: number): void {
    this.#refused.push({ id, ...this.#complaint(refusal, count) });
  }

  #complaint(refusal: number, count: number): { code: StatusCode; message: string } {
    switch (refusal) {
      case REFUSAL.outOfRange:
        return { code: StatusCode.ERR_INVALID_ARGS, message: 'length out of range' };
      case REFUSAL.tooLong:
        return {
          code: StatusCode.ERR_INVALID_ARGS,
          message: `a batch of ${count} work requests is longer than ${this.#runsMax}`,
        };
      case REFUSAL.deadKey:
        return { code: StatusCode.ERR_RDMA_OP, message: 'remote access error' };
      case REFUSAL.full:
        return { code: StatusCode.ERR_BAD_STATE, message: `${SLOTS} batches in flight are the most` };
      default:
        return { code: StatusCode.ERR_BAD_STATE, message: 'the fabric is closed' };
    }
  }

  #messageOf(code: StatusCode, error: number): string {
    if (code === StatusCode.SUCCESS) return 'success';
    if (code === StatusCode.ERR_BAD_STATE && error === 0) return 'the fabric is closed';
    return `${this.provider}: ${this.#errorText(error)}`;
  }

  #errorText(error: number): string {
    return this.#addon.errorText(error);
  }
}

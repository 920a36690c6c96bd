import { BrokenBelief, UsageError } from '../base/failure.ts';
import type { Completion, Connection, Fabric, MemoryRegion } from '../io/fabric.ts';
import { findNativeAddon, type NativeAddon } from './native-addon.ts';
import { halfOf, NATIVE_PROVIDERS, NativeCore, type NativeProvider, OPEN_MILLIS_MAX } from './native-core.ts';

export { NATIVE_PROVIDERS, type NativeProvider };

export interface NativeOptions {
  readonly provider: NativeProvider;
  /** The whole of an ArrayBuffer that is never grown or transferred, such as a WebAssembly memory of fixed size. */
  readonly memory: Uint8Array<ArrayBuffer>;
  /** The longest batch, in work requests. */
  readonly runsMax: number;
}

/** Moves the bytes with libfabric or MoRI-IO: both ends in this process, the memory registered as it is. */
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
  /**
   * Takes back every region, as the next run wants to find it. What a run that broke off has left in flight is waited
   * for and forgotten. @throws BrokenBelief INV-NATIVE-1 when it does not end
   */
  reset(): void;
  /** What is in flight ends with ERR_BAD_STATE; resolves when nothing can touch the memory any more. */
  close(): Promise<void>;
}

export type NativeOpened =
  | { readonly fabric: NativeFabric }
  | { readonly fabric: null; readonly reason: string };

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
  const found = findNativeAddon(halfOf(options.provider));
  if (found.addon === null) return { fabric: null, reason: found.reason };
  const fabric = new OneProcess(found.addon, options);
  const reason = fabric.waitUntilOpen();
  return reason === null ? { fabric } : { fabric: null, reason };
}

class OneProcess implements NativeFabric {
  readonly name = 'native';
  readonly #core: NativeCore;
  readonly #keys = new Set<number>();
  #rests = 0;

  constructor(addon: NativeAddon, options: NativeOptions) {
    this.#core = new NativeCore(addon, options);
  }

  get provider(): NativeProvider {
    return this.#core.provider;
  }

  get library(): string {
    return this.#core.library;
  }

  /** Null, or why the engine is none. */
  waitUntilOpen(): string | null {
    const deadline = performance.now() + OPEN_MILLIS_MAX;
    while (this.#core.isOpening && performance.now() < deadline) nap(1);
    return this.#core.whyNotOpen();
  }

  registerMemory(owner: number, start: number, end: number): MemoryRegion {
    const key = this.#core.addRegion(start, end, ` of actor ${owner}`);
    this.#keys.add(key);
    return { owner, start, end, key };
  }

  registerDeviceMemory(owner: number, pointer: bigint, bytes: number, device: number): MemoryRegion {
    const { addon, engine } = this.#core;
    this.#core.mustBeOpen();
    const key = addon.addDeviceRegion(engine, pointer, bytes, device);
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
    if (this.#keys.delete(region.key)) this.#drop(region.key);
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
    this.#core.post(initiator.key, target.key, operation === 'write', runs, id);
    this.#rests = 0;
  }

  poll(): Completion[] {
    const ended = this.#core.poll();
    if (ended.length > 0) this.#rests = 0;
    return ended;
  }

  /** @throws BrokenBelief INV-NATIVE-1 when nothing is in flight, or nothing has ended for long. */
  rest(): void {
    if (this.#core.inFlight === 0)
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
    this.#rests = 0;
    while (this.#core.inFlight > 0) if (this.poll().length === 0) this.rest();
    for (const key of this.#keys) this.#drop(key);
    this.#keys.clear();
  }

  close(): Promise<void> {
    this.#keys.clear();
    return this.#core.close();
  }

  /** Nobody of another process has it, so it is soon gone; `isGone` makes the addon forget those that are. */
  #drop(key: number): void {
    this.#core.addon.dropRegion(this.#core.engine, key);
  }
}

import { BrokenBelief, UsageError } from '../base/failure.ts';
import {
  type Completion,
  type Connection,
  connectRegions,
  type Fabric,
  type MemoryRegion,
} from '../io/fabric.ts';
import { findNativeAddon, type NativeAddon } from './native-addon.ts';
import { halfOf, NATIVE_PROVIDERS, NativeCore, type NativeProvider, OPEN_MILLIS_MAX } from './native-core.ts';

export { NATIVE_PROVIDERS, type NativeProvider };

export interface NativeOptions {
  readonly provider: NativeProvider;
  /** The whole of an ArrayBuffer that is never grown or transferred, such as a WebAssembly memory of fixed size. */
  readonly memory: Uint8Array<ArrayBuffer>;
  /** The longest batch, in work requests. */
  readonly runsMax: number;
  /** Queue pairs that are apart: each has a domain, endpoints, registrations and a thread of its own. 1 if absent. */
  readonly queuePairs?: number;
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
const QUEUE_PAIRS_MAX = 8;
/** The addon counts from 1. */
const DEAD_KEY = 0;
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
  /** One for each queue pair. */
  readonly #cores: readonly NativeCore[];
  /** What each core calls a region, by the first one's name for it. */
  readonly #keys = new Map<number, readonly number[]>();
  #rests = 0;
  #closing: Promise<void> | null = null;

  constructor(addon: NativeAddon, options: NativeOptions) {
    const { queuePairs = 1 } = options;
    if (!Number.isInteger(queuePairs) || queuePairs < 1 || queuePairs > QUEUE_PAIRS_MAX)
      throw new UsageError(
        'FABRIC-QUEUE-PAIRS',
        `${queuePairs} queue pairs: it must be 1 to ${QUEUE_PAIRS_MAX}`,
      );
    this.#cores = Array.from({ length: queuePairs }, () => new NativeCore(addon, options));
  }

  get provider(): NativeProvider {
    return this.#cores[0]!.provider;
  }

  get library(): string {
    return this.#cores[0]!.library;
  }

  /** Null, or why the engine is none; then nothing of it is left open. */
  waitUntilOpen(): string | null {
    const deadline = performance.now() + OPEN_MILLIS_MAX;
    while (this.#cores.some(({ isOpening }) => isOpening) && performance.now() < deadline) nap(1);
    const reasons = this.#cores.map((core) => core.whyNotOpen());
    const reason = reasons.find((why) => why !== null) ?? null;
    if (reason !== null) this.#cores.forEach((core, at) => void (reasons[at] === null && core.close()));
    return reason;
  }

  registerMemory(owner: number, start: number, end: number): MemoryRegion {
    const key = this.#keep(this.#cores.map((core) => core.addRegion(start, end, ` of actor ${owner}`)));
    return { owner, start, end, key };
  }

  registerDeviceMemory(owner: number, pointer: bigint, bytes: number, device: number): MemoryRegion {
    const keys = this.#cores.map((core) => {
      core.mustBeOpen();
      return core.addon.addDeviceRegion(core.engine, pointer, bytes, device);
    });
    if (keys.includes(0)) {
      throw new UsageError(
        'FABRIC-REGION',
        `${bytes} bytes at 0x${pointer.toString(16)} cannot be registered as memory of GPU ${device}: ${this.library} does not know them, or another length is registered there`,
      );
    }
    return { owner, start: 0, end: bytes, key: this.#keep(keys) };
  }

  #keep(keys: readonly number[]): number {
    this.#keys.set(keys[0]!, keys);
    return keys[0]!;
  }

  deregisterMemory(region: MemoryRegion): void {
    const keys = this.#keys.get(region.key);
    if (keys === undefined) return;
    this.#keys.delete(region.key);
    this.#drop(keys);
  }

  connect(initiator: MemoryRegion, target: MemoryRegion, queuePair = 0): Connection {
    return connectRegions(initiator, target, queuePair);
  }

  post(
    { initiator, target, queuePair }: Connection,
    operation: 'read' | 'write',
    runs: readonly number[],
    id: number,
  ): void {
    const at = queuePair % this.#cores.length;
    const near = this.#keys.get(initiator.key)?.[at] ?? DEAD_KEY;
    const far = this.#keys.get(target.key)?.[at] ?? DEAD_KEY;
    this.#cores[at]!.post(near, far, operation === 'write', runs, id);
    this.#rests = 0;
  }

  poll(): Completion[] {
    const ended = this.#cores.flatMap((core) => core.poll());
    if (ended.length > 0) this.#rests = 0;
    return ended;
  }

  /** @throws BrokenBelief INV-NATIVE-1 when nothing is in flight, or nothing has ended for long. */
  rest(): void {
    if (!this.#isBusy())
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
    while (this.#isBusy()) if (this.poll().length === 0) this.rest();
    for (const keys of this.#keys.values()) this.#drop(keys);
    this.#keys.clear();
  }

  #isBusy(): boolean {
    return this.#cores.some(({ inFlight }) => inFlight > 0);
  }

  close(): Promise<void> {
    this.#keys.clear();
    this.#closing ??= Promise.all(this.#cores.map((core) => core.close())).then(() => undefined);
    return this.#closing;
  }

  /** Nobody of another process has it, so it is soon gone; `isGone` makes the addon forget those that are. */
  #drop(keys: readonly number[]): void {
    for (const [at, { addon, engine }] of this.#cores.entries()) addon.dropRegion(engine, keys[at]!);
  }
}

import { UsageError } from '../base/failure.ts';
import { StatusCode } from '../io/codes.ts';
import type { Completion } from '../io/fabric.ts';
import {
  type EngineHandle,
  HEADER,
  HEADER_BYTES,
  type NativeAddon,
  type NativeHalf,
  RECORD_BYTES,
  REFUSAL,
  STAGED_BYTES,
  STATE,
} from './native-addon.ts';

export const NATIVE_PROVIDERS = ['shm', 'tcp', 'verbs', 'efa', 'cxi', 'mori'] as const;
export type NativeProvider = (typeof NATIVE_PROVIDERS)[number];

/**
 * The half of the bridge that has the provider, and the name there: libfabric's plain `tcp` and `verbs` have no endpoints of
 * the kind that the engine opens.
 */
const PROVIDERS: { readonly [provider in NativeProvider]: readonly [half: NativeHalf, name: string] } = {
  shm: ['libfabric', 'shm'],
  tcp: ['libfabric', 'tcp;ofi_rxm'],
  verbs: ['libfabric', 'verbs;ofi_rxm'],
  efa: ['libfabric', 'efa'],
  cxi: ['libfabric', 'cxi'],
  mori: ['mori', 'rdma'],
};

export function halfOf(provider: NativeProvider): NativeHalf {
  return PROVIDERS[provider][0];
}

function nameOf(provider: NativeProvider): string {
  const [half, name] = PROVIDERS[provider];
  const host = process.env['MORIARTY_MORI_HOST'];
  return half === 'mori' && host !== undefined && host !== '' ? `${name};${host}` : name;
}

export interface CoreOptions {
  readonly provider: NativeProvider;
  /** The whole of an ArrayBuffer that is never grown or transferred, such as a WebAssembly memory of fixed size. */
  readonly memory: Uint8Array<ArrayBuffer>;
  /** The longest batch, in work requests. */
  readonly runsMax: number;
  /** Dotted IPv4 at which other processes may ask for the engine; without it none may. */
  readonly host?: string;
  /** How long a peer that lives may do nothing; 30 s if absent. */
  readonly patienceMillis?: number;
}

/** Batches in flight, and completions that nobody has polled yet: a power of two. */
export const SLOTS = 1024;
export const OPEN_MILLIS_MAX = 20_000;
const PATIENCE_MILLIS = 30_000;

/**
 * One engine of the addon and the memory that both share: posting, polling, opening and closing. What the fabric of the
 * simulated world and the engine of a real process have in common; neither waits in here.
 */
export class NativeCore {
  readonly provider: NativeProvider;
  /** Name and version of what moves the bytes. */
  readonly library: string;
  readonly addon: NativeAddon;
  readonly engine: EngineHandle;
  readonly memoryBytes: number;
  /** Null once the engine is closed: it no longer keeps the memory alive. */
  #memory: ArrayBuffer | null;
  readonly #runsMax: number;
  readonly #header: Int32Array;
  readonly #recordIds: Float64Array;
  readonly #recordWords: Int32Array;
  readonly #staging: Float64Array;
  #refused: Completion[] = [];
  #consumed = 0;
  #posted = 0;
  #closing: Promise<void> | null = null;

  /** @throws UsageError FABRIC-MEMORY */
  constructor(addon: NativeAddon, options: CoreOptions) {
    const { provider, memory, runsMax, host = '', patienceMillis = PATIENCE_MILLIS } = options;
    if (memory.byteOffset !== 0 || memory.byteLength !== memory.buffer.byteLength || memory.byteLength === 0)
      throw new UsageError('FABRIC-MEMORY', 'the memory must be the whole of its buffer, and not empty');
    const control = new ArrayBuffer(HEADER_BYTES + SLOTS * RECORD_BYTES + runsMax * STAGED_BYTES);
    this.provider = provider;
    const { library, running } = addon.about();
    this.library = `${library} ${running}`;
    this.addon = addon;
    this.#memory = memory.buffer;
    this.memoryBytes = memory.byteLength;
    this.#runsMax = runsMax;
    this.#header = new Int32Array(control, 0, HEADER_BYTES / 4);
    this.#recordIds = new Float64Array(control, HEADER_BYTES, SLOTS * 2);
    this.#recordWords = new Int32Array(control, HEADER_BYTES, SLOTS * 4);
    this.#staging = new Float64Array(control, HEADER_BYTES + SLOTS * RECORD_BYTES, runsMax * 3);
    this.engine = addon.open(nameOf(provider), memory.buffer, control, SLOTS, runsMax, host, patienceMillis);
  }

  get isOpening(): boolean {
    return Atomics.load(this.#header, HEADER.state) === STATE.opening;
  }

  get isClosing(): boolean {
    return this.#closing !== null;
  }

  /** Batches that were posted and whose end was not polled. */
  get inFlight(): number {
    return ((this.#posted - this.#consumed) >>> 0) + this.#refused.length;
  }

  /** Null when the engine is open, else why it is not; then it is being closed. */
  whyNotOpen(): string | null {
    const state = Atomics.load(this.#header, HEADER.state);
    if (state === STATE.open) return null;
    const name = nameOf(this.provider);
    const reason =
      state === STATE.opening
        ? `the provider ${name} was not open after ${OPEN_MILLIS_MAX / 1000} s`
        : `${this.library} cannot open the provider ${name}: ${this.errorText(this.#header[HEADER.openError]!)}`;
    // One that hangs while it opens is left to whoever collects it: nothing would ever end a wait for it.
    if (state === STATE.opening) this.addon.close(this.engine);
    else void this.close();
    return reason;
  }

  /** The key of bytes [start, end) of the memory. @throws UsageError FABRIC-REGION, FABRIC-CLOSED */
  addRegion(start: number, end: number, whose: string): number {
    this.#mustBeWhole();
    if (!(start >= 0 && start <= end && end <= this.memoryBytes)) {
      throw new UsageError(
        'FABRIC-REGION',
        `region [${start}, ${end})${whose} does not lie in the memory of ${this.memoryBytes} bytes`,
      );
    }
    this.mustBeOpen();
    return this.addon.addRegion(this.engine, start, end);
  }

  mustBeOpen(): void {
    if (this.#closing !== null) throw new UsageError('FABRIC-CLOSED', 'the native fabric is closed');
  }

  post(localKey: number, remoteKey: number, isWrite: boolean, runs: readonly number[], id: number): void {
    this.#mustBeWhole();
    const count = Math.trunc(runs.length / 3);
    if (count > this.#runsMax) return this.#refuse(id, REFUSAL.tooLong, count);
    const staging = this.#staging;
    for (let i = 0; i < runs.length; i++) staging[i] = runs[i]!;
    const refusal = this.addon.post(this.engine, localKey, remoteKey, isWrite, count, id);
    if (refusal !== REFUSAL.none) return this.#refuse(id, refusal, count);
    this.#posted = (this.#posted + 1) >>> 0;
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
    if (ended.length > 0) Atomics.store(this.#header, HEADER.consumed, this.#consumed | 0);
    return ended;
  }

  /** Whether `poll` would give something. */
  get hasEnded(): boolean {
    return this.#refused.length > 0 || Atomics.load(this.#header, HEADER.produced) >>> 0 !== this.#consumed;
  }

  /** What is in flight ends with ERR_BAD_STATE; resolves when nothing can touch the memory any more. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.addon.close(this.engine);
    while (!this.addon.release(this.engine)) await new Promise((resolve) => setTimeout(resolve, 1));
    this.#memory = null;
  }

  /** A buffer that was grown or transferred has no bytes any more; the engine would move bytes that nobody sees. */
  #mustBeWhole(): void {
    if (this.#memory === null || this.#memory.byteLength === this.memoryBytes) return;
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
    return `${this.provider}: ${this.errorText(error)}`;
  }

  errorText(error: number): string {
    return this.addon.errorText(error);
  }
}

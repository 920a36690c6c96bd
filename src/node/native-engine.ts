import { hostname } from 'node:os';
import { UsageError } from '../base/failure.ts';
import { MemoryLocationType } from '../io/codes.ts';
import {
  type EngineDesc,
  emptyEngineDesc,
  emptyMemoryDesc,
  type MemoryDesc,
  packEngineDesc,
  packMemoryDesc,
  unpackEngineDesc,
  unpackMemoryDesc,
} from '../io/descriptors.ts';
import type { Completion } from '../io/fabric.ts';
import { findNativeAddon, STATE } from './native-addon.ts';
import { halfOf, NativeCore, type NativeProvider, OPEN_MILLIS_MAX } from './native-core.ts';

/**
 * An engine of this process that moves bytes to and from the memory of engines in other processes. Each tells who it is by
 * a packed EngineDesc and its memory by packed MemoryDescs, as MoRI-IO's engines do; how they get to the other process is
 * the caller's business. Everything else goes over a connection of the engines' own (native-bridge/README.md).
 */
export interface NativeEngine {
  readonly provider: NativeProvider;
  /** Name and version of what moves the bytes. */
  readonly library: string;
  /** Batches that were posted and whose end was not polled. */
  readonly inFlight: number;
  /** A packed EngineDesc: where others can ask for this engine. Whoever has it may ask. */
  describe(): Uint8Array;
  /** @throws UsageError FABRIC-REGION, FABRIC-CLOSED, FABRIC-MEMORY */
  registerMemory(start: number, end: number): NativeRegion;
  /**
   * Refused at once for new batches of ours; resolves when no peer can touch the region any more, because each has said
   * that it is through with it, or is gone.
   */
  deregisterMemory(region: NativeRegion): Promise<void>;
  /** A connection to the engine of a packed EngineDesc. @throws UsageError PEER-DESC, PEER-REFUSED, PEER-LOST */
  connect(engine: Uint8Array): Promise<NativePeer>;
  /**
   * Moves `runs`, triples (local offset, remote offset, bytes). `id` is the caller's; exactly one completion with it is
   * polled later, whatever becomes of the peer.
   */
  post(
    local: NativeRegion,
    remote: PeerRegion | NativeRegion,
    operation: 'read' | 'write',
    runs: readonly number[],
    id: number,
  ): void;
  /** Completions since the last call. Never waits. */
  poll(): Completion[];
  /**
   * Has completions delivered, many at a time, without anybody polling. Keeps the event loop alive only while something is
   * in flight. Given null, `poll` is for the caller again.
   */
  onCompletions(deliver: ((ended: readonly Completion[]) => void) | null): void;
  /** What is in flight ends with ERR_BAD_STATE; resolves when nothing can touch the memory any more. */
  close(): Promise<void>;
}

export interface NativeRegion {
  readonly key: number;
  readonly start: number;
  readonly end: number;
  /** A packed MemoryDesc, for peers. */
  readonly descriptor: Uint8Array;
}

/** A region of a peer. Offsets count from its start. */
export interface PeerRegion {
  readonly key: number;
  readonly bytes: number;
}

export interface NativePeer {
  readonly desc: EngineDesc;
  /** Null while the connection holds, else why it does not. */
  lost(): string | null;
  /** The region of a packed MemoryDesc of the peer. @throws UsageError PEER-DESC, PEER-LOST */
  importMemory(memory: Uint8Array): PeerRegion;
  /** Lets its engine know that nothing of ours will name the region any more; what is in flight to it ends first. */
  releaseMemory(region: PeerRegion): void;
  /** What is in flight to it ends with ERR_RDMA_OP. */
  disconnect(): void;
}

/** Those whose endpoints of two processes have been seen to meet. */
const PEER_PROVIDERS = ['shm', 'tcp'] as const;

export interface NativeEngineOptions {
  readonly provider: (typeof PEER_PROVIDERS)[number];
  /** The whole of an ArrayBuffer that is never grown or transferred, such as a WebAssembly memory of fixed size. */
  readonly memory: Uint8Array<ArrayBuffer>;
  /** The longest batch, in work requests. */
  readonly runsMax: number;
  /** How long a peer that lives may do nothing before it is given up; 30 s if absent. */
  readonly patienceMillis?: number;
}

export type NativeEngineOpened =
  | { readonly engine: NativeEngine }
  | { readonly engine: null; readonly reason: string };

const TURN_MILLIS = 1;
/** Longer bytes are no descriptor of ours: the texts of one are short. */
const DESC_BYTES_MAX = 4096;
const KEY = /^[0-9a-f]{32}$/;
/** Lanes are opened on loopback, and so nobody elsewhere is asked. */
const LOOPBACK = '127.0.0.1';
const HOST = /^127(\.\d{1,3}){3}$/;

const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, TURN_MILLIS));

/** Opens the engine, or says in one sentence why it cannot be. */
export async function openNativeEngine(options: NativeEngineOptions): Promise<NativeEngineOpened> {
  const wanted: string = options.provider;
  if (wanted === 'mori')
    throw new UsageError('PEER-MORI', 'engines of two processes are not available over MoRI-IO');
  if (!PEER_PROVIDERS.some((provider) => provider === wanted))
    throw new UsageError(
      'PEER-PROVIDER',
      `engines of two processes meet over ${PEER_PROVIDERS.join(' and ')}, not over ${wanted}`,
    );
  const found = findNativeAddon(halfOf(options.provider));
  if (found.addon === null) return { engine: null, reason: found.reason };
  const core = new NativeCore(found.addon, { ...options, host: LOOPBACK });
  const deadline = performance.now() + OPEN_MILLIS_MAX;
  while (core.isOpening && performance.now() < deadline) await turn();
  const reason = core.whyNotOpen();
  return reason === null ? { engine: new AmongProcesses(core) } : { engine: null, reason };
}

class AmongProcesses implements NativeEngine {
  readonly #core: NativeCore;
  readonly #desc: EngineDesc;
  #deliver: ((ended: readonly Completion[]) => void) | null = null;
  #hasWaker = false;
  #held = false;

  constructor(core: NativeCore) {
    this.#core = core;
    const { key, host, port } = core.addon.door(core.engine)!;
    this.#desc = {
      ...emptyEngineDesc(),
      key,
      nodeId: hostname(),
      hostname: hostname(),
      host,
      port,
      pid: process.pid,
    };
  }

  get provider(): NativeProvider {
    return this.#core.provider;
  }

  get library(): string {
    return this.#core.library;
  }

  get inFlight(): number {
    return this.#core.inFlight;
  }

  describe(): Uint8Array {
    return packEngineDesc(this.#desc);
  }

  registerMemory(start: number, end: number): NativeRegion {
    const { addon, engine } = this.#core;
    const key = this.#core.addRegion(start, end, '');
    const descriptor = packMemoryDesc({
      ...emptyMemoryDesc(),
      engineKey: this.#desc.key,
      id: key,
      data: addon.addressOf(engine, start),
      size: BigInt(end - start),
      loc: MemoryLocationType.CPU,
    });
    return { key, start, end, descriptor };
  }

  async deregisterMemory({ key }: NativeRegion): Promise<void> {
    const core = this.#core;
    if (core.isClosing) return core.close();
    core.addon.dropRegion(core.engine, key);
    while (!core.addon.isGone(core.engine, key)) await turn();
  }

  async connect(bytes: Uint8Array): Promise<NativePeer> {
    const core = this.#core;
    core.mustBeOpen();
    const desc = engineDescOf(bytes);
    const { addon, engine } = core;
    const number = addon.connect(engine, desc.key, desc.host, desc.port);
    if (number === 0)
      throw new UsageError('PEER-REFUSED', 'no more connections: 64 are the most, or the engine is not open');
    const peer = new Peer(core, number, desc);
    while (!core.isClosing && addon.peerState(engine, number).state === STATE.opening) await turn();
    const lost = peer.lost();
    if (lost !== null) throw new UsageError('PEER-LOST', `${desc.host}:${desc.port}: ${lost}`);
    return peer;
  }

  post(
    local: NativeRegion,
    remote: PeerRegion | NativeRegion,
    operation: 'read' | 'write',
    runs: readonly number[],
    id: number,
  ): void {
    this.#core.post(local.key, remote.key, operation === 'write', runs, id);
    if (this.#deliver !== null) this.#watch();
  }

  poll(): Completion[] {
    const ended = this.#core.poll();
    if (this.#deliver !== null) this.#hold();
    return ended;
  }

  onCompletions(deliver: ((ended: readonly Completion[]) => void) | null): void {
    this.#deliver = deliver;
    if (this.#core.isClosing) return;
    if (!this.#hasWaker) {
      // The addon holds the function for as long as the engine lives: it must not hold the engine.
      const weak = new WeakRef<AmongProcesses>(this);
      this.#core.addon.setWaker(this.#core.engine, () => {
        const self = weak.deref();
        if (self !== undefined) self.#awake();
      });
      this.#hasWaker = true;
    }
    this.#watch();
  }

  close(): Promise<void> {
    if (this.#held) this.#core.addon.holdLoop(this.#core.engine, false);
    this.#held = false;
    return this.#core.close().then(() => this.#awake());
  }

  /** Asks to be woken; what has ended before that, or was refused at once, is delivered in a turn of its own. */
  #watch(): void {
    this.#hold();
    this.#core.addon.arm(this.#core.engine);
    if (this.#core.hasEnded) setImmediate(() => this.#awake());
  }

  #awake(): void {
    if (this.#deliver === null) return;
    const ended = this.#core.poll();
    this.#hold();
    if (!this.#core.isClosing) this.#core.addon.arm(this.#core.engine);
    if (ended.length > 0) this.#deliver(ended);
    // What ended between the poll and the arming has woken nobody.
    if (this.#core.hasEnded) setImmediate(() => this.#awake());
  }

  #hold(): void {
    const held = this.#deliver !== null && this.#core.inFlight > 0 && !this.#core.isClosing;
    if (held === this.#held) return;
    this.#held = held;
    this.#core.addon.holdLoop(this.#core.engine, held);
  }
}

class Peer implements NativePeer {
  readonly desc: EngineDesc;
  readonly #core: NativeCore;
  readonly #number: number;

  constructor(core: NativeCore, number: number, desc: EngineDesc) {
    this.#core = core;
    this.#number = number;
    this.desc = desc;
  }

  lost(): string | null {
    if (this.#core.isClosing) return 'the engine is closed';
    const { state, error } = this.#core.addon.peerState(this.#core.engine, this.#number);
    if (state === STATE.open || state === STATE.opening) return null;
    return error === 0 ? 'the connection is closed' : this.#core.errorText(error);
  }

  importMemory(bytes: Uint8Array): PeerRegion {
    const desc = memoryDescOf(bytes, this.desc.key);
    const size = Number(desc.size);
    const lost = this.lost();
    const { addon, engine } = this.#core;
    const key = lost === null ? addon.addPeerRegion(engine, this.#number, desc.id, desc.data, size) : 0;
    if (key === 0)
      throw new UsageError('PEER-LOST', `there is no connection to it: ${lost ?? 'it has just ended'}`);
    return { key, bytes: size };
  }

  releaseMemory({ key }: PeerRegion): void {
    if (!this.#core.isClosing) this.#core.addon.dropRegion(this.#core.engine, key);
  }

  disconnect(): void {
    if (!this.#core.isClosing) this.#core.addon.disconnect(this.#core.engine, this.#number);
  }
}

function unpacked<Desc>(bytes: Uint8Array, unpack: (bytes: Uint8Array) => Desc): Desc {
  if (!(bytes instanceof Uint8Array) || bytes.length > DESC_BYTES_MAX)
    throw new UsageError('PEER-DESC', `a descriptor is bytes, ${DESC_BYTES_MAX} at the most`);
  try {
    return unpack(bytes);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    throw new UsageError('PEER-DESC', `the bytes are no descriptor: ${error.message}`);
  }
}

function engineDescOf(bytes: Uint8Array): EngineDesc {
  const desc = unpacked(bytes, unpackEngineDesc);
  if (!KEY.test(desc.key)) throw new UsageError('PEER-DESC', 'the key is not one of our engines');
  if (!HOST.test(desc.host)) throw new UsageError('PEER-DESC', 'the host is no loopback address');
  if (desc.port < 1 || desc.port > 65_535) throw new UsageError('PEER-DESC', `there is no port ${desc.port}`);
  return desc;
}

function memoryDescOf(bytes: Uint8Array, engineKey: string): MemoryDesc {
  const desc = unpacked(bytes, unpackMemoryDesc);
  if (desc.engineKey !== engineKey)
    throw new UsageError('PEER-DESC', 'the memory is not of the connected engine');
  if (desc.loc !== MemoryLocationType.CPU)
    throw new UsageError('PEER-DESC', 'the memory is not of a CPU, and no other is carried');
  if (desc.size > BigInt(Number.MAX_SAFE_INTEGER) || desc.data + desc.size > 2n ** 64n - 1n)
    throw new UsageError('PEER-DESC', 'the memory is longer than there can be');
  return desc;
}

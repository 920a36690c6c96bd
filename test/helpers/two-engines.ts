import { createHash } from 'node:crypto';
import type { Completion } from '../../src/io/fabric.ts';
import {
  type NativeEngine,
  type NativePeer,
  type NativeRegion,
  openNativeEngine,
  type PeerRegion,
} from '../../src/node/native-engine.ts';
import { OtherProcess } from './other-process.ts';

/** The tests' own limit: what has a bound is waited for, and nothing is timed. */
export const LONG_MILLIS = 240_000;

export const later = (millis: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, millis));
export const digestOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** An engine of this process and one of another: descriptors pass over a socket, bytes over the provider. */
export class TwoEngines {
  readonly provider: 'shm' | 'tcp';
  /** Of all processes that ever were part of it. */
  readonly pids = [process.pid];
  other!: OtherProcess;
  engine!: NativeEngine;
  memory!: Uint8Array<ArrayBuffer>;

  constructor(provider: 'shm' | 'tcp') {
    this.provider = provider;
  }

  async startOther(): Promise<void> {
    this.other = await OtherProcess.start();
    this.pids.push(this.other.pid);
  }

  async stop(): Promise<void> {
    await this.engine?.close();
    await this.other.ended('SIGKILL');
  }

  /** Opens both, on `bytes` of memory each; the descriptor of theirs. */
  async open(bytes: number, patienceMillis = 30_000): Promise<Uint8Array> {
    this.memory = new Uint8Array(bytes);
    const { provider, memory } = this;
    const opened = await openNativeEngine({ provider, memory, runsMax: 256, patienceMillis });
    if (opened.engine === null) throw new TypeError(opened.reason);
    this.engine = opened.engine;
    return this.openOther(bytes, patienceMillis);
  }

  async openOther(bytes: number, patienceMillis = 30_000): Promise<Uint8Array> {
    const given = { provider: this.provider, bytes, patienceMillis };
    return (await this.other.ask<{ engine: Uint8Array }>('open', given)).engine;
  }

  async theirMemory(start: number, end: number, name = 'all'): Promise<Uint8Array> {
    return (await this.other.ask<{ memory: Uint8Array }>('register', { name, start, end })).memory;
  }

  async theirDigest(start: number, end: number): Promise<string> {
    return (await this.other.ask<{ digest: string }>('digest', { start, end })).digest;
  }

  /** The whole of both memories, ours to be posted from and theirs to be posted to. */
  async pair(
    bytes: number,
    patienceMillis?: number,
  ): Promise<{ peer: NativePeer; local: NativeRegion; remote: PeerRegion }> {
    const theirs = await this.open(bytes, patienceMillis);
    const peer = await this.engine.connect(theirs);
    const remote = peer.importMemory(await this.theirMemory(0, bytes));
    return { peer, local: this.engine.registerMemory(0, bytes), remote };
  }

  /** The child gets at a region of ours: its name for it is `ours`. */
  async openOurs(region: NativeRegion): Promise<void> {
    await this.other.ask('connect', { engine: this.engine.describe() });
    await this.other.ask('import', { name: 'ours', memory: region.descriptor });
  }

  /** The same with 8 MiB, and the child keeps posting 4 MiB of it. */
  async beBusy(operation: 'read' | 'write', ours: NativeRegion): Promise<void> {
    await this.openOurs(ours);
    const runs = [0, 0, 4 * 1024 * 1024];
    await this.other.ask('busy', { local: 'all', remote: 'ours', operation, runs });
  }

  /** The next `count` ends, delivered by the thread-safe function. */
  ends(count: number): Promise<Completion[]> {
    return new Promise((resolve) => {
      const all: Completion[] = [];
      this.engine.onCompletions((ended) => {
        all.push(...ended);
        if (all.length < count) return;
        this.engine.onCompletions(null);
        resolve(all);
      });
    });
  }

  async end(): Promise<Completion> {
    const [one, more] = await this.ends(1);
    if (one === undefined || more !== undefined) throw new TypeError('one end was expected');
    return one;
  }
}

import { MemoryLocationType, StatusCode } from './codes.ts';
import { encodeMessage } from './control-frames.ts';
import { type EngineDesc, HANDLE_BYTES, type MemoryDesc } from './descriptors.ts';
import { codeOf, createEngine, type EngineOptions, registerMemory } from './engine/engine.ts';
import type { GpuCopy, Host, Machine } from './engine/host.ts';
import { answered, atTime, complete, serve, timerFired, unanswered } from './engine/inputs.ts';
import type { IOEngine } from './engine/state.ts';
import { beginWait, stepWait } from './engine/wait.ts';
import { simulateMachine } from './machine-sim.ts';
import { INSTANT, type NicTimes } from './profiles.ts';
import { type StatusList, type TransferStatus, waitAllAtDeadline, waitAllPoll } from './transfer-status.ts';
import { landNext } from './verbs-land.ts';
import { createVerbs, type ProcessCompletion, type SimRegion, type VerbsSim, verbsOf } from './verbs-sim.ts';

/**
 * Engines side by side over software verbs: control frames are answered at once, and whatever was posted lands when
 * somebody waits or advances. Time is virtual and starts at 0; the same calls give the same bytes and times again.
 */
export interface Loopback {
  /** The verbs; `nowNanos` is the time, and faults are put in here. */
  readonly sim: VerbsSim;
  readonly engines: IOEngine[];
  readonly machine: Machine;
  /** Lines that engines log, and how they ended where a quirk ends the process. */
  readonly log: string[];
  readonly buffers: Map<bigint, Uint8Array>;
  readonly addresses: Map<Uint8Array, bigint>;
  readonly timers: Timer[];
  readonly copies: { readonly copy: GpuCopy; done: boolean }[];
  /**
   * The queue pair, by its number, whose completion queue is polled first, once all that can has landed; null tells each
   * entry as it lands. When a transfer fails on two queue pairs, its message is that of the first one polled.
   */
  pollFrom: number | null;
  nextPort: number;
  nextAddress: bigint;
}

interface Timer {
  readonly engine: IOEngine;
  readonly timer: number;
  readonly atMicros: number;
}

export interface LoopbackOptions {
  /** Prices of the NICs; without them everything lands in no time. */
  readonly times?: NicTimes;
  /** Of each engine, all alike. */
  readonly nics?: number;
  readonly gpus?: number;
  /** Moves what lands; without it the bytes are copied from buffer to buffer. */
  readonly move?: (sim: VerbsSim) => boolean;
}

const FIRST_PORT = 20_000;
const PAGE_BYTES = 4096n;
const NANOS_IN_MICRO = 1000;
const NANOS_IN_MILLI = 1_000_000;

/** An empty loopback; its engines all have the same machine. */
export function createLoopback(options: LoopbackOptions = {}): Loopback {
  const { times = INSTANT, nics = 1, gpus = 1 } = options;
  const buffers = new Map<bigint, Uint8Array>();
  const nicNames = Array.from({ length: nics }, (_, nic) => `nic${nic}`);
  const move = (source: SimRegion, target: SimRegion, runs: Float64Array, count: number): boolean => {
    if (options.move !== undefined) return options.move(sim);
    moveRuns(buffers.get(source.address)!, buffers.get(target.address)!, runs, count);
    return true;
  };
  const sim = createVerbs(times, move);
  return {
    sim,
    engines: [],
    machine: simulateMachine({ name: 'loopback', nics: nicNames, gpus, peerAccess: true }),
    log: [],
    buffers,
    addresses: new Map(),
    timers: [],
    copies: [],
    pollFrom: null,
    nextPort: FIRST_PORT,
    nextAddress: PAGE_BYTES,
  };
}

function moveRuns(from: Uint8Array, to: Uint8Array, runs: ArrayLike<number>, count: number): void {
  for (let at = 0; at < count * 3; at += 3) {
    to.set(from.subarray(runs[at], runs[at] + runs[at + 2]), runs[at + 1]);
  }
}

export type LoopbackEngineOptions = Omit<Partial<EngineOptions>, 'key' | 'hostPort'>;

/** IOEngine's constructor: an engine on the loopback, without backends (A4). */
export function addEngine(loopback: Loopback, key: string, options: LoopbackEngineOptions = {}): IOEngine {
  const { machine, engines } = loopback;
  const hostPort = hostOf(loopback, engines.length);
  const engine = createEngine({ host: '127.0.0.1', machine, ...options, key, hostPort });
  engines.push(engine);
  return engine;
}

/**
 * RegisterMemory of a buffer, which engines then read and write in place. The same buffer has the same address again.
 * `deviceId` is the index of a GPU; without it the buffer is host memory.
 */
export function addMemory(
  loopback: Loopback,
  engine: IOEngine,
  buffer: Uint8Array,
  deviceId?: number,
): MemoryDesc {
  const address = addressOf(loopback, buffer);
  const place = { address, bytes: BigInt(buffer.length) };
  if (deviceId === undefined) return registerMemory(engine, { ...place, loc: MemoryLocationType.CPU });
  const ipcHandle = new Uint8Array(HANDLE_BYTES).fill(0xff);
  return registerMemory(engine, { ...place, loc: MemoryLocationType.GPU, deviceId, ipcHandle });
}

function addressOf(loopback: Loopback, buffer: Uint8Array): bigint {
  const known = loopback.addresses.get(buffer);
  if (known !== undefined) return known;
  const address = loopback.nextAddress;
  loopback.nextAddress += (BigInt(buffer.length) / PAGE_BYTES + 2n) * PAGE_BYTES;
  loopback.addresses.set(buffer, address);
  loopback.buffers.set(address, buffer);
  return address;
}

function hostOf(loopback: Loopback, index: number): Host {
  const { sim, engines, timers, copies, log } = loopback;
  const self = (): IOEngine => engines[index];
  return {
    ...verbsOf(sim, String(index), (nic) => `${index}/${nic}`),
    listen: (_, port) => bindPort(loopback, port),
    request: (exchange, peer, message) => ask(loopback, self(), exchange, peer, encodeMessage(message)),
    disarm: (timer) => forgetTimer(loopback, self(), timer),
    arm: (timer, atMicros) => {
      timers.push({ engine: self(), timer, atMicros });
    },
    startCopy: (copy) => copies.push({ copy, done: false }) - 1,
    copyDone: (event) => copies[event].done,
    log: (level, text) => {
      log.push(`${self().desc.key} ${level}: ${text}`);
    },
    processEnds: (how, text) => {
      log.push(`${self().desc.key} ends by ${how}: ${text}`);
    },
  };
}

function bindPort(loopback: Loopback, wanted: number): number | null {
  const isTaken = (port: number): boolean =>
    loopback.engines.some(({ rdma, desc }) => rdma !== null && desc.port === port);
  if (wanted !== 0) return isTaken(wanted) ? null : wanted;
  while (isTaken(loopback.nextPort)) loopback.nextPort += 1;
  loopback.nextPort += 1;
  return loopback.nextPort - 1;
}

function ask(
  loopback: Loopback,
  asker: IOEngine,
  exchange: number,
  peer: EngineDesc,
  frame: Uint8Array,
): void {
  const listener = loopback.engines.find(({ rdma, desc }) => rdma !== null && desc.port === peer.port);
  const reply = listener === undefined ? null : serve(listener, frame);
  if (reply !== null) answered(asker, exchange, reply);
  else unanswered(asker, exchange, `connect(${peer.host}:${peer.port}): Connection refused`);
}

/**
 * One step: a completion is told, or work lands, or a copy ends, or the next timer rings, in this order. So a timer rings
 * when nothing is under way, and never later than `untilMillis` of virtual time. False when nothing is left to happen.
 */
export function advance(loopback: Loopback, untilMillis = Number.POSITIVE_INFINITY): boolean {
  const { sim, copies, engines } = loopback;
  tellTime(loopback);
  if (loopback.pollFrom !== null && landNext(sim)) return true;
  const due = takeCompletion(loopback);
  if (due !== undefined) {
    complete(engines[Number(due.processId)], due.completion);
    return true;
  }
  if (landNext(sim)) return true;
  const next = copies.find(({ done }) => !done);
  if (next === undefined) return ringNext(loopback, untilMillis);
  next.done = true;
  endCopy(loopback, next.copy);
  return true;
}

/** The next entry to tell: the oldest of all, or of the first completion queue in the round that has one. */
function takeCompletion({ sim, pollFrom }: Loopback): ProcessCompletion | undefined {
  const { completions, nextQpn } = sim;
  if (pollFrom === null || completions.length === 0) return completions.shift();
  const turnOf = ({ completion }: ProcessCompletion): number =>
    (completion.qpn + nextQpn - (pollFrom % nextQpn)) % nextQpn;
  let first = 0;
  for (let at = 1; at < completions.length; at += 1)
    if (turnOf(completions[at]) < turnOf(completions[first])) first = at;
  return completions.splice(first, 1)[0];
}

function endCopy({ buffers }: Loopback, { operation, local, remote, runs }: GpuCopy): void {
  const [near, far] = [buffers.get(local.data)!, buffers.get(remote.data)!];
  if (operation === 'write') moveRuns(near, far, runs, runs.length / 3);
  else moveRuns(far, near, swapped(runs), runs.length / 3);
}

/** Triples with the far side's offset first. */
function swapped(runs: readonly number[]): number[] {
  return runs.map((_, at) => runs[at % 3 === 2 ? at : at + 1 - 2 * (at % 3)]);
}

function forgetTimer({ timers }: Loopback, engine: IOEngine, timer: number): void {
  const at = timers.findIndex((other) => other.engine === engine && other.timer === timer);
  if (at >= 0) timers.splice(at, 1);
}

function ringNext(loopback: Loopback, untilMillis: number): boolean {
  const { sim, timers } = loopback;
  const next = timers.reduce<Timer | undefined>(
    (first, timer) => (first === undefined || timer.atMicros < first.atMicros ? timer : first),
    undefined,
  );
  if (next === undefined || next.atMicros * NANOS_IN_MICRO > untilMillis * NANOS_IN_MILLI) return false;
  timers.splice(timers.indexOf(next), 1);
  sim.nowNanos = Math.max(sim.nowNanos, next.atMicros * NANOS_IN_MICRO);
  timerFired(next.engine, next.timer, nowMicros(loopback));
  return true;
}

/** Posting takes time as well, so engines are told before anything happens to them. */
function tellTime(loopback: Loopback): void {
  for (const engine of loopback.engines) atTime(engine, nowMicros(loopback));
}

function nowMicros({ sim }: Loopback): number {
  return Math.floor(sim.nowNanos / NANOS_IN_MICRO);
}

function nowMillis({ sim }: Loopback): number {
  return Math.floor(sim.nowNanos / NANOS_IN_MILLI);
}

/**
 * WaitFor (A3): advances until the status has ended or `millis` of virtual time are over; a negative `millis` sets no
 * limit. @returns the code, which is IN_PROGRESS after a time-out, and where upstream would wait for ever.
 */
export function waitFor(
  loopback: Loopback,
  engine: IOEngine,
  status: TransferStatus,
  millis = -1,
): StatusCode {
  const progress = (): void => void codeOf(engine, status);
  const isCopy = [engine.xgmi, engine.fabric].some((backend) => backend?.events.has(status));
  const untilPolled = (): void => {
    while (codeOf(engine, status) === StatusCode.IN_PROGRESS && advance(loopback));
  };
  const hooks = isCopy ? { progress, wait: untilPolled } : { progress };
  const wait = beginWait(status, nowMillis(loopback), millis, hooks);
  if (typeof wait === 'number') return wait;
  for (;;) {
    if (!advance(loopback, wait.deadlineMillis ?? undefined)) {
      if (wait.deadlineMillis === null) return status.code;
      loopback.sim.nowNanos = Math.max(loopback.sim.nowNanos, wait.deadlineMillis * NANOS_IN_MILLI);
      tellTime(loopback);
    }
    const code = stepWait(wait, nowMillis(loopback), status.code !== StatusCode.IN_PROGRESS);
    if (code !== null) return code;
  }
}

/**
 * WaitAll (A3): 0 polls each status once, a negative `millis` waits for every one, a positive one is a deadline that all
 * share. @returns SUCCESS, or the first code in list order that is something else, INIT included.
 */
export function waitAll(loopback: Loopback, engine: IOEngine, statuses: StatusList, millis = -1): StatusCode {
  const some = statuses.filter((status) => status !== null);
  if (millis === 0) {
    for (const status of some) codeOf(engine, status);
    return waitAllPoll(some);
  }
  const deadlineMillis = nowMillis(loopback) + millis;
  for (const status of some) {
    const left = millis < 0 ? -1 : Math.max(deadlineMillis - nowMillis(loopback), 0);
    const code = waitFor(loopback, engine, status, left);
    if (code === StatusCode.IN_PROGRESS && millis > 0) break;
  }
  return waitAllAtDeadline(some);
}

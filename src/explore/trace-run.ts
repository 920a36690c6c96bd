import { believe, UsageError } from '../base/failure.ts';
import { finish, mix } from '../base/mix.ts';
import { layTopology, type Mode } from '../base/topology.ts';
import { NICS, type NicTimes } from '../io/profiles.ts';
import type { Grain } from '../sim/cluster.ts';
import { PLAIN_PROFILE, type RequestSetup, type Setup } from '../sim/draws.ts';
import type { LoadedKernels } from '../sim/load-kernels.ts';
import { createWorldMemory, type MemorySizes, take, type WorldMemory } from '../sim/memory.ts';
import type { ReferencedPrompt } from '../sim/prompts.ts';
import { HASH_BLOCK_TOKENS, type TracedRequest } from '../sim/request-trace.ts';
import type { RunObserver, RunResult } from '../sim/run-spec.ts';
import { replayTape } from '../sim/tape.ts';
import { createWasmFabric } from '../sim/wasm-fabric.ts';
import { runWorld } from '../sim/world.ts';
import type { Note } from '../wire/machine.ts';
import type { Prompt } from '../wire/messages.ts';
import { SHIPPED } from '../zoo/shipped.ts';

/**
 * A request trace through a simulated cluster, in time order and at block grain: one word of memory stands for one block
 * of one layer, a batch of work requests is one event priced by the NIC profile, and bytes are counted.
 */

/** What a model costs. The default is Llama 3 8B in bf16 on one GPU of the MI300 class; times are rough and say so. */
export interface ModelProfile {
  readonly name: string;
  readonly layers: number;
  /** KV bytes of one token in one layer, over all heads. */
  readonly kvBytesPerTokenLayer: number;
  readonly prefillMicrosPerToken: number;
  readonly stepBaseMicros: number;
}

export const LLAMA_3_8B: ModelProfile = {
  name: 'llama-3-8b',
  layers: 32,
  kvBytesPerTokenLayer: 2 * 8 * 128 * 2,
  prefillMicrosPerToken: 25,
  stepBaseMicros: 8_000,
};

export interface TraceOptions {
  readonly mode: Mode;
  readonly prefillInstances: number;
  readonly decodeInstances: number;
  readonly blockTokens: number;
  readonly blocksPerEngine: number;
  readonly batchTokensMax: number;
  readonly batchRequestsMax: number;
  readonly model: ModelProfile;
}

export const TRACE_DEFAULTS: TraceOptions = {
  mode: 'write',
  prefillInstances: 2,
  decodeInstances: 2,
  blockTokens: 16,
  blocksPerEngine: 65_536,
  batchTokensMax: 8_192,
  batchRequestsMax: 256,
  model: LLAMA_3_8B,
};

export interface TraceSummary {
  readonly requests: number;
  readonly completed: number;
  readonly failed: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly prefixHitTokens: number;
  readonly kvBytes: number;
  readonly timeToFirstTokenMs: { readonly p50: number; readonly p99: number };
  readonly endToEndMs: { readonly p50: number; readonly p99: number };
  /** Requests in the cluster, sampled at each arrival. */
  readonly queueDepth: { readonly mean: number; readonly max: number };
  readonly blocksLeft: number;
  readonly simulatedSeconds: number;
  readonly steps: number;
  readonly digest: string;
}

/** Bytes of memory that stand for a block of one layer. */
const CELL_BYTES = 4;
const SIZES: MemorySizes = { tableWordsMax: 1 << 20, runsMax: 16_384 };
const SEND_QUEUE_DEPTH = 8_192;

/** What a WebAssembly memory can have. */
const PAGES_MAX = 65_535;

/** Memory that a trace needs, in pages of 64 KiB. @throws UsageError TRACE-SIZE */
export function tracePages(trace: readonly TracedRequest[], options: TraceOptions): number {
  const engines = options.prefillInstances + options.decodeInstances;
  const caches = engines * (options.blocksPerEngine * CELL_BYTES * options.model.layers + 65_536);
  const lineage = trace.reduce(
    (sum, request) =>
      sum + 4 * Math.ceil((request.inputTokens + request.outputTokens) / options.blockTokens) + 64,
    0,
  );
  const scratch = SIZES.tableWordsMax * 4 + SIZES.runsMax * 12 + 4096;
  const pages = Math.ceil((caches + lineage + scratch) / 65_536) + 1;
  if (pages > PAGES_MAX)
    throw new UsageError(
      'TRACE-SIZE',
      `the caches and the trace need ${pages} pages of 64 KiB, a run has at most ${PAGES_MAX}: use fewer blocks or instances, or a shorter trace`,
    );
  return pages;
}

export function runTrace(
  loaded: LoadedKernels,
  trace: readonly TracedRequest[],
  options: TraceOptions,
  onProgress: (requestsEnded: number) => void = () => {},
): { summary: TraceSummary; result: RunResult } {
  const memory = createWorldMemory(loaded, SIZES);
  const setup = layTraceSetup(trace, options);
  const meter = createMeter(setup.requests, onProgress);
  const { blockTokens, blocksPerEngine: blocks, batchTokensMax, batchRequestsMax, model } = options;
  const nic: NicTimes = {
    ...NICS.plain,
    bytesScale: (model.kvBytesPerTokenLayer * blockTokens) / CELL_BYTES,
  };
  const result = runWorld({
    setup,
    layPrompts: () => trace.map((request, index) => layTracedPrompt(request, index, blockTokens, memory)),
    limits: { blockTokens, blocks, batchTokensMax, batchRequestsMax },
    grain: traceGrain(options),
    network: { localMicros: 20, httpMicros: 500, peerMicros: 100 },
    nic,
    fidelity: 'sound',
    fabric: createWasmFabric(memory),
    ...SHIPPED.parts([]),
    tape: replayTape([]),
    replaying: false,
    profile: PLAIN_PROFILE,
    nicFaults: [],
    strayKinds: 0,
    memory,
    record: false,
    stepsMax: Number.MAX_SAFE_INTEGER,
    microsMax: Number.MAX_SAFE_INTEGER,
    observer: meter,
  });
  return { result, summary: summarise(trace, meter, result, nic) };
}

function traceGrain(options: TraceOptions): Grain {
  const { model, blockTokens } = options;
  return {
    slotTokens: blockTokens,
    layersPerTurn: model.layers,
    readAlways: false,
    turnMicros: (tokens) => model.stepBaseMicros + tokens * model.prefillMicrosPerToken,
    scheduleMicros: 50,
    lendsLists: true,
  };
}

function layTraceSetup(trace: readonly TracedRequest[], options: TraceOptions): Setup {
  const { mode, prefillInstances, decodeInstances, model } = options;
  const requests = trace.map(
    (request, index): RequestSetup => ({
      request: index,
      promptTokens: request.inputTokens,
      outputTokens: request.outputTokens,
      arriveMicros: Math.round(request.timestampMillis * 1000),
      ordinary: 'no',
      family: 0,
      sharedTokens: 0,
      abortMicros: 0,
    }),
  );
  return {
    topology: layTopology({
      mode,
      prefillInstances,
      decodeInstances,
      prefillDp: 1,
      decodeDp: 1,
      prefillTp: 1,
      decodeTp: 1,
    }),
    mode,
    layers: model.layers,
    cellBytes: new Array<number>(model.layers).fill(CELL_BYTES),
    heads: 1,
    prefillOrder: 'BN',
    decodeOrder: 'BN',
    prefillLookAhead: 0,
    decodeLookAhead: 0,
    queuePairs: 1,
    sendQueueDepth: SEND_QUEUE_DEPTH,
    spreads: false,
    notifies: false,
    requests,
  };
}

/** One lineage word for each block. Blocks of equal leading hash ids are equal; what is generated is the request's own. */
function layTracedPrompt(
  request: TracedRequest,
  index: number,
  blockTokens: number,
  memory: WorldMemory,
): ReferencedPrompt {
  const { inputTokens, outputTokens, hashIds } = request;
  const slots = Math.ceil((inputTokens + outputTokens) / blockTokens);
  const lineageAddress = take(memory, slots * 4);
  const fullBlocks = Math.floor(inputTokens / blockTokens);
  const blockKeys: number[] = [];
  let lineage = 1;
  let second = 2;
  for (let slot = 0; slot < slots; slot++) {
    const hashId = hashIds[Math.floor((slot * blockTokens) / HASH_BLOCK_TOKENS)];
    const content =
      hashId === undefined
        ? mix(mix(0x6f7574, index), slot)
        : mix(mix(hashId % 0x1_0000_0000, Math.floor(hashId / 0x1_0000_0000)), slot);
    lineage = mix(lineage, content);
    second = mix(second, finish(content));
    memory.words[(lineageAddress >>> 2) + slot] = lineage;
    // 53 bits: among a few million blocks two different prefixes do not meet.
    if (slot < fullBlocks) blockKeys.push(lineage * 0x200000 + (second & 0x1fffff));
  }
  const prompt: Prompt = {
    request: index,
    promptTokens: inputTokens,
    maxTokens: outputTokens,
    lineageAddress,
    blockKeys,
  };
  return { prompt, reference: [] };
}

interface Meter extends RunObserver {
  readonly firstTokenMicros: number[];
  readonly endMicros: number[];
  readonly depths: number[];
  completed: number;
  failed: number;
  prefixHitTokens: number;
  bytes: number;
}

function createMeter(requests: readonly RequestSetup[], onProgress: (requestsEnded: number) => void): Meter {
  let inside = 0;
  const meter: Meter = {
    firstTokenMicros: [],
    endMicros: [],
    depths: [],
    completed: 0,
    failed: 0,
    prefixHitTokens: 0,
    bytes: 0,
    moved(bytes) {
      meter.bytes += bytes;
    },
    note(atMicros, note: Note) {
      if (note.kind === 'assign') meter.depths.push(++inside);
      else if (note.kind === 'firstToken')
        meter.firstTokenMicros.push(atMicros - requests[note.request]!.arriveMicros);
      else if (note.kind === 'prefixHit' && note.leg !== 'decode') meter.prefixHitTokens += note.tokens;
      else if (note.kind === 'outcome') {
        inside--;
        if (note.outcome === 'completed') meter.completed++;
        else meter.failed++;
        meter.endMicros.push(atMicros - requests[note.request]!.arriveMicros);
        onProgress(meter.completed + meter.failed);
      }
    },
  };
  return meter;
}

function summarise(
  trace: readonly TracedRequest[],
  meter: Meter,
  result: RunResult,
  nic: NicTimes,
): TraceSummary {
  believe(meter.completed + meter.failed <= trace.length, 'INV-TRACE-1', 'more ends than requests');
  return {
    requests: trace.length,
    completed: meter.completed,
    failed: meter.failed,
    inputTokens: trace.reduce((sum, request) => sum + request.inputTokens, 0),
    outputTokens: trace.reduce((sum, request) => sum + request.outputTokens, 0),
    prefixHitTokens: meter.prefixHitTokens,
    kvBytes: meter.bytes * nic.bytesScale,
    timeToFirstTokenMs: percentiles(meter.firstTokenMicros),
    endToEndMs: percentiles(meter.endMicros),
    queueDepth: {
      mean: mean(meter.depths),
      max: meter.depths.reduce((most, depth) => Math.max(most, depth), 0),
    },
    blocksLeft: result.blocksLeft,
    simulatedSeconds: Math.round(result.atMicros / 1e6),
    steps: result.steps,
    digest: result.digest,
  };
}

/** Nearest-rank percentiles, in milliseconds. */
function percentiles(micros: readonly number[]): { p50: number; p99: number } {
  const sorted = Float64Array.from(micros).sort();
  const at = (percent: number): number =>
    sorted.length === 0 ? 0 : sorted[Math.max(0, Math.ceil((sorted.length * percent) / 100) - 1)]! / 1000;
  return { p50: at(50), p99: at(99) };
}

function mean(values: readonly number[]): number {
  return values.length === 0
    ? 0
    : Math.round((100 * values.reduce((sum, value) => sum + value, 0)) / values.length) / 100;
}

// A small connector of somebody's own: D pulls the KV of a prompt from P and tells P when it has it. It is written for a
// calm cluster (see `scenario` below), and it has one mistake, which `check --connector` with the path of this file finds.
// The hooks are vLLM's: dist/connector/plug.d.ts of the package says what each is given and must return.

/** Work requests for the tokens below `tokens` in layer `view`, from P's blocks to D's; both have the same layout here. */
function runsOf(view, tokens, from, to) {
  const runs = [];
  for (let token = 0; token < tokens; token++)
    for (const part of view.parts)
      for (let head = 0; head < view.headCount; head++) {
        const index = Math.floor(token / view.blockUnits);
        const inBlock = part.base + (token % view.blockUnits) * part.unitStride + head * part.headStride;
        runs.push(inBlock + to[index] * part.blockStride, inBlock + from[index] * part.blockStride, part.bytes);
      }
  return runs;
}

class Scheduler {
  #loads = [];
  #asked = new Set();

  constructor(env) {
    this.env = env;
  }

  getNumNewMatchedTokens({ leg, request, params }) {
    const isRemote = leg === 'decode' && !this.#asked.has(request);
    return { tokens: isRemote ? params.remoteTokens : 0, async: isRemote };
  }

  updateStateAfterAlloc({ leg, request, transfer, params, blocks }) {
    if (leg !== 'decode' || this.#asked.has(request)) return;
    this.#asked.add(request);
    this.#loads.push({ request, transfer, params, blocks: [...blocks] });
  }

  buildConnectorMeta() {
    return this.#loads.splice(0);
  }

  requestFinished({ leg, transfer, blocks, prompt }) {
    if (leg !== 'prefill') return { keepBlocks: false, params: null };
    const remote = { remoteEngine: this.env.spec.engine, remoteBlocks: [...blocks] };
    return { keepBlocks: true, params: { transfer, ...remote, remoteTokens: prompt.promptTokens } };
  }

  hasMeta = () => this.#loads.length > 0;
  requestAborted = () => false;
  requestForgotten = (request) => this.#asked.delete(request);
  census = () => this.#asked.size + this.#loads.length;
}

class Worker {
  #env;
  #loads = new Map();
  #batches = new Map();
  #ended = [];

  constructor(env) {
    this.#env = env;
  }

  /** Asks P who it is; the scheduler waits for the load outside the batch. */
  startLoadKv(loads, _at, emit) {
    for (const load of loads) {
      this.#loads.set(load.transfer, load);
      const [peer] = this.#env.topology.engines[load.params.remoteEngine].ranks;
      emit({ kind: 'send', to: peer, message: { kind: 'peer', name: 'who', transfer: load.transfer } });
    }
    return 'done';
  }

  #hear(from, { name, transfer, request, engineDesc, memoryDesc }, emit) {
    const me = { kind: 'peer', name: 'me', transfer, ...this.#env.describe(from) };
    if (name === 'who') return emit({ kind: 'send', to: from, message: me });
    if (name === 'release') return this.#ended.push(['sent', request]);
    emit({ kind: 'connect', peer: from, engineDesc, memoryDesc });
    this.#read(from, this.#loads.get(transfer), emit);
    this.#loads.delete(transfer);
  }

  /** All layers at once. */
  #read(peer, { request, transfer, params, blocks }, emit) {
    const { views } = this.#env;
    const load = { request, peer, left: views.length };
    for (const [layer, view] of views.entries()) {
      const tag = transfer * 64 + layer;
      const about = { tag, peer, request, transfer, layer, part: 0, queuePair: 0, operation: 'read' };
      const runs = runsOf(view, params.remoteTokens, params.remoteBlocks, blocks);
      this.#batches.set(tag, load);
      emit({ kind: 'post', batch: { ...about, runs, localBlocks: blocks, remoteBlocks: params.remoteBlocks } });
    }
  }

  step(_at, input, emit) {
    if (input.kind === 'message') this.#hear(input.from, input.message, emit);
    if (input.kind !== 'completion') return;
    const load = this.#batches.get(input.tag);
    this.#batches.delete(input.tag);
    // The mistake: P is told that it may have its blocks back when the first layer is here, not when the last one is.
    if (load.left-- === this.#env.views.length)
      emit({ kind: 'send', to: load.peer, message: { kind: 'peer', name: 'release', request: load.request } });
    if (load.left === 0) this.#ended.push(['received', load.request]);
  }

  getFinished() {
    if (this.#ended.length === 0) return null;
    const ended = this.#ended.splice(0);
    const of = (wanted) => ended.filter(([end]) => end === wanted).map(([, request]) => request);
    return { sent: of('sent'), received: of('received'), failed: [] };
  }

  waitForLayerLoad = () => 'done';
  saveKvLayer = this.waitForLayerLoad;
  waitForSave = this.waitForLayerLoad;
  census = () => this.#loads.size + this.#batches.size;
  waits = () => [];
}

const SHAPE = { prefillTp: [1], decodeTp: [1], layouts: 'equal', lookAhead: false, sharedPrefixes: false };
const NIC = { queuePairsMax: 1, sendQueueDepths: [4096], notifications: false };
const NOTHING = { drops: false, duplicates: false, reorders: false, corruption: false, strays: 'none', nic: [] };
const hazards = { ...NOTHING, longDelays: true, aborts: false, crashes: false };
/** What it is attacked with: these changes of the default mix. */
export const scenario = { mode: 'read', ...SHAPE, ...NIC, hazards };
const number = Number.isSafeInteger;
const bytes = (value) => value instanceof Uint8Array;
const messages = {
  who: { fields: { transfer: number } },
  me: { fields: { transfer: number, engineDesc: bytes, memoryDesc: bytes } },
  release: { fields: { request: number }, about: 'request', says: 'release of {request}' },
};

export default {
  name: 'pull',
  messages,
  createScheduler: (env) => new Scheduler(env),
  createWorker: (env) => new Worker(env),
};

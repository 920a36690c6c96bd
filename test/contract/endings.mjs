// Ways in which a process or a thread ends with a native fabric at work. Run by itself as
// `node --expose-gc endings.mjs <way> <provider>`; it prints one JSON document, and how it ends is what the test looks at.
// Plain JavaScript on the built code: a worker has no loader for anything else.
import { readdirSync, readFileSync } from 'node:fs';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { allocateNativeMemory, openNativeEngine, openNativeFabric } from 'moriarty/node';

const BYTES = 64 * 1024 * 1024;
const HALF = BYTES / 2;
const RUN = 1024 * 1024;
const BATCHES = 60;

/** MEMORY=bridge has the bridge allocate it. */
function bytesFor(provider) {
  if (process.env.MEMORY === 'bridge') return allocateNativeMemory(provider, BYTES);
  const pages = BYTES / 65_536;
  return new Uint8Array(new WebAssembly.Memory({ initial: pages, maximum: pages }).buffer);
}

function open(provider, memory) {
  const opened = openNativeFabric({ provider, memory, runsMax: 64 });
  if (opened.fabric === null) throw new TypeError(opened.reason);
  return opened.fabric;
}

/** Half of the memory on its way onto the other, again and again: seconds of work. */
function keepBusy(fabric) {
  const connection = fabric.connect(fabric.registerMemory(0, 0, HALF), fabric.registerMemory(1, HALF, BYTES));
  const runs = Array.from({ length: HALF / RUN }, (_, i) => [i * RUN, i * RUN, RUN]).flat();
  for (let id = 0; id < BATCHES; id++) fabric.post(connection, 'write', runs, id);
}

/** Waits for completions; the first of them says that the dispatcher is in the middle of it. */
function waitFor(fabric, count) {
  let ended = 0;
  while (ended < count) {
    ended += fabric.poll().length;
    if (ended < count) fabric.rest();
  }
  return ended;
}

function busy(provider) {
  const fabric = open(provider, bytesFor(provider));
  keepBusy(fabric);
  waitFor(fabric, 1);
  return fabric;
}

/** An engine whose completions are delivered, with `batches` on their way. */
async function deliver(provider, batches, ended) {
  const memory = bytesFor(provider);
  const opened = await openNativeEngine({ provider, memory, runsMax: 64 });
  if (opened.engine === null) throw new TypeError(opened.reason);
  const { engine } = opened;
  const [from, to] = [engine.registerMemory(0, HALF), engine.registerMemory(HALF, BYTES)];
  engine.onCompletions(ended);
  for (let id = 0; id < batches; id++) engine.post(from, to, 'write', [0, 0, HALF], id);
  return engine;
}

function threads() {
  return readdirSync('/proc/self/task').length;
}

const later = (millis) => new Promise((resolve) => setTimeout(resolve, millis));

/** A look at a weak reference keeps its object for the rest of the turn: so the turn comes first, then the collector. */
async function collected(weak) {
  for (let tries = 0; tries < 20; tries++) {
    await later(5);
    globalThis.gc();
    if (weak.deref() === undefined) return true;
  }
  return false;
}

function tell(value) {
  process.stdout.write(JSON.stringify(value));
}

const WAYS = {
  exit(provider) {
    busy(provider);
    tell({ busy: true });
    process.exit(7);
  },

  /** Nothing keeps the event loop alive: the engine must not. */
  'run off the end'(provider) {
    busy(provider);
    tell({ busy: true });
  },

  throw(provider) {
    busy(provider);
    tell({ busy: true });
    throw new RangeError('on purpose');
  },

  async 'close twice, then exit'(provider) {
    const fabric = busy(provider);
    await Promise.all([fabric.close(), fabric.close()]);
    await fabric.close();
    tell({ busy: true });
    process.exit(7);
  },

  'exit during close'(provider) {
    void busy(provider).close();
    tell({ busy: true });
    process.exit(7);
  },

  /** A provider may have handlers of its own: ours is called all the same, and the engine goes on. */
  async 'signal with a listener'(provider) {
    const heard = new Promise((resolve) => process.once('SIGINT', resolve));
    const waiting = setTimeout(() => {}, 10_000);
    const fabric = open(provider, bytesFor(provider));
    process.kill(process.pid, 'SIGINT');
    const signal = await heard;
    clearTimeout(waiting);
    keepBusy(fabric);
    const completions = waitFor(fabric, BATCHES);
    await fabric.close();
    tell({ signal, completions });
  },

  async signal(provider) {
    busy(provider);
    tell({ busy: true });
    process.kill(process.pid, 'SIGINT');
    await later(10_000);
  },

  'caught signals'(provider) {
    const caught = () => /^SigCgt:\s*(\w+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))[1];
    const before = caught();
    busy(provider);
    tell({ same: caught() === before });
  },

  kill(provider) {
    busy(provider);
    process.kill(process.pid, 'SIGKILL');
  },

  /** V8 makes an exception of it by way of SIGSEGV. */
  'out of bounds in WebAssembly'(provider) {
    busy(provider);
    // (memory 1) (func (export "f") (param i32) (result i32) local.get 0 i32.load)
    const parts = [
      '0061736d01000000',
      '010601 60017f017f',
      '03020100',
      '0503010001',
      '070501 01660000',
      '0a0901070020002802000b',
    ];
    const code = Buffer.from(parts.join('').replaceAll(' ', ''), 'hex');
    const { f } = new WebAssembly.Instance(new WebAssembly.Module(code)).exports;
    try {
      f(0x7fffffff);
    } catch (error) {
      tell({ caught: error.message });
    }
  },

  /** Endpoints of tcp take some 100 MiB: closed, they leave none of it in whichever thread's arena they were. */
  async 'closed, and its memory given back'(provider) {
    const before = process.memoryUsage.rss();
    for (let cycle = 0; cycle < 2; cycle++) await open(provider, new Uint8Array(65_536)).close();
    tell({ keeps: process.memoryUsage.rss() - before > 40 * 1024 * 1024 });
  },

  /** The buffer is held by the engine alone while bytes move in it, and by nobody once it is closed. */
  async 'memory dropped'(provider) {
    const start = () => {
      const memory = bytesFor(provider);
      const fabric = open(provider, memory);
      keepBusy(fabric);
      return { fabric, weak: new WeakRef(memory.buffer) };
    };
    const { fabric, weak } = start();
    const early = await collected(weak);
    const completions = waitFor(fabric, BATCHES);
    await fabric.close();
    tell({ early, completions, after: await collected(weak) });
  },

  async 'fabric dropped'(provider) {
    const before = threads();
    const weak = new WeakRef(busy(provider));
    const during = threads();
    const gone = await collected(weak);
    await later(100);
    // MoRI-IO starts threads of its own.
    tell(provider === 'mori' ? { gone } : { gone, more: during - before, left: threads() - before });
  },

  /** Nothing is in flight: whoever waits for completions does not keep the event loop alive. */
  async 'deliver nothing'(provider) {
    await deliver(provider, 0, () => {});
    tell({ idle: true });
  },

  /** And something is: nothing else keeps it alive. */
  async 'deliver all'(provider) {
    let delivered = 0;
    const engine = await deliver(provider, BATCHES, (ended) => {
      delivered += ended.length;
      if (delivered === BATCHES) tell({ delivered, inFlight: engine.inFlight });
    });
  },

  /** The function that the dispatcher calls goes with the worker's environment, while it is being called. */
  async 'deliver to a worker that is ended'(provider) {
    const worker = new Worker(new URL(import.meta.url), { workerData: { provider, delivers: true } });
    await new Promise((resolve) => worker.once('message', resolve));
    await worker.terminate();
    let delivered = 0;
    await deliver(provider, BATCHES, (ended) => {
      delivered += ended.length;
      if (delivered === BATCHES) tell({ delivered });
    });
  },

  /** A worker that is ended in the middle, another one that goes by itself, and our own engine besides. */
  async workers(provider) {
    const ours = open(provider, bytesFor(provider));
    keepBusy(ours);
    const script = new URL(import.meta.url);
    const terminated = new Worker(script, { workerData: { provider, stay: true } });
    await new Promise((resolve) => terminated.once('message', resolve));
    await terminated.terminate();
    const other = new Worker(script, { workerData: { provider, stay: false } });
    const left = await new Promise((resolve) => other.once('exit', resolve));
    const completions = waitFor(ours, BATCHES);
    await ours.close();
    tell({ left, completions });
  },
};

if (isMainThread) {
  await WAYS[process.argv[2]](process.argv[3]);
} else if (workerData.delivers) {
  await deliver(workerData.provider, 1000, () => parentPort.postMessage('busy'));
} else {
  busy(workerData.provider);
  parentPort.postMessage('busy');
  if (workerData.stay) setInterval(() => {}, 1000);
}

// The other process of two-processes.test.ts: an engine that does what it is told over a socket. Run by itself as
// `node engine-child.mjs <port>`. Plain JavaScript on the built code, as the parent that runs it has a loader and it has not.
import { createHash } from 'node:crypto';
import { connect } from 'node:net';
import { openNativeEngine } from 'moriarty/node';
import { fill, frames, send } from './engine-talk.mjs';

const socket = connect(Number(process.argv[2]), '127.0.0.1');
let memory;
let engine;
let peer;
const regions = new Map();
const targets = new Map();

/** Posts all and waits for their ends. */
function carry(batches) {
  return new Promise((resolve) => {
    const codes = {};
    let left = batches.length;
    engine.onCompletions((ended) => {
      for (const { id, code } of ended) codes[id] = code;
      left -= ended.length;
      if (left > 0) return;
      engine.onCompletions(null);
      resolve(codes);
    });
    for (const { local, remote, operation, runs, id } of batches)
      engine.post(regions.get(local), targets.get(remote), operation, runs, id);
  });
}

/** Once the connection is gone too: the provider may know of it first. */
async function tellLoss(lost) {
  while (peer.lost() === null) await new Promise((resolve) => setTimeout(resolve, 2));
  send(socket, { lost, reason: peer.lost() });
}

const ORDERS = {
  async open({ provider, bytes, patienceMillis }) {
    memory = new Uint8Array(bytes);
    const opened = await openNativeEngine({ provider, memory, runsMax: 256, patienceMillis });
    if (opened.engine === null) throw new TypeError(opened.reason);
    engine = opened.engine;
    return { engine: engine.describe() };
  },
  register({ name, start, end }) {
    regions.set(name, engine.registerMemory(start, end));
    return { memory: regions.get(name).descriptor };
  },
  async deregister({ name }) {
    await engine.deregisterMemory(regions.get(name));
    return {};
  },
  async connect({ engine: desc }) {
    peer = await engine.connect(desc);
    return {};
  },
  import({ name, memory: desc }) {
    targets.set(name, peer.importMemory(desc));
    return {};
  },
  fill({ start, end, seed }) {
    fill(memory.subarray(start, end), seed);
    return {};
  },
  digest({ start, end }) {
    return { digest: createHash('sha256').update(memory.subarray(start, end)).digest('hex') };
  },
  async carry({ batches }) {
    return { codes: await carry(batches) };
  },
  /** Keeps 64 batches in flight for ever, and says so once the first has ended. */
  busy({ local, remote, operation, runs }) {
    let id = 0;
    const post = () => engine.post(regions.get(local), targets.get(remote), operation, runs, id++);
    return new Promise((resolve) => {
      let lost = 0;
      engine.onCompletions((ended) => {
        for (const { code } of ended) lost += code === 0 ? 0 : 1;
        if (lost === 0) for (let i = 0; i < ended.length; i++) post();
        else if (engine.inFlight === 0) void tellLoss(lost);
        resolve({});
      });
      for (let i = 0; i < 64; i++) post();
    });
  },
  async close() {
    await engine.close();
    return {};
  },
  exit({ code }) {
    process.exit(code);
  },
};

for await (const { order, ...given } of frames(socket)) {
  try {
    send(socket, await ORDERS[order](given));
  } catch (error) {
    send(socket, { thrown: `${error.code ?? error.name} ${error.message}` });
  }
}
process.exit(0);

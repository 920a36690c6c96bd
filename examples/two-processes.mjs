// Two processes, and bytes that go from one to the other: `node examples/two-processes.mjs [shm|tcp]`.
// The second process is this file again; what passes between them by hand are two descriptors, as base64 lines.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout } from 'node:timers/promises';
import * as io from 'moriarty/mori';
import { openNativeEngine } from 'moriarty/node';

const BYTES = 4 * 1024 * 1024;
const [provider = 'shm', isTarget] = process.argv.slice(2);

async function open() {
  const memory = new Uint8Array(BYTES);
  const { engine, reason } = await openNativeEngine({ provider, memory, runsMax: 64 });
  if (engine === null) throw new TypeError(`native: not available, because ${reason}`);
  return { engine, memory };
}

/** D: says who it is and where its memory is, and waits for the end of its input, which comes too when the other one dies. */
async function target() {
  process.stdout.on('error', () => {}); // the other one is gone, and reads no more
  const { engine, memory } = await open();
  const region = engine.registerMemory(0, BYTES);
  for (const bytes of [engine.describe(), region.descriptor]) console.log(Buffer.from(bytes).toString('base64'));
  for await (const _ of process.stdin);
  await engine.deregisterMemory(region); // from here on nobody else can touch it
  console.log(`the target has ${memory.filter((byte) => byte === 7).length} bytes of 7`);
  await engine.close();
}

/** The second process: `next` is what it says next, `end` lets it end. It may die at any moment. */
function startTarget() {
  const other = spawn(process.execPath, [import.meta.filename ?? process.argv[1], provider, 'target'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = new Promise((resolve) => {
    other.once('error', ({ message }) => resolve(message));
    other.once('exit', (code, signal) => resolve(signal ?? `exit code ${code}`));
  });
  other.stdin.on('error', () => {}); // it has ended, which `next` tells
  const lines = createInterface({ input: other.stdout })[Symbol.asyncIterator]();
  const next = async (what) => {
    const { done, value } = await lines.next();
    if (done) throw new Error(`the target has not told ${what}`);
    return value;
  };
  const end = () => other.stdin.end();
  /** After a failure of ours: how it ended, if it has, or else it is ended now. */
  const fate = async () => {
    const how = await Promise.race([ended, setTimeout(500, null)]);
    other.kill();
    return how === null ? '' : `; the target ended (${how})`;
  };
  return { next, end, fate };
}

/** P: writes all of its memory into that of the other. */
async function initiator({ next, end }) {
  const described = async (what) => Buffer.from(await next(what), 'base64');
  const { engine, memory } = await open();
  const peer = await engine.connect(await described('who it is'));
  const remote = peer.importMemory(await described('where its memory is'));
  const local = engine.registerMemory(0, BYTES);
  memory.fill(7);
  const ended = new Promise((resolve) => engine.onCompletions(resolve));
  engine.post(local, remote, 'write', [0, 0, BYTES], 1);
  const [{ id, code, message }] = await ended;
  console.log(`batch ${id}: ${io.statusName(code)}, ${message}`);
  end();
  console.log(await next('what it has'));
  await engine.close();
}

const other = isTarget === undefined ? startTarget() : null;
try {
  await (other === null ? target() : initiator(other));
} catch (error) {
  console.error(`two-processes: ${error.message}${(await other?.fate()) ?? ''}`);
  process.exitCode = 1;
}

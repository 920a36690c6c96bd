// Two processes, and bytes that go from one to the other: `node examples/two-processes.mjs [shm|tcp]`.
// The second process is this file again; what passes between them by hand are two descriptors, as base64 lines.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { io, openNativeEngine } from 'moriarty';

const BYTES = 4 * 1024 * 1024;
const [provider = 'shm', isTarget] = process.argv.slice(2);

async function open() {
  const memory = new Uint8Array(BYTES);
  const { engine, reason } = await openNativeEngine({ provider, memory, runsMax: 64 });
  if (engine === null) throw new TypeError(`native: not available, because ${reason}`);
  return { engine, memory };
}

/** D: says who it is and where its memory is, and waits for the end of its input. */
async function target() {
  const { engine, memory } = await open();
  const region = engine.registerMemory(0, BYTES);
  for (const bytes of [engine.describe(), region.descriptor]) console.log(Buffer.from(bytes).toString('base64'));
  for await (const _ of process.stdin);
  await engine.deregisterMemory(region); // from here on nobody else can touch it
  console.log(`the target has ${memory.filter((byte) => byte === 7).length} bytes of 7`);
  await engine.close();
}

/** P: writes all of its memory into that of the other. */
async function initiator() {
  const other = spawn(process.execPath, [import.meta.filename ?? process.argv[1], provider, 'target'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: other.stdout })[Symbol.asyncIterator]();
  const next = async () => Buffer.from((await lines.next()).value, 'base64');
  const { engine, memory } = await open();
  const peer = await engine.connect(await next());
  const remote = peer.importMemory(await next());
  const local = engine.registerMemory(0, BYTES);
  memory.fill(7);
  const ended = new Promise((resolve) => engine.onCompletions(resolve));
  engine.post(local, remote, 'write', [0, 0, BYTES], 1);
  for (const { id, code, message } of await ended) console.log(`batch ${id}: ${io.statusName(code)}, ${message}`);
  other.stdin.end();
  console.log((await lines.next()).value);
  await engine.close();
}

await (isTarget === undefined ? initiator() : target());

import { UsageError } from '../../base/failure.ts';
import { least, pushAll } from '../../base/lists.ts';
import { decodeFrameHeader, FRAME_BODY_BYTES_MAX, FRAME_HEADER_BYTES } from '../control-frames.ts';
import { controlTimeoutMillis } from '../rdma-config.ts';
import { atTime, serve } from './inputs.ts';
import type { IOEngine } from './state.ts';

/**
 * The listening half of the control plane, for who puts an engine on real sockets (mori-io.md A13): bytes of connections
 * in, answers out. A connection carries one frame; with its answer it ends, and nothing more of it is to be told.
 */
export interface ControlServer {
  /** How long it waits for the rest of a frame; 0 for ever. */
  readonly timeoutMicros: number;
  /** Connections with part of a frame, in the order of their first byte. */
  readonly open: OpenConnection[];
}

interface OpenConnection {
  readonly connection: number;
  /** What has come, and behind it room for more. */
  buffer: Uint8Array;
  sizeBytes: number;
  /** Since when the server has waited for more. */
  sinceMicros: number;
}

/** Null: the connection is closed without an answer. */
export interface ControlAnswer {
  readonly connection: number;
  readonly frame: Uint8Array | null;
}

const MICROS_IN_MILLI = 1000;

/** A server for an engine, with the time limit of MORI_IO_CP_TIMEOUT_MS (A5). */
export function createControlServer({ environment }: IOEngine): ControlServer {
  return { timeoutMicros: controlTimeoutMillis(environment) * MICROS_IN_MILLI, open: [] };
}

/** Input: bytes of a connection; none means that its peer closed it. @returns the answers that this brings about */
export function receiveControl(
  engine: IOEngine,
  server: ControlServer,
  connection: number,
  bytes: Uint8Array,
  atMicros: number,
): ControlAnswer[] {
  atTime(engine, atMicros);
  const known = server.open.find((each) => each.connection === connection);
  if (bytes.length === 0) return close(engine, server, known);
  if (known === undefined)
    server.open.push({ connection, buffer: bytes, sizeBytes: bytes.length, sinceMicros: atMicros });
  else {
    append(known, bytes);
    known.sinceMicros = atMicros;
  }
  return readAll(engine, server);
}

/** No frame is longer, and what follows a frame is not read. */
const KEPT_BYTES_MAX = FRAME_HEADER_BYTES + FRAME_BODY_BYTES_MAX;

/** In room that doubles, so that a frame which comes byte by byte is not copied as often. */
function append(open: OpenConnection, bytes: Uint8Array): void {
  const taken = bytes.subarray(0, Math.max(0, KEPT_BYTES_MAX - open.sizeBytes));
  const sizeBytes = open.sizeBytes + taken.length;
  if (sizeBytes > open.buffer.length) {
    const larger = new Uint8Array(Math.max(sizeBytes, 2 * open.buffer.length));
    larger.set(open.buffer.subarray(0, open.sizeBytes));
    open.buffer = larger;
  }
  open.buffer.set(taken, open.sizeBytes);
  open.sizeBytes = sizeBytes;
}

function bytesOf({ buffer, sizeBytes }: OpenConnection): Uint8Array {
  return buffer.subarray(0, sizeBytes);
}

/** When `expireControl` is due next, in microseconds, or null. */
export function controlDeadline(engine: IOEngine, server: ControlServer): number | null {
  const watched = readOf(engine, server);
  if (watched.length === 0 || server.timeoutMicros === 0) return null;
  return least(watched.map(({ sinceMicros }) => sinceMicros)) + server.timeoutMicros;
}

/** Input: it is that time. Who has kept the server waiting too long is closed, and others may get their turn. */
export function expireControl(engine: IOEngine, server: ControlServer, atMicros: number): ControlAnswer[] {
  atTime(engine, atMicros);
  const answers: ControlAnswer[] = [];
  for (let due = controlDeadline(engine, server); due !== null && due <= atMicros; ) {
    const late = readOf(engine, server).filter((each) => each.sinceMicros + server.timeoutMicros <= atMicros);
    for (const each of late) pushAll(answers, close(engine, server, each));
    due = controlDeadline(engine, server);
  }
  return answers;
}

/** What the server reads from. Upstream has one thread, which a half-sent frame holds up (0.19). */
function readOf(engine: IOEngine, { open }: ControlServer): readonly OpenConnection[] {
  return engine.quirks.clientStallsControl ? open.slice(0, 1) : open;
}

function readAll(engine: IOEngine, server: ControlServer): ControlAnswer[] {
  const answers: ControlAnswer[] = [];
  for (let ready = nextReady(engine, server); ready !== null; ready = nextReady(engine, server)) {
    remove(engine, server, ready);
    answers.push({ connection: ready.connection, frame: serve(engine, bytesOf(ready)) });
  }
  return answers;
}

function nextReady(engine: IOEngine, server: ControlServer): OpenConnection | null {
  return readOf(engine, server).find((open) => isWhole(bytesOf(open))) ?? null;
}

/** A header that cannot be is whole as well: the engine refuses it. */
function isWhole(bytes: Uint8Array): boolean {
  if (bytes.length < FRAME_HEADER_BYTES) return false;
  try {
    return bytes.length >= FRAME_HEADER_BYTES + decodeFrameHeader(bytes).bodyBytes;
  } catch (error) {
    if (error instanceof UsageError) return true;
    throw error;
  }
}

function close(engine: IOEngine, server: ControlServer, open: OpenConnection | undefined): ControlAnswer[] {
  if (open === undefined) return [];
  engine.host.log('error', `control connection ${open.connection} ended inside a frame`);
  remove(engine, server, open);
  return [{ connection: open.connection, frame: null }, ...readAll(engine, server)];
}

/** The server turns to the next one, whose time begins now. */
function remove(engine: IOEngine, server: ControlServer, gone: OpenConnection): void {
  const wasFirst = server.open[0] === gone;
  server.open.splice(server.open.indexOf(gone), 1);
  const next = server.open[0];
  if (wasFirst && next !== undefined && engine.quirks.clientStallsControl)
    next.sinceMicros = engine.nowMicros;
}

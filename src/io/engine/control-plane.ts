import { UsageError } from '../../base/failure.ts';
import {
  type AskMemoryRegion,
  type ControlMessage,
  decodeMessage,
  emptyRdmaMemoryRegion,
  encodeMessage,
  FRAME_HEADER_BYTES,
  MessageType,
  type RegEndpoint,
} from '../control-frames.ts';
import { wake } from './calls.ts';
import { requestedNics, searchNics, takeNic, takesRail } from './nic-choice.ts';
import { regionOn } from './regions.ts';
import { failRepair, finishRepair } from './repair.ts';
import {
  endCreation,
  endpointAnswered,
  halfEndpoint,
  joinEndpoint,
  regEndpointOf,
  regionAnswered,
} from './sessions.ts';
import type { Exchange, IOEngine, RdmaBackend } from './state.ts';

const MESSAGE_NAMES: { readonly [type: number]: string } = {
  [MessageType.RegEndpoint]: 'RegEndpoint',
  [MessageType.AskMemoryRegion]: 'AskMemoryRegion',
};

/** Both ends of the control plane (mori-io.md A13): one message in, one out, on a connection of its own. */

/** Answers a peer's frame; null when the connection is closed without an answer. */
export function serveFrame(engine: IOEngine, backend: RdmaBackend, frame: Uint8Array): Uint8Array | null {
  const request = readFrame(frame);
  if (typeof request !== 'string') {
    const reply = serveMessage(engine, backend, request);
    return reply === null ? null : encodeMessage(reply);
  }
  engine.host.log('error', `a control frame could not be read: ${request}`);
  return null;
}

/** The message of a frame, or why there is none. */
function readFrame(frame: Uint8Array): ControlMessage | string {
  try {
    return decodeMessage(frame);
  } catch (error) {
    if (error instanceof UsageError) return error.message;
    throw error;
  }
}

/** Answers a peer's message; null when the connection is closed without an answer. */
export function serveMessage(
  engine: IOEngine,
  backend: RdmaBackend,
  message: ControlMessage,
): ControlMessage | null {
  return message.type === MessageType.RegEndpoint
    ? serveEndpoint(engine, backend, message.endpoint)
    : serveRegion(engine, backend, message.region);
}

/**
 * Makes, connects and readies a queue pair before the answer leaves. It is stored under the sender's own pair, so both
 * directions share it where the two memories look alike (0.17).
 */
function serveEndpoint(engine: IOEngine, backend: RdmaBackend, request: RegEndpoint): ControlMessage | null {
  const half = halfEndpoint(engine, backend, nicFor(engine, backend, request), request.nicRank);
  if (typeof half === 'string') {
    engine.host.log('error', half);
    return null;
  }
  joinEndpoint(engine, backend, half, request.ekey, request.topo, request);
  return {
    type: MessageType.RegEndpoint,
    endpoint: regEndpointOf(engine, request.topo, half.nic, half.local, 0),
  };
}

function nicFor(engine: IOEngine, backend: RdmaBackend, request: RegEndpoint): number {
  const followsRail = engine.environment['MORI_IO_RAIL_AFFINITY'] === '1';
  if (takesRail(followsRail, request.railId, engine.machine.nics.length)) return request.railId;
  if (requestedNics(request.topo, backend.config) === 1) return takeNic(engine, backend, request.topo.remote);
  const nics = searchNics(engine, request.topo.remote);
  return nics[request.nicRank] ?? nics[0];
}

/** Unknown memory has no status of its own: an empty region goes back. */
function serveRegion(engine: IOEngine, backend: RdmaBackend, request: AskMemoryRegion): ControlMessage {
  const memory = backend.memories.get(request.id);
  const hasNic = request.devId >= 0 && request.devId < engine.machine.nics.length;
  const mr =
    memory === undefined || !hasNic
      ? emptyRdmaMemoryRegion()
      : regionOn(engine, backend, request.devId, memory).region;
  return { type: MessageType.AskMemoryRegion, region: { ...request, mr } };
}

/** The answer to a request of ours, as bytes. One that cannot be read is a failure like a closed connection. */
export function frameAnswered(
  engine: IOEngine,
  backend: RdmaBackend,
  number: number,
  frame: Uint8Array,
): void {
  const exchange = backend.exchanges.get(number);
  if (exchange === undefined) return;
  const reply = readFrame(frame);
  if (typeof reply === 'string') frameFailed(engine, backend, number, reply);
  else messageAnswered(engine, backend, number, reply);
}

function awaited({ kind }: Exchange): MessageType {
  return kind === 'region' ? MessageType.AskMemoryRegion : MessageType.RegEndpoint;
}

/** What upstream's caller catches when the answer is of another type. */
function unexpected(exchange: Exchange, reply: ControlMessage): string {
  const bytes = encodeMessage(reply).length - FRAME_HEADER_BYTES;
  const asked = exchange.kind === 'region' ? 'AskRemoteMemoryRegion' : 'BuildRdmaConn';
  const peer = exchange.kind === 'repair' ? exchange.endpoint.remoteKey : exchange.creation.remoteKey;
  const nameOf = (type: MessageType): string => `${MESSAGE_NAMES[type]}(${type})`;
  return (
    `unexpected control-plane message (${asked} reply from ${peer}): expected ${nameOf(awaited(exchange))}, ` +
    `observed ${nameOf(reply.type)}, len=${bytes}`
  );
}

/** The answer to a request of ours. */
export function messageAnswered(
  engine: IOEngine,
  backend: RdmaBackend,
  number: number,
  reply: ControlMessage,
): void {
  const exchange = backend.exchanges.get(number);
  if (exchange === undefined) return;
  if (reply.type !== awaited(exchange)) {
    frameFailed(engine, backend, number, unexpected(exchange, reply));
    return;
  }
  backend.exchanges.delete(number);
  if (reply.type === MessageType.AskMemoryRegion)
    regionAnswered(engine, backend, exchange as Extract<Exchange, { kind: 'region' }>, reply.region);
  else if (exchange.kind === 'endpoint') endpointAnswered(engine, backend, exchange, reply.endpoint);
  else if (exchange.kind === 'repair') {
    finishRepair(engine, backend, exchange, reply.endpoint);
    wake(engine, backend, exchange.endpoint);
  }
}

/** No answer came; `text` is the exception of upstream's caller, such as `connect(host:port): Connection refused`. */
export function frameFailed(engine: IOEngine, backend: RdmaBackend, number: number, text: string): void {
  const exchange = backend.exchanges.get(number);
  if (exchange === undefined) return;
  backend.exchanges.delete(number);
  if (exchange.kind === 'repair') {
    failRepair(engine, exchange);
    return;
  }
  if (exchange.kind === 'endpoint') engine.host.destroyQueuePair(exchange.half.local.qpn);
  endCreation(engine, backend, exchange.creation, { kind: 'threw', text });
}

import { UsageError } from '../../base/failure.ts';
import {
  decodeFrame,
  emptyRdmaMemoryRegion,
  encodeFrame,
  MessageType,
  packAskMemoryRegion,
  packRegEndpoint,
  type RegEndpoint,
  unpackAskMemoryRegion,
  unpackRegEndpoint,
} from '../control-frames.ts';
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

/** Both ends of the control plane (mori-io.md A13): one frame in, one out, on a connection of its own. */

/** Answers a peer's frame; null when the connection is closed without an answer. */
export function serveFrame(engine: IOEngine, backend: RdmaBackend, frame: Uint8Array): Uint8Array | null {
  try {
    const { type, body } = decodeFrame(frame);
    return type === MessageType.RegEndpoint
      ? serveEndpoint(engine, backend, unpackRegEndpoint(body))
      : serveRegion(engine, backend, body);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    engine.host.log('error', `a control frame could not be read: ${error.message}`);
    return null;
  }
}

/**
 * Makes, connects and readies a queue pair before the answer leaves. It is stored under the sender's own pair, so both
 * directions share it where the two memories look alike (0.17).
 */
function serveEndpoint(engine: IOEngine, backend: RdmaBackend, request: RegEndpoint): Uint8Array | null {
  const half = halfEndpoint(engine, backend, nicFor(engine, backend, request), request.nicRank);
  if (typeof half === 'string') {
    engine.host.log('error', half);
    return null;
  }
  joinEndpoint(engine, backend, half, request.ekey, request.topo, request);
  const reply = regEndpointOf(engine, request.topo, half.nic, half.local, 0);
  return encodeFrame(MessageType.RegEndpoint, packRegEndpoint(reply));
}

function nicFor(engine: IOEngine, backend: RdmaBackend, request: RegEndpoint): number {
  const followsRail = engine.environment['MORI_IO_RAIL_AFFINITY'] === '1';
  if (takesRail(followsRail, request.railId, engine.machine.nics.length)) return request.railId;
  if (requestedNics(request.topo, backend.config) === 1) return takeNic(engine, backend, request.topo.remote);
  const nics = searchNics(engine, request.topo.remote);
  return nics[request.nicRank] ?? nics[0];
}

/** Unknown memory has no status of its own: an empty region goes back. */
function serveRegion(engine: IOEngine, backend: RdmaBackend, body: Uint8Array): Uint8Array {
  const request = unpackAskMemoryRegion(body);
  const memory = backend.memories.get(request.id);
  const hasNic = request.devId >= 0 && request.devId < engine.machine.nics.length;
  const mr =
    memory === undefined || !hasNic
      ? emptyRdmaMemoryRegion()
      : regionOn(engine, backend, request.devId, memory).region;
  return encodeFrame(MessageType.AskMemoryRegion, packAskMemoryRegion({ ...request, mr }));
}

/** The answer to a frame of ours. One that cannot be read is a failure like a closed connection. */
export function frameAnswered(
  engine: IOEngine,
  backend: RdmaBackend,
  number: number,
  frame: Uint8Array,
): void {
  const exchange = backend.exchanges.get(number);
  if (exchange === undefined) return;
  try {
    const next = readAnswer(engine, backend, exchange, frame);
    backend.exchanges.delete(number);
    next();
  } catch (error) {
    if (!(error instanceof UsageError) || !backend.exchanges.has(number)) throw error;
    frameFailed(engine, backend, number, error.message);
  }
}

/** Reads first and acts later, so that a bad frame changes nothing. */
function readAnswer(
  engine: IOEngine,
  backend: RdmaBackend,
  exchange: Exchange,
  frame: Uint8Array,
): () => void {
  const expected = exchange.kind === 'region' ? MessageType.AskMemoryRegion : MessageType.RegEndpoint;
  const { body } = decodeFrame(frame, expected);
  if (exchange.kind === 'region') {
    const reply = unpackAskMemoryRegion(body);
    return () => regionAnswered(engine, backend, exchange, reply);
  }
  const reply = unpackRegEndpoint(body);
  if (exchange.kind === 'endpoint') return () => endpointAnswered(engine, backend, exchange, reply);
  return () => finishRepair(engine, backend, exchange, reply);
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

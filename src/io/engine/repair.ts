import { MessageType, type RegEndpoint } from '../control-frames.ts';
import { endOrphans, failRecord } from './ending.ts';
import { regEndpointOf } from './sessions.ts';
import type { Endpoint, Exchange, IOEngine, RdmaBackend } from './state.ts';
import { workStatusText } from './texts.ts';

/**
 * The sound engine's answer to a failed queue pair: take it down, fail what was on it, and connect a new one in its place.
 * The library has nothing of the kind (mori-io.md A11). The peer makes a new queue pair as for a new session; its old
 * half stays idle until it fails in turn.
 */
export function startRepair(engine: IOEngine, backend: RdmaBackend, endpoint: Endpoint): void {
  const { ledger, local } = endpoint;
  engine.host.destroyQueuePair(local.qpn);
  backend.byQpn.delete(local.qpn);
  const [records, orphaned] = [ledger.records.values(), ledger.orphaned];
  ledger.records.clear();
  ledger.orphans = 0;
  ledger.orphaned = [];
  for (const record of records) failRecord(engine, backend, record, workStatusText('WR_FLUSH_ERR'));
  endOrphans(engine, backend, orphaned);
  endpoint.depth = 0;
  endpoint.degraded = false;
  endpoint.health = 'down';
  endpoint.life += 1;
  connectAnew(engine, backend, endpoint);
}

/** Without an address of the peer the endpoint stays down; what waits for it ends by its timer. The next call tries again. */
export function connectAnew(engine: IOEngine, backend: RdmaBackend, endpoint: Endpoint): void {
  const peer = backend.remoteEngines.get(endpoint.remoteKey);
  if (peer === undefined || endpoint.health !== 'down') return;
  endpoint.health = 'asking';
  const local = engine.host.createQueuePair(endpoint.nic, endpoint.sizes);
  const exchange = backend.nextExchange;
  backend.nextExchange += 1;
  backend.exchanges.set(exchange, { kind: 'repair', endpoint, local });
  engine.host.request(exchange, peer, {
    type: MessageType.RegEndpoint,
    endpoint: regEndpointOf(engine, endpoint.pair, endpoint.nic, local, endpoint.nicRank),
  });
}

/** A new queue pair is connected. Whoever waits for the endpoint is to be woken. */
export function finishRepair(
  engine: IOEngine,
  backend: RdmaBackend,
  { endpoint, local }: Extract<Exchange, { kind: 'repair' }>,
  reply: RegEndpoint,
): void {
  engine.host.connectQueuePair(local.qpn, reply.eph);
  endpoint.local = local;
  endpoint.remoteNic = reply.devId;
  backend.byQpn.set(local.qpn, endpoint);
  if (endpoint.sizes.recvWr > 0) engine.host.postReceives(local.qpn, backend.config.notifPerQp);
  endpoint.health = 'up';
}

/** The peer could not be reached. */
export function failRepair(
  engine: IOEngine,
  { endpoint, local }: Extract<Exchange, { kind: 'repair' }>,
): void {
  engine.host.destroyQueuePair(local.qpn);
  endpoint.health = 'down';
  engine.host.log('error', `queue pair of ${endpoint.remoteKey} could not be made anew`);
}

import { least } from '../../base/lists.ts';
import { SmallMap } from '../../base/small-map.ts';
import { MemoryLocationType } from '../codes.ts';
import {
  type AskMemoryRegion,
  emptyRdmaMemoryRegion,
  MessageType,
  type RdmaEndpointHandle,
  type RdmaMemoryRegion,
  type RegEndpoint,
  type TopoKey,
  type TopoKeyPair,
} from '../control-frames.ts';
import type { MemoryDesc } from '../descriptors.ts';
import { queuePairSizes } from '../rdma-config.ts';
import { createLedger } from './credit.ts';
import {
  chooseEndpoints,
  desiredQueuePairs,
  requestedNics,
  searchNics,
  takeNic,
  usesInlineOnly,
} from './nic-choice.ts';
import { regionOn } from './regions.ts';
import type {
  Creation,
  CreationOutcome,
  Endpoint,
  Exchange,
  HalfEndpoint,
  IOEngine,
  RdmaBackend,
  RdmaSession,
  Remote,
} from './state.ts';

/** Making a session: queue pairs until there are enough, then keys of both memories (mori-io.md A6, A13). */

/** What the backend keeps of a peer; made when first asked for. */
export function remoteOf(backend: RdmaBackend, key: string): Remote {
  let remote = backend.remotes.get(key);
  if (remote === undefined) {
    remote = { tables: new SmallMap(), regions: new SmallMap(), inbound: new SmallMap() };
    backend.remotes.set(key, remote);
  }
  return remote;
}

/** Endpoints of a topology pair; every session of the pair shares the list. */
export function tableOf(backend: RdmaBackend, remoteKey: string, pair: TopoKeyPair): Endpoint[] {
  const { tables } = remoteOf(backend, remoteKey);
  const name = nameOf(pair);
  let table = tables.get(name);
  if (table === undefined) {
    table = [];
    tables.set(name, table);
  }
  return table;
}

function nameOf({ local, remote }: TopoKeyPair): string {
  return `${local.deviceId}/${local.loc}/${local.numaNode}>${remote.deviceId}/${remote.loc}/${remote.numaNode}`;
}

export function topoOf({ deviceId, loc, numaNode }: MemoryDesc): TopoKey {
  return { deviceId, loc, numaNode };
}

/** Starts or queues the making of a session: one at a time for each engine and pair. */
export function createRdmaSession(
  engine: IOEngine,
  backend: RdmaBackend,
  local: MemoryDesc,
  remote: MemoryDesc,
  done: (outcome: CreationOutcome<RdmaSession>) => void,
): void {
  const pair = { local: topoOf(local), remote: topoOf(remote) };
  const creation: Creation = {
    remoteKey: remote.engineKey,
    local,
    remote,
    pair,
    ...planOf(engine, backend, pair),
    done,
  };
  const lock = lockOf(creation);
  const queue = backend.queues.get(lock) ?? [];
  queue.push(creation);
  backend.queues.set(lock, queue);
  if (queue.length === 1) advanceCreation(engine, backend, creation);
}

function lockOf({ remoteKey, pair }: Creation): string {
  return `${remoteKey} ${nameOf(pair)}`;
}

/** NICs by rank and queue pairs for each; a single NIC is chosen for each queue pair by itself. */
function planOf(
  engine: IOEngine,
  backend: RdmaBackend,
  pair: TopoKeyPair,
): Pick<Creation, 'nics' | 'counts'> {
  const { config } = backend;
  const wanted = Math.max(config.qpPerTransfer, 0);
  const requested = requestedNics(pair, config);
  const found = requested > 1 ? searchNics(engine, pair.local).slice(0, requested) : [];
  const effective = Math.max(1, Math.min(requested, wanted, found.length));
  if (effective === 1) return { nics: null, counts: [wanted] };
  return { nics: found.slice(0, effective), counts: desiredQueuePairs(wanted, effective) };
}

/** Does what can be done now; then either a frame is under way or the creation is over. */
export function advanceCreation(engine: IOEngine, backend: RdmaBackend, creation: Creation): void {
  const { remoteKey, remote, pair, nics, counts } = creation;
  const table = tableOf(backend, remoteKey, pair);
  const rank = counts.findIndex((count, at) => count > ownedBy(table, nics, at));
  if (rank >= 0) {
    askForEndpoint(engine, backend, creation, rank);
    return;
  }
  const endpoints = chooseEndpoints(table, nics, counts);
  const { regions } = remoteOf(backend, remoteKey);
  const lacking = endpoints.find(({ remoteNic }) => !regions.has(regionName(remoteNic, remote)));
  if (lacking !== undefined) {
    askForRegion(engine, backend, creation, lacking.remoteNic);
    return;
  }
  for (const { remoteNic } of endpoints) {
    const mismatch = mismatchOf(engine, remote, remoteNic, regions.get(regionName(remoteNic, remote))!);
    if (mismatch === null) continue;
    endCreation(engine, backend, creation, { kind: 'threw', text: mismatch });
    return;
  }
  const session = sessionOf(engine, backend, creation, endpoints);
  endCreation(engine, backend, creation, { kind: 'session', session });
}

function ownedBy(table: readonly Endpoint[], nics: readonly number[] | null, rank: number): number {
  return nics === null ? table.length : table.filter(({ nic }) => nic === nics[rank]).length;
}

function regionName(remoteNic: number, remote: MemoryDesc): string {
  return `${remoteNic}:${remote.id}`;
}

/** Hands the outcome over and lets the next in line begin. */
export function endCreation(
  engine: IOEngine,
  backend: RdmaBackend,
  creation: Creation,
  outcome: CreationOutcome<RdmaSession>,
): void {
  const queue = backend.queues.get(lockOf(creation))!;
  queue.shift();
  creation.done(outcome);
  if (queue.length > 0) advanceCreation(engine, backend, queue[0]);
}

function askForEndpoint(engine: IOEngine, backend: RdmaBackend, creation: Creation, nicRank: number): void {
  const { nics, pair, remoteKey } = creation;
  const peer = backend.remoteEngines.get(remoteKey);
  const fail = (text: string): void => endCreation(engine, backend, creation, { kind: 'threw', text });
  if (peer === undefined) return fail(`BuildRdmaConn: remote engine ${remoteKey} is not registered`);
  const half = halfEndpoint(
    engine,
    backend,
    nics === null ? takeNic(engine, backend, pair.local) : nics[nicRank],
    nicRank,
  );
  if (typeof half === 'string') return fail(half);
  const endpoint = regEndpointOf(engine, pair, half.nic, half.local, nicRank);
  const exchange = openExchange(backend, { kind: 'endpoint', creation, half });
  engine.host.request(exchange, peer, { type: MessageType.RegEndpoint, endpoint });
}

export function openExchange(backend: RdmaBackend, exchange: Exchange): number {
  const number = backend.nextExchange;
  backend.nextExchange += 1;
  backend.exchanges.set(number, exchange);
  return number;
}

/** A queue pair of ours that no peer knows yet, or why the NIC cannot have it. */
export function halfEndpoint(
  engine: IOEngine,
  backend: RdmaBackend,
  nic: number,
  nicRank: number,
): HalfEndpoint | string {
  const sizes = queuePairSizes(backend.config, engine.machine.nics[nic].limits, engine.environment);
  if (typeof sizes === 'string') return sizes;
  return { nic, nicRank, sizes, local: engine.host.createQueuePair(nic, sizes) };
}

export function regEndpointOf(
  engine: IOEngine,
  topo: TopoKeyPair,
  nic: number,
  eph: RdmaEndpointHandle,
  nicRank: number,
): RegEndpoint {
  return { ekey: engine.desc.key, topo, devId: nic, eph, nicRank, railId: nic };
}

/** Connects a queue pair to the peer's, posts its receives and adds it to the table. */
export function joinEndpoint(
  engine: IOEngine,
  backend: RdmaBackend,
  half: HalfEndpoint,
  remoteKey: string,
  pair: TopoKeyPair,
  peer: RegEndpoint,
): void {
  const { local, nic, nicRank, sizes } = half;
  engine.host.connectQueuePair(local.qpn, peer.eph);
  const { enableNotification, notifPerQp } = backend.config;
  if (enableNotification || !engine.quirks.receivesOnlyIfNotified)
    engine.host.postReceives(local.qpn, notifPerQp);
  const endpoint: Endpoint = {
    id: backend.nextEndpointId,
    remoteKey,
    pair,
    nic,
    nicRank,
    sizes,
    maxMessageBytes: engine.machine.nics[nic].limits.maxMessageBytes,
    ledger: createLedger(notifPerQp),
    local,
    remoteNic: peer.devId,
    depth: 0,
    degraded: false,
    health: 'up',
    life: 1,
    waiters: [],
  };
  backend.nextEndpointId += 1;
  tableOf(backend, remoteKey, pair).push(endpoint);
  backend.byQpn.set(local.qpn, endpoint);
}

/** Ours is connected after the peer's, so the peer may be ready first, never the other way round. */
export function endpointAnswered(
  engine: IOEngine,
  backend: RdmaBackend,
  { creation, half }: Extract<Exchange, { kind: 'endpoint' }>,
  reply: RegEndpoint,
): void {
  joinEndpoint(engine, backend, half, creation.remoteKey, creation.pair, reply);
  advanceCreation(engine, backend, creation);
}

/** The request names the remote engine and carries an empty region. */
function askForRegion(engine: IOEngine, backend: RdmaBackend, creation: Creation, remoteNic: number): void {
  const { remote, remoteKey } = creation;
  const peer = backend.remoteEngines.get(remoteKey);
  if (peer === undefined) {
    const text = `AskRemoteMemoryRegion: remote engine ${remoteKey} is not registered`;
    endCreation(engine, backend, creation, { kind: 'threw', text });
    return;
  }
  const region = { ekey: remoteKey, devId: remoteNic, id: remote.id, mr: emptyRdmaMemoryRegion() };
  const exchange = openExchange(backend, { kind: 'region', creation, remoteNic });
  engine.host.request(exchange, peer, { type: MessageType.AskMemoryRegion, region });
}

/** Unknown memory comes back as a region of length 0, which a descriptor of size 0 does not notice (A13). */
export function regionAnswered(
  engine: IOEngine,
  backend: RdmaBackend,
  { creation, remoteNic }: Extract<Exchange, { kind: 'region' }>,
  { mr }: AskMemoryRegion,
): void {
  const { remote, remoteKey } = creation;
  const mismatch = mismatchOf(engine, remote, remoteNic, mr);
  if (mismatch !== null) {
    endCreation(engine, backend, creation, { kind: 'threw', text: mismatch });
    return;
  }
  remoteOf(backend, remoteKey).regions.set(regionName(remoteNic, remote), mr);
  advanceCreation(engine, backend, creation);
}

function mismatchOf(
  engine: IOEngine,
  remote: MemoryDesc,
  remoteNic: number,
  mr: RdmaMemoryRegion,
): string | null {
  const isUnknown = mr.rkey === 0 && !engine.quirks.emptyHidesUnknown;
  if (mr.length === remote.size && !isUnknown) return null;
  return (
    `RdmaBackend::CreateSession: remote MR size mismatch for engine ${remote.engineKey} rdevId=${remoteNic} ` +
    `memId=${remote.id} expected=${remote.size} got=${mr.length}`
  );
}

function sessionOf(
  engine: IOEngine,
  backend: RdmaBackend,
  creation: Creation,
  endpoints: readonly Endpoint[],
): RdmaSession {
  const { remoteKey, local, remote } = creation;
  const { config } = backend;
  const { regions } = remoteOf(backend, remoteKey);
  const chunking = config.enableTransferChunking
    ? { chunkBytes: config.chunkBytes, maxChunks: config.maxChunksPerTransfer }
    : null;
  return {
    route: 'rdma',
    remoteKey,
    local,
    remote,
    endpoints,
    lkeys: endpoints.map(({ nic }) => regionOn(engine, backend, nic, local).region.lkey),
    rkeys: endpoints.map(({ remoteNic }) => regions.get(regionName(remoteNic, remote))!.rkey),
    depths: endpoints.map(({ sizes }) => sizes.sendWr),
    workers: workersOf(backend, local, chunking !== null),
    limits: {
      localBytes: Number(local.size),
      remoteBytes: Number(remote.size),
      endpoints: endpoints.length,
      maxSge: endpoints[0]?.sizes.sge ?? 1,
      maxMessageBytes: least(endpoints.map(({ maxMessageBytes }) => maxMessageBytes)),
      sizelessEndpoint: endpoints.findIndex(({ maxMessageBytes }) => maxMessageBytes === 0),
      chunking,
      merge: true,
      rangeWraps: engine.quirks.rangeWraps,
      tiesShuffle: engine.quirks.tiesShuffle,
    },
  };
}

/** Worker threads exist beside one NIC only; with chunking they serve GPU memory alone (A9). */
function workersOf({ config }: RdmaBackend, local: MemoryDesc, isChunking: boolean): number {
  if (config.numWorkerThreads <= 1 || usesInlineOnly(config.numNicsPerTransfer)) return 0;
  if (isChunking && local.loc !== MemoryLocationType.GPU) return 0;
  return Math.min(config.qpPerTransfer, config.numWorkerThreads);
}

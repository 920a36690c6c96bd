import { UsageError } from '../../../src/base/failure.ts';
import { layTopology } from '../../../src/base/topology.ts';
import { matchedTokens } from '../../../src/connector/remote-tokens.ts';
import { chooseInTurn, createChoice } from '../../../src/proxy/choose.ts';
import { acksHeard, awaitAcks, countAck, createAckLedger } from '../../reference/ack-count.ts';
import * as addresses from '../../reference/addresses.ts';
import { parseReadMode, readRequestMeta } from '../../reference/kv-transfer-params.ts';
import { promptTail } from '../../reference/prompt-tail.ts';
import * as ranks from '../../reference/ranks.ts';
import { peerOfRequest, readRequestId, stripSuffix } from '../../reference/request-id.ts';

/** How each section of ranks.json is put to our functions, and our answer in the words of the file. */

/** Twenty shapes, each read by one function below, which knows what it gets; some cases leave fields out. */
export type Input = { readonly [field: string]: never };
export interface Outcome {
  readonly ok: boolean;
  readonly [field: string]: unknown;
}
type Section = (input: Input, name: string) => object;

/** The file tells classes of errors apart; to us a refusal is a refusal. */
export const REFUSED = 'refused';

function orRefused<T>(ask: () => T): T | { readonly error: string } {
  try {
    return ask();
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return { error: REFUSED };
  }
}

function asRefused(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(asRefused);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, key === 'error' ? REFUSED : asRefused(inner)]),
  );
}

/** What upstream gives, with every class of error as a refusal. */
export function expectedOf(expect: Outcome): Outcome {
  return asRefused(expect) as Outcome;
}

function handshakePorts({ base_port, dp_size, tp_size }: Input): object {
  const rows = addresses
    .portsOfInstance(base_port, dp_size, tp_size)
    .map(({ dpRank, tpRank, port }) => [
      dpRank,
      tpRank,
      port,
      addresses.portOfRank(base_port, dpRank, tpRank, tp_size),
    ]);
  const clashes = rows.map(([, , listen]) =>
    rows.filter((row) => row[2] === listen).map(([dpRank, tpRank]) => [dpRank, tpRank]),
  );
  return {
    rows_dp_tp_listen_dial: rows,
    listen_clashes: clashes.filter((holders) => holders.length > 1),
    rows_where_listen_differs_from_dial: rows.filter(([, , listen, dial]) => listen !== dial).length,
  };
}

function notifyPorts(input: Input): object {
  switch (input['kind'] as string) {
    case 'read_release': {
      const { remote_notify_port, remote_dp_rank, remote_tp_rank, remote_tp_size } = input;
      const port = addresses.portOfRank(remote_notify_port, remote_dp_rank, remote_tp_rank, remote_tp_size);
      const ports = addresses.portsOfInstance(remote_notify_port, Number(remote_dp_rank) + 1, remote_tp_size);
      const listener = ports.find((one) => one.dpRank === remote_dp_rank && one.tpRank === remote_tp_rank);
      return { send_port: port, producer_listens_at: listener?.port };
    }
    case 'write_done': {
      // The cases do not say how many TP ranks D has.
      const { remote_notify_port, decode_dp_rank, producer_tp_rank } = input;
      return {
        send_port: addresses.portOfRank(remote_notify_port, decode_dp_rank, producer_tp_rank, undefined),
      };
    }
    default: {
      // The cases do not say how many TP ranks P has: taken for as many as D has, where upstream's count is right.
      const { remote_host, remote_notify_port, remote_dp_rank, decode_tp_size } = input;
      return {
        paths: addresses.pathsOfGroup(remote_host, remote_notify_port, remote_dp_rank, decode_tp_size),
      };
    }
  }
}

/** The acks of the file carry no rank: they come from rank 0, 1, ... of the readers unless the name says otherwise. */
function ackSequence({ producer_tp_size, live_transfer_ids, acks }: Input, name: string): object {
  const ledger = createAckLedger(producer_tp_size, 0);
  const live: string[] = live_transfer_ids;
  for (const transferId of live) awaitAcks(ledger, transferId);
  const completed: string[] = [];
  const nextRank = new Map<string, number>();
  const resolved = (acks as (string | [string, number])[]).map((ack) => {
    const [transferId, tpSize] = typeof ack === 'string' ? [ack, null] : ack;
    const rank = name === 'same rank acks twice' ? 0 : (nextRank.get(transferId) ?? 0);
    const from = tpSize === null ? null : { rank, tpSize };
    const verdict = countAck(ledger, { transferId, from });
    if (verdict === 'refused') return { error: REFUSED };
    nextRank.set(transferId, rank + 1);
    if (verdict !== 'done') return null;
    completed.push(transferId);
    return transferId;
  });
  const counts = live.map((transferId) => [transferId, acksHeard(ledger, transferId)] as const);
  return { resolved, counts_left: Object.fromEntries(counts.filter(([, heard]) => heard > 0)), completed };
}

function pairOf(input: Input): ranks.ReadPair {
  const { world_size, use_mla, remote_dp_size, remote_tp_size } = input;
  return { localTp: world_size, isLatent: use_mla, remoteDp: remote_dp_size, remoteTp: remote_tp_size };
}

function eagerTargets(input: Input): object {
  const targets = ranks
    .eagerTargets(pairOf(input))
    .map(({ dpRank, tpRank }) => [addresses.peerName(input['engine']!, dpRank, tpRank), dpRank, tpRank]);
  return { targets };
}

function readSource(input: Input): object {
  const pair = pairOf(input);
  const turns: ranks.ReadTurns = new Map();
  const ask = (): unknown => [
    ranks.readSource(turns, 'remote', pair, input['dp_rank'] ?? 0, input['tp_rank']!),
    ranks.mayReadAnywhere(pair),
  ];
  return { chosen_tp_and_flexible: Array.from({ length: input['reads']! }, ask) };
}

/** Remotes are told apart by their sizes, which differ in every case. */
function roundRobin({ dp_rank, remote_tp_sizes }: Input): object {
  const turns: ranks.ReadTurns = new Map();
  const sizes: number[] = remote_tp_sizes;
  return { ranks: sizes.map((size) => ranks.takeReadTurn(turns, `remote of ${size}`, dp_rank, size)) };
}

function proxyRoundRobin({ prefill, decode, prefill_dp_size, requests }: Input): object {
  const { engines } = layTopology({
    mode: 'write',
    prefillInstances: prefill,
    decodeInstances: decode,
    prefillDp: prefill_dp_size,
    decodeDp: 1,
    prefillTp: 1,
    decodeTp: 1,
  });
  const forP = createChoice(engines, 'prefill');
  const forD = createChoice(engines, 'decode');
  const rows = Array.from({ length: requests }, (_, index) => {
    const p = chooseInTurn(forP, new Set())!;
    const d = chooseInTurn(forD, new Set())!;
    return [index + 1, p.instance, d.instance, p.dpSize > 1 ? p.dpRank : null];
  });
  return { rows_request_prefill_decode_dp: rows };
}

function zmqAddress({ address }: Input): object {
  const { host, handshakePort, notifyPort } = addresses.parseZmqAddress(address);
  return { host, handshake_port: handshakePort, notify_port: notifyPort };
}

function requestId({ request_id }: Input): object {
  const prefill = orRefused(() => readRequestId(request_id).prefill);
  const decode = orRefused(() => readRequestId(request_id).decode);
  return {
    ok: typeof prefill === 'string' || typeof decode === 'string',
    prefill_address_seen_by_consumer: prefill,
    decode_address_seen_by_producer: decode,
  };
}

function requestIdToPeer({ request_id }: Input): object {
  const dialled = (role: 'prefill' | 'decode'): unknown[] => {
    const { host, handshakePort, notifyPort } = peerOfRequest(request_id, role);
    return [host, handshakePort, notifyPort];
  };
  return { consumer_dials: dialled('decode'), producer_dials: dialled('prefill') };
}

function requestMeta({ request_id, write_mode, params }: Input): object {
  const meta = readRequestMeta(request_id, write_mode ? 'prefill' : 'decode', params);
  const { host, handshakePort, notifyPort } = meta.remote;
  return {
    meta: {
      transfer_id: meta.transferId,
      remote_block_ids: meta.remoteBlocks,
      remote_engine_id: meta.remoteEngineId,
      remote_host: host,
      remote_port: handshakePort,
      remote_handshake_port: handshakePort,
      remote_notify_port: notifyPort,
      tp_size: meta.remoteTpSize,
      remote_dp_size: meta.remoteDpSize,
    },
  };
}

/** In blocks of one token a list of n blocks is the tail of n tokens. */
function readBlockChoice({ local_block_ids, remote_block_ids }: Input): object {
  const remote: number[] = remote_block_ids;
  return { local_block_ids: promptTail(local_block_ids, 1, remote, 1, remote.length).local.blocks };
}

const SECTIONS: { readonly [section: string]: Section } = {
  remote_tp_rank: (input) => ({
    value: ranks.remoteTpRank(input['local_tp_rank']!, input['local_tp_size']!, input['remote_tp_size']!),
  }),
  port_offset: (input) => ({
    value: addresses.offsetOfRank(input['dp_rank']!, input['tp_rank']!, input['tp_size']),
  }),
  handshake_ports: handshakePorts,
  notify_ports: notifyPorts,
  expected_ack_count: (input) => ({
    value: ranks.expectedAckCount(input['producer_tp_size']!, input['consumer_tp_size']!),
  }),
  ack_sequence: ackSequence,
  hetero_tp_kv_heads({ local_tp_size, remote_tp_size, total_num_kv_heads, is_mla }) {
    ranks.requireMovableHeads(local_tp_size, remote_tp_size, total_num_kv_heads, is_mla);
    return {};
  },
  engine_name: ({ engine, dp_rank, tp_rank }) => ({
    dp: addresses.peerName(engine, dp_rank, null),
    dp_tp: addresses.peerName(engine, dp_rank, tp_rank),
  }),
  eager_targets: eagerTargets,
  read_source: readSource,
  round_robin: roundRobin,
  proxy_round_robin: proxyRoundRobin,
  zmq_address: zmqAddress,
  request_id: requestId,
  request_id_to_peer: requestIdToPeer,
  strip_suffix: ({ request_id }) => ({ value: stripSuffix(request_id) }),
  mode: ({ read_mode }) => ({ mode: parseReadMode(read_mode) === 'read' ? 'READ' : 'WRITE' }),
  request_meta: requestMeta,
  read_block_choice: readBlockChoice,
  matched_tokens: ({ mode, prompt_tokens, computed, is_producer }) =>
    matchedTokens(
      mode === 'READ' ? 'read' : 'write',
      is_producer ? 'prefill' : 'decode',
      prompt_tokens,
      computed,
    ),
};

/** Our answer to a case. Anything but an answer or a refusal is thrown. */
export function answerTo(section: string, name: string, input: Input): Outcome {
  const ask = SECTIONS[section]!;
  const answer = orRefused(() => ask(input, name));
  return { ok: !('error' in answer), ...answer };
}

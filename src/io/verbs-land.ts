import type { PostedChain, WorkCompletion, WorkStatus } from './engine/host.ts';
import type { WorkRequest } from './submission.ts';
import type { Posted, SimQueuePair, SimRegion, VerbsSim } from './verbs-sim.ts';

/** Landing: what is at the head of a send queue moves its bytes, and its completions come into the list. */

/** `stalled`: a SEND finds no receive. `partly`: a torn chain, of which more is to land. */
export type Landing = 'ended' | 'partly' | 'stalled';

/** Lands what is due next over all queue pairs; false when nothing can. Its completions are in the list then. */
export function landNext(sim: VerbsSim): boolean {
  let next: SimQueuePair | null = null;
  for (const queuePair of sim.queuePairs.values()) {
    if (queuePair.stalled || !hasWork(queuePair)) continue;
    if (next === null || dueAt(queuePair) < dueAt(next)) next = queuePair;
  }
  if (next === null) return false;
  const at = dueAt(next);
  landHead(sim, next);
  sim.nowNanos = Math.max(sim.nowNanos, at);
  return true;
}

export function hasWork({ queue, head }: SimQueuePair): boolean {
  return head < queue.length;
}

/** When the head of a queue pair that has one is due. */
function dueAt({ queue, head }: SimQueuePair): number {
  return queue[head]!.landAt;
}

/** Lands the head of a queue pair that has one. */
export function landHead(sim: VerbsSim, queuePair: SimQueuePair): Landing {
  const posted = queuePair.queue[queuePair.head]!;
  sim.landing = queuePair;
  const landing =
    posted.chain === null
      ? landMessage(sim, queuePair, posted)
      : landChain(sim, queuePair, posted, posted.chain);
  queuePair.stalled = landing === 'stalled';
  if (landing !== 'ended') return landing;
  queuePair.head += 1;
  if (!hasWork(queuePair)) queuePair.queue.length = queuePair.head = 0;
  return landing;
}

/** Work requests up to the first that fails move their bytes together; the ones behind it are flushed. */
function landChain(sim: VerbsSim, queuePair: SimQueuePair, posted: Posted, chain: PostedChain): Landing {
  const local = regionFor(sim, chain.lkey, queuePair.nic);
  const remote = regionFor(sim, chain.rkey, queuePair.peer?.nic);
  let failed = posted.end;
  let status: WorkStatus = 'SUCCESS';
  sim.runCount = 0;
  for (let at = chain.first; at < posted.end && status === 'SUCCESS'; at += 1) {
    status =
      earlyFailure(sim, queuePair, chain.operation) ??
      takeRuns(sim, chain, chain.workRequests[at]!, local, remote);
    if (status !== 'SUCCESS') failed = at;
  }
  const isPartly = posted.fate === 'torn' && status === 'SUCCESS' && takePiece(sim, posted);
  if (sim.runCount > 0 && !move(sim, chain, local!, remote!)) {
    failed = chain.first;
    status = 'REM_OP_ERR';
  }
  if (isPartly && status === 'SUCCESS') return 'partly';
  if (posted.fate === 'ackLost' && status === 'SUCCESS') {
    failed = posted.end - 1;
    status = 'RETRY_EXC_ERR';
  }
  if (status !== 'SUCCESS') queuePair.broken = true;
  silence(queuePair, posted);
  tellChain(sim, queuePair, posted, chain, failed, status);
  return 'ended';
}

function move(sim: VerbsSim, { operation }: PostedChain, local: SimRegion, remote: SimRegion): boolean {
  const { runs, runCount } = sim;
  return operation === 'write'
    ? sim.move(local, remote, runs, runCount)
    : sim.move(remote, local, runs, runCount);
}

/** The tail tells if it is signaled, whatever fails tells anyhow. */
function tellChain(
  sim: VerbsSim,
  queuePair: SimQueuePair,
  posted: Posted,
  { end, signaled, tailId, innerId }: PostedChain,
  failed: number,
  status: WorkStatus,
): void {
  if (posted.fate === 'told') return;
  for (let at = signaled ? Math.min(failed, posted.end - 1) : failed; at < posted.end; at += 1) {
    const isTail = signaled && at === end - 1;
    const own = at < failed ? 'SUCCESS' : at === failed ? status : 'WR_FLUSH_ERR';
    if (isTail || own !== 'SUCCESS') tell(sim, queuePair, 'data', isTail ? tailId : innerId, own);
  }
}

/** A key is good on its own NIC alone. */
function regionFor(sim: VerbsSim, key: number, nic: string | undefined): SimRegion | null {
  const region = sim.regions.get(key);
  return region !== undefined && region.nic === nic ? region : null;
}

/** Adds the copies of one work request, if both sides hold it. */
function takeRuns(
  sim: VerbsSim,
  { operation }: PostedChain,
  { remoteOffset, bytes, sges }: WorkRequest,
  local: SimRegion | null,
  remote: SimRegion | null,
): WorkStatus {
  if (bytes === 0) return 'SUCCESS';
  if (local === null) return 'LOC_PROT_ERR';
  for (let index = 0; index < sges.length; index += 1) {
    if (!fits(local, sges[index]!.offset, sges[index]!.bytes)) return 'LOC_PROT_ERR';
  }
  if (remote === null || !fits(remote, remoteOffset, bytes)) return 'REM_ACCESS_ERR';
  let at = remoteOffset;
  for (let index = 0; index < sges.length; index += 1) {
    const sge = sges[index]!;
    if (operation === 'write') addRun(sim, sge.offset, at, sge.bytes);
    else addRun(sim, at, sge.offset, sge.bytes);
    at += sge.bytes;
  }
  return 'SUCCESS';
}

const RUN_NUMBERS = 3;

function addRun(sim: VerbsSim, source: number, target: number, bytes: number): void {
  const first = sim.runCount * RUN_NUMBERS;
  if (first === sim.runs.length) {
    const longer = new Float64Array(first * 2);
    longer.set(sim.runs);
    sim.runs = longer;
  }
  const { runs } = sim;
  runs[first] = source;
  runs[first + 1] = target;
  runs[first + 2] = bytes;
  sim.runCount += 1;
}

const PIECES_MAX = 4;

/** Leaves the runs of the next piece alone in the list, a single run cut in two; says whether another piece is to come. */
function takePiece(sim: VerbsSim, posted: Posted): boolean {
  const { runs, runCount } = sim;
  const piece = posted.pieces;
  posted.pieces += 1;
  if (runCount === 1) {
    const half = runs[2]! >>> 1;
    const from = piece === 0 ? 0 : half;
    const bytes = piece === 0 ? half : runs[2]! - half;
    runs.set([runs[0]! + from, runs[1]! + from, bytes]);
    return piece === 0;
  }
  const pieces = Math.max(1, Math.min(PIECES_MAX, runCount));
  const from = Math.floor((piece * runCount) / pieces);
  const to = Math.floor(((piece + 1) * runCount) / pieces);
  runs.copyWithin(0, from * RUN_NUMBERS, to * RUN_NUMBERS);
  sim.runCount = to - from;
  return piece + 1 < pieces;
}

/**
 * Whether the peer answers. One in the error state drops what comes in and sends nothing back, as one that is gone does
 * (docs/decisions/0011-a-peer-in-error-is-down.md).
 */
function isPeerUp(sim: VerbsSim, { peer }: SimQueuePair): boolean {
  return peer !== null && !peer.broken && !sim.dead.has(peer.processId) && sim.queuePairs.has(peer.qpn);
}

/**
 * A broken queue pair flushes; one that is told to fail does so; one whose peer is gone finds nobody. What a dead process
 * wanted to read has nowhere to go.
 */
function earlyFailure(
  sim: VerbsSim,
  queuePair: SimQueuePair,
  operation: 'read' | 'write',
): WorkStatus | null {
  if (queuePair.broken || (operation === 'read' && sim.dead.has(queuePair.processId))) return 'WR_FLUSH_ERR';
  const told = sim.failing.size === 0 ? undefined : sim.failing.get(queuePair.qpn);
  if (told === undefined) return isPeerUp(sim, queuePair) ? null : 'RETRY_EXC_ERR';
  sim.failing.delete(queuePair.qpn);
  return told;
}

/**
 * Whether a chain on a queue pair would move its bytes, were it to land now and nothing to go wrong: the queue pair and its
 * peer are up, both keys are good, and what is read has somewhere to go.
 */
export function canLand(
  sim: VerbsSim,
  queuePair: SimQueuePair,
  chain: Pick<PostedChain, 'operation' | 'lkey' | 'rkey'>,
): boolean {
  if (queuePair.broken || (chain.operation === 'read' && sim.dead.has(queuePair.processId))) return false;
  return isPeerUp(sim, queuePair) && areKeysGood(sim, chain, queuePair.nic, queuePair.peer!.nic);
}

/** Whether both keys are known to the NICs that look them up. */
export function areKeysGood(
  sim: VerbsSim,
  { lkey, rkey }: Pick<PostedChain, 'lkey' | 'rkey'>,
  nic: string,
  peerNic: string,
): boolean {
  return regionFor(sim, lkey, nic) !== null && regionFor(sim, rkey, peerNic) !== null;
}

function fits(region: SimRegion, offset: number, bytes: number): boolean {
  return offset >= 0 && offset + bytes <= region.bytes;
}

/** Stalls when the peer has no receive left: the SEND is tried again for ever. */
function landMessage(sim: VerbsSim, queuePair: SimQueuePair, posted: Posted): Landing {
  const failure = earlyFailure(sim, queuePair, 'write');
  if (failure !== null) {
    queuePair.broken = true;
    tell(sim, queuePair, 'send', posted.wrId, failure);
    return 'ended';
  }
  const peer = queuePair.peer!;
  if (peer.receives === 0) return 'stalled';
  peer.receives -= 1;
  silence(queuePair, posted);
  tell(sim, queuePair, 'send', posted.wrId, 'SUCCESS');
  const { qpn, processId } = peer;
  const completion = { qpn, opcode: 'recv', wrId: 0, status: 'SUCCESS', message: posted.message! } as const;
  sim.completions.push({ processId, completion });
  return 'ended';
}

/** Faults of the completion queue, once the work itself is done. */
function silence(queuePair: SimQueuePair, { fate }: Posted): void {
  if (fate !== 'silent' && fate !== 'overflow') return;
  queuePair.silent = true;
  if (fate === 'overflow') queuePair.broken = true;
}

function tell(
  sim: VerbsSim,
  queuePair: SimQueuePair,
  opcode: WorkCompletion['opcode'],
  wrId: number,
  status: WorkStatus,
): void {
  if (queuePair.silent) return;
  const { qpn, processId } = queuePair;
  sim.completions.push({ processId, completion: { qpn, opcode, wrId, status } });
}

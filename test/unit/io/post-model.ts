/**
 * A second reading of how the library posts, written from its rules alone (mori-io.md A7, A8, A10, A11) and sharing no
 * code with the engine: plain lists, one call at a time, everything told before the next call begins.
 */

export interface ModelRules {
  readonly queuePairs: number;
  readonly postBatchSize: number;
  readonly maxSendWr: number;
  readonly notifies: boolean;
  readonly firstRecordId: number;
}

interface ModelRecord {
  readonly posted: number;
  readonly credits: number;
  readonly transfer: ModelTransfer;
  readonly isOrphan: boolean;
}

export interface ModelQueuePair {
  depth: number;
  degraded: boolean;
  broken: boolean;
  /** What its next work request fails with. */
  failing: string | null;
  nextId: number;
  readonly records: Map<number, ModelRecord>;
}

export interface ModelTransfer {
  code: number;
  /** Without the hint. */
  message: string;
  finished: number;
  total: number;
  told: boolean;
}

/** A post that fails: how much of it was posted, and the error. Counted over all posts of a model. */
export interface ModelFailure {
  readonly atPost: number;
  readonly posted: number;
  readonly errno: number;
  readonly text: string;
}

export interface Model {
  readonly rules: ModelRules;
  readonly queuePairs: ModelQueuePair[];
  readonly posts: string[];
  /** Work requests on their way, in order of their posts: the id of a record, 0 without a signal, -1 for a SEND. */
  readonly wire: { readonly at: number; readonly id: number }[];
  failure: ModelFailure | null;
}

const RDMA_OP = 13;

export function createModel(rules: ModelRules): Model {
  const queuePairs = Array.from({ length: rules.queuePairs }, () => ({
    depth: 0,
    degraded: false,
    broken: false,
    failing: null,
    nextId: rules.firstRecordId,
    records: new Map<number, ModelRecord>(),
  }));
  return { rules, queuePairs, posts: [], wire: [], failure: null };
}

/** A call of `count` requests that never join. Everything has been told when it returns. */
export function modelCall(model: Model, count: number, id: number, single: boolean): ModelTransfer {
  const transfer = { code: 2, message: '', finished: 0, total: count, told: false };
  const error =
    postAll(model, transfer, count, id, single) ?? (model.rules.notifies ? notifyAll(model) : null);
  if (error !== null) fail(transfer, error);
  drain(model);
  return transfer;
}

function fail(transfer: ModelTransfer, message: string): void {
  if (transfer.code > 10) return;
  transfer.code = RDMA_OP;
  transfer.message = message;
}

function takeFailure(model: Model): ModelFailure | null {
  const { failure, posts } = model;
  if (failure === null || posts.length !== failure.atPost) return null;
  model.failure = null;
  return failure;
}

function reserve(model: Model, at: number, wanted: number, tag: string): string | null {
  const queuePair = model.queuePairs[at];
  const { maxSendWr } = model.rules;
  if (queuePair.degraded) return 'EP is degraded, rejecting new submissions';
  if (queuePair.depth + wanted > maxSendWr) drain(model);
  if (queuePair.degraded) return 'EP is degraded, rejecting new submissions';
  if (queuePair.depth + wanted > maxSendWr)
    return `SQ full (${tag}): ep=${at} depth=${queuePair.depth} requested=${wanted} max=${maxSendWr}`;
  queuePair.depth += wanted;
  return null;
}

function postAll(
  model: Model,
  transfer: ModelTransfer,
  count: number,
  id: number,
  single: boolean,
): string | null {
  const { queuePairs, rules } = model;
  const spread = Math.ceil(count / rules.queuePairs);
  const asked = single ? 1 : rules.postBatchSize === -1 ? spread : rules.postBatchSize;
  const length = Math.min(asked, rules.maxSendWr);
  const chains = Math.ceil(count / length);
  const pending = queuePairs.map(() => 0);
  for (let chain = 0; chain < chains; chain += 1) {
    const at = (chain + id) % rules.queuePairs;
    const queuePair = queuePairs[at];
    const size = Math.min(length, count - chain * length);
    const refusal = reserve(model, at, size, 'batch');
    if (refusal !== null) return refusal;
    pending[at] += size;
    const signaled = chain + rules.queuePairs >= chains || pending[at] >= rules.maxSendWr;
    const record = signaled ? insert(queuePair, pending[at], transfer, false) : 0;
    const failure = takeFailure(model);
    const posted = failure === null ? size : Math.min(failure.posted, size - 1);
    model.posts.push(`${at}: ${posted}/${size} id ${record} errno ${failure?.errno ?? 0}`);
    for (let wr = 1; wr <= posted; wr += 1) model.wire.push({ at, id: wr === size ? record : 0 });
    if (failure === null) {
      if (signaled) pending[at] = 0;
      continue;
    }
    queuePair.depth -= size - posted;
    pending[at] -= size - posted;
    queuePair.records.delete(record);
    queuePairs.forEach((other, index) => {
      if (pending[index] === 0 || (index === at && posted === 0)) return;
      insert(other, pending[index], transfer, true);
      other.degraded = true;
    });
    return `ibv_post_send failed with ${failure.errno}: ${failure.text} (posted ${posted}/${size} WRs)`;
  }
  return null;
}

function insert(
  queuePair: ModelQueuePair,
  posted: number,
  transfer: ModelTransfer,
  isOrphan: boolean,
): number {
  const id = queuePair.nextId;
  queuePair.nextId += 1;
  queuePair.records.set(id, { posted, credits: posted, transfer, isOrphan });
  return id;
}

function notifyAll(model: Model): string | null {
  const { queuePairs } = model;
  for (let at = 0; at < queuePairs.length; at += 1) {
    const refusal = reserve(model, at, 1, 'notify');
    if (refusal === null) continue;
    for (let before = 0; before < at; before += 1) queuePairs[before].depth -= 1;
    return refusal;
  }
  for (let at = 0; at < queuePairs.length; at += 1) {
    const failure = takeFailure(model);
    model.posts.push(`${at}: notify errno ${failure?.errno ?? 0}`);
    if (failure === null) {
      model.wire.push({ at, id: -1 });
      continue;
    }
    for (let rest = at; rest < queuePairs.length; rest += 1) queuePairs[rest].depth -= 1;
    return `ibv_post_send (notify) failed with ${failure.errno}: ${failure.text}`;
  }
  return null;
}

/** Everything on the wire ends and is told. */
function drain({ queuePairs, wire }: Model): void {
  for (const { at, id } of wire.splice(0)) {
    const queuePair = queuePairs[at];
    const status = queuePair.broken ? 'Work Request Flushed Error' : queuePair.failing;
    if (status !== null && !queuePair.broken) {
      queuePair.broken = true;
      queuePair.failing = null;
    }
    if (id === -1) queuePair.depth -= 1;
    else if (status !== null) endBadly(queuePair, id, status);
    else if (id !== 0) endWell(queuePair, id);
  }
}

function endWell(queuePair: ModelQueuePair, id: number): void {
  const { posted, credits, transfer } = queuePair.records.get(id)!;
  queuePair.records.delete(id);
  queuePair.depth -= posted;
  transfer.finished += credits;
  if (transfer.finished === transfer.total && transfer.code <= 10 && !transfer.told)
    Object.assign(transfer, { code: 0, message: 'success' });
}

/** Without a record it counts as a receive, and nothing comes of it. */
function endBadly(queuePair: ModelQueuePair, id: number, status: string): void {
  const record = queuePair.records.get(id);
  if (record === undefined) return;
  queuePair.records.delete(id);
  queuePair.depth -= record.posted;
  record.transfer.finished += record.credits;
  if (!record.transfer.told) fail(record.transfer, status);
  record.transfer.told = true;
  if (!queuePair.degraded) return;
  for (const [orphan, { posted, isOrphan }] of queuePair.records) {
    if (!isOrphan) continue;
    queuePair.records.delete(orphan);
    queuePair.depth -= posted;
  }
  queuePair.degraded = false;
}

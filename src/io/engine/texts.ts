import type { WorkStatus } from './host.ts';

/** Texts that a user of the library sees or a test compares (mori-io.md A8, A10, A11). */

interface StatusText {
  readonly text: string;
  readonly hint?: string;
}

const WORK_STATUS_TEXTS: Readonly<Record<WorkStatus, StatusText>> = {
  SUCCESS: { text: 'success' },
  LOC_LEN_ERR: {
    text: 'local length error',
    hint: 'local length error; verify transfer sizes against the NIC message limit and the posted scatter list.',
  },
  LOC_PROT_ERR: {
    text: 'local protection error',
    hint:
      'local protection error; verify the local buffer is still registered with MORI, lkey matches the posted WR, ' +
      'and transfer offsets/lengths stay within the registered range.',
  },
  WR_FLUSH_ERR: { text: 'Work Request Flushed Error' },
  REM_ACCESS_ERR: {
    text: 'remote access error',
    hint:
      'remote access error; verify the remote buffer is still registered, rkey/permissions allow this operation, ' +
      'and remote offsets/lengths stay within the registered range.',
  },
  REM_OP_ERR: {
    text: 'remote operation error',
    hint: 'remote operation error; look at the state of the remote side.',
  },
  RETRY_EXC_ERR: {
    text: 'transport retry counter exceeded',
    hint:
      'transport retry limit exceeded; check peer liveness/connectivity, verify GID selection (unset or correct ' +
      'MORI_IB_GID_INDEX), and if running RoCE verify QoS settings such as MORI_IO_SL/MORI_IO_TC or ' +
      'MORI_RDMA_SL/MORI_RDMA_TC.',
  },
  RNR_RETRY_EXC_ERR: {
    text: 'RNR retry counter exceeded',
    hint: 'receiver not ready; look at the receives that the peer has posted.',
  },
};

export function workStatusText(status: WorkStatus): string {
  const { text, hint } = WORK_STATUS_TEXTS[status];
  return hint === undefined ? text : withHint(text, hint);
}

function withHint(text: string, hint: string): string {
  return `${text} Hint: ${hint}`;
}

export const ENOMEM = 12;
export const EINVAL = 22;

const ERRNO_TEXTS: Readonly<Record<number, string>> = {
  [ENOMEM]: 'Cannot allocate memory',
  [EINVAL]: 'Invalid argument',
};

function errnoText(errno: number): string {
  return `${errno}: ${ERRNO_TEXTS[errno] ?? `Unknown error ${errno}`}`;
}

/** What the texts of a submission name. */
export interface SubmissionFigures {
  readonly batchSize: number;
  readonly queuePairs: number;
}

export interface CreditFigures {
  readonly endpoint: number;
  readonly depth: number;
  readonly requested: number;
  readonly max: number;
  readonly backoffMicros: number;
}

export const DEGRADED = 'EP is degraded, rejecting new submissions';
export const NO_BACKEND = 'No available backend found, create backend first';

const QUIETER_NOTIFICATION =
  'try increasing MORI_IO_QP_MAX_SEND_WR, and consider increasing notifPerQp / MORI_IO_QP_MAX_RECV_WR, or setting ' +
  'MORI_IO_ENABLE_NOTIFICATION=0 if inbound notification is not required.';

function sendQueueFull(tag: string, credit: CreditFigures): string {
  const { endpoint, depth, requested, max } = credit;
  return `SQ full (${tag}): ep=${endpoint} depth=${depth} requested=${requested} max=${max}`;
}

export function batchQueueFull(credit: CreditFigures, figures: SubmissionFigures): string {
  const hint =
    'if completions are expected to drain shortly, try increasing MORI_IO_SQ_BACKOFF_TIMEOUT_US (current value ' +
    `${credit.backoffMicros} us); otherwise try increasing MORI_IO_QP_MAX_SEND_WR, reducing ` +
    `RdmaBackendConfig::postBatchSize (current effective value ${figures.batchSize}), or increasing ` +
    `RdmaBackendConfig::qpPerTransfer (current transfer uses ${figures.queuePairs} QP(s)) if additional QPs are ` +
    `available. Current per-QP send WR limit is ${credit.max}.`;
  return withHint(sendQueueFull('batch', credit), hint);
}

export function notifyQueueFull(credit: CreditFigures): string {
  const hint =
    'if notification SEND completions are expected to drain shortly, try increasing MORI_IO_SQ_BACKOFF_TIMEOUT_US ' +
    `(current value ${credit.backoffMicros} us); otherwise ${QUIETER_NOTIFICATION}`;
  return withHint(sendQueueFull('notify', credit), hint);
}

/** Out of reach of a batch, whose chains are capped by the queue. */
export function exceedsCapacity(tag: string, credit: CreditFigures): string {
  const { endpoint, requested, max } = credit;
  return `SQ request exceeds capacity (${tag}): ep=${endpoint} requested=${requested} max=${max}`;
}

export function postFailed(
  errno: number,
  posted: number,
  wanted: number,
  failingSges: number,
  figures: SubmissionFigures,
): string {
  const text = `ibv_post_send failed with ${errnoText(errno)} (posted ${posted}/${wanted} WRs)`;
  if (errno === ENOMEM) {
    const hint =
      'provider reported ENOMEM while posting WRs; try increasing MORI_IO_QP_MAX_SEND_WR and MORI_IO_QP_MAX_CQE, ' +
      `reducing RdmaBackendConfig::postBatchSize (current effective value ${figures.batchSize}), or increasing ` +
      `RdmaBackendConfig::qpPerTransfer (current transfer uses ${figures.queuePairs} QP(s)) if additional QPs are ` +
      'available.';
    return withHint(text, hint);
  }
  if (errno !== EINVAL) return text;
  const hint =
    'provider rejected the WR as invalid; verify WR flags/opcode, lkey/rkey, and scatter/gather layout (failing WR ' +
    `num_sge=${failingSges}).`;
  return withHint(text, hint);
}

export function notifyPostFailed(errno: number): string {
  const text = `ibv_post_send (notify) failed with ${errnoText(errno)}`;
  if (errno !== ENOMEM) return text;
  const hint =
    'provider reported ENOMEM while posting notification SENDs; try increasing MORI_IO_QP_MAX_SEND_WR and ' +
    'MORI_IO_QP_MAX_CQE, and consider increasing notifPerQp / MORI_IO_QP_MAX_RECV_WR, or setting ' +
    'MORI_IO_ENABLE_NOTIFICATION=0 if inbound notification is not required.';
  return withHint(text, hint);
}

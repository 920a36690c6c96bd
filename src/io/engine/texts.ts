import { errnoText } from './errno.ts';
import type { WorkStatus } from './host.ts';

/** Texts that a user of the library sees or a test compares (mori-io.md A8, A10, A11). */

interface StatusText {
  readonly text: string;
  readonly hint?: string;
}

const NOT_READY = 'RNR retry counter exceeded';

/** What ibv_wc_status_str says, and the hints that MoRI-IO adds to six of them. */
const WORK_STATUS_TEXTS: Readonly<Record<WorkStatus, StatusText>> = {
  SUCCESS: { text: 'success' },
  LOC_LEN_ERR: {
    text: 'local length error',
    hint:
      'local length error; verify SGE lengths and transfer offsets stay within the registered local MR ' +
      'bounds.',
  },
  LOC_QP_OP_ERR: { text: 'local QP operation error' },
  LOC_EEC_OP_ERR: { text: 'local EE context operation error' },
  LOC_PROT_ERR: {
    text: 'local protection error',
    hint:
      'local protection error; verify the local buffer is still registered with MORI, lkey matches the posted WR, ' +
      'and transfer offsets/lengths stay within the registered range.',
  },
  WR_FLUSH_ERR: { text: 'Work Request Flushed Error' },
  MW_BIND_ERR: { text: 'memory management operation error' },
  BAD_RESP_ERR: { text: 'bad response error' },
  LOC_ACCESS_ERR: { text: 'local access error' },
  REM_INV_REQ_ERR: { text: 'remote invalid request error' },
  REM_ACCESS_ERR: {
    text: 'remote access error',
    hint:
      'remote access error; verify the remote buffer is still registered, rkey/permissions allow this operation, ' +
      'and remote offsets/lengths stay within the registered range.',
  },
  REM_OP_ERR: {
    text: 'remote operation error',
    hint:
      'remote operation error; verify both peers use compatible verbs/QP state and the remote endpoint supports ' +
      'the requested RDMA operation.',
  },
  RETRY_EXC_ERR: {
    text: 'transport retry counter exceeded',
    hint:
      'transport retry limit exceeded; check peer liveness/connectivity, verify GID selection (unset or correct ' +
      'MORI_IB_GID_INDEX), and if running RoCE verify QoS settings such as MORI_IO_SL/MORI_IO_TC or ' +
      'MORI_RDMA_SL/MORI_RDMA_TC.',
  },
  RNR_RETRY_EXC_ERR: {
    text: NOT_READY,
    hint:
      'receiver not ready; check the peer receive path. If this is related to MORI notifications, increase ' +
      'notifPerQp / MORI_IO_QP_MAX_RECV_WR or disable MORI_IO_ENABLE_NOTIFICATION when inbound notification is ' +
      'not required.',
  },
  LOC_RDD_VIOL_ERR: { text: 'local RDD violation error' },
  REM_INV_RD_REQ_ERR: { text: 'remote invalid RD request' },
  REM_ABORT_ERR: { text: 'aborted error' },
  INV_EECN_ERR: { text: 'invalid EE context number' },
  INV_EEC_STATE_ERR: { text: 'invalid EE context state' },
  FATAL_ERR: { text: 'fatal error' },
  RESP_TIMEOUT_ERR: { text: 'response timeout error' },
  GENERAL_ERR: { text: 'general error' },
};

/** What the status of a transfer says of a work request that ended so. */
export function workStatusText(status: WorkStatus): string {
  const { text, hint } = WORK_STATUS_TEXTS[status];
  return hint === undefined ? text : withHint(text, hint);
}

/** The same for a notification's SEND, of which only the log tells. */
export function sendStatusText(status: WorkStatus, notifPerQp: number): string {
  if (status !== 'RNR_RETRY_EXC_ERR') return workStatusText(status);
  const hint =
    'receiver not ready for SEND completions; if notifications are enabled, ensure the peer pre-posts enough RECV ' +
    `WRs. Try increasing notifPerQp / MORI_IO_QP_MAX_RECV_WR (current notifPerQp=${notifPerQp}), or set ` +
    'MORI_IO_ENABLE_NOTIFICATION=0 if inbound notification is not required.';
  return withHint(NOT_READY, hint);
}

function withHint(text: string, hint: string): string {
  return `${text} Hint: ${hint}`;
}

export const ENOMEM = 12;
export const EINVAL = 22;

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

/** ", or increasing …": what a submission may change about itself. */
function submissionAdvice({ batchSize, queuePairs }: SubmissionFigures): string {
  return (
    `reducing RdmaBackendConfig::postBatchSize (current effective value ${batchSize}), or increasing ` +
    `RdmaBackendConfig::qpPerTransfer (current transfer uses ${queuePairs} QP(s)) if additional QPs are available.`
  );
}

const NOTIFICATION_ADVICE =
  'consider increasing notifPerQp / MORI_IO_QP_MAX_RECV_WR, or setting MORI_IO_ENABLE_NOTIFICATION=0 if inbound ' +
  'notification is not required.';

function sendQueueFull(tag: string, credit: CreditFigures): string {
  const { endpoint, depth, requested, max } = credit;
  return `SQ full (${tag}): ep=${endpoint} depth=${depth} requested=${requested} max=${max}`;
}

function batchQueueHint({ max }: CreditFigures, figures: SubmissionFigures): string {
  const advice = submissionAdvice(figures);
  return `try increasing MORI_IO_QP_MAX_SEND_WR, ${advice} Current per-QP send WR limit is ${max}.`;
}

export function batchQueueFull(credit: CreditFigures, figures: SubmissionFigures): string {
  const hint =
    'if completions are expected to drain shortly, try increasing MORI_IO_SQ_BACKOFF_TIMEOUT_US (current value ' +
    `${credit.backoffMicros} us); otherwise ${batchQueueHint(credit, figures)}`;
  return withHint(sendQueueFull('batch', credit), hint);
}

const NOTIFY_QUEUE_HINT = `try increasing MORI_IO_QP_MAX_SEND_WR, and ${NOTIFICATION_ADVICE}`;

export function notifyQueueFull(credit: CreditFigures): string {
  const hint =
    'if notification SEND completions are expected to drain shortly, try increasing MORI_IO_SQ_BACKOFF_TIMEOUT_US ' +
    `(current value ${credit.backoffMicros} us); otherwise ${NOTIFY_QUEUE_HINT}`;
  return withHint(sendQueueFull('notify', credit), hint);
}

function exceedsCapacity(tag: string, { endpoint, requested, max }: CreditFigures): string {
  return `SQ request exceeds capacity (${tag}): ep=${endpoint} requested=${requested} max=${max}`;
}

/** Out of reach of a batch, whose chains are capped by the queue. */
export function batchExceedsCapacity(credit: CreditFigures, figures: SubmissionFigures): string {
  return withHint(exceedsCapacity('batch', credit), batchQueueHint(credit, figures));
}

export function notifyExceedsCapacity(credit: CreditFigures): string {
  return withHint(exceedsCapacity('notify', credit), NOTIFY_QUEUE_HINT);
}

/** Which work request a post failed at. */
export interface FailedPost {
  readonly errno: number;
  readonly posted: number;
  readonly wanted: number;
  /** Scatter-gather entries of the one that failed, and what its endpoint takes. */
  readonly sges: number;
  readonly maxSge: number;
}

export function postFailed(failed: FailedPost, figures: SubmissionFigures): string {
  const { errno, posted, wanted } = failed;
  const text = `ibv_post_send failed with ${errno}: ${errnoText(errno)} (posted ${posted}/${wanted} WRs)`;
  if (errno === EINVAL) return withHint(text, invalidPostHint(failed));
  if (errno !== ENOMEM) return text;
  const hint =
    'provider reported ENOMEM while posting WRs; try increasing MORI_IO_QP_MAX_SEND_WR and MORI_IO_QP_MAX_CQE, ' +
    submissionAdvice(figures);
  return withHint(text, hint);
}

function invalidPostHint({ sges, maxSge }: FailedPost): string {
  if (sges > maxSge)
    return (
      `the failing WR uses num_sge=${sges}, which exceeds endpoint max_send_sge=${maxSge}; reduce scatter/gather ` +
      'fan-out or, if the device supports it, increase MORI_IO_QP_MAX_MSG_SGE / MORI_IO_QP_MAX_SGE.'
    );
  return (
    'provider rejected the WR as invalid; verify WR flags/opcode, lkey/rkey, and scatter/gather layout (failing WR ' +
    `num_sge=${sges}).`
  );
}

const NOTIFY_HINTS: { readonly [errno: number]: string } = {
  [ENOMEM]:
    'provider reported ENOMEM while posting notification SENDs; try increasing MORI_IO_QP_MAX_SEND_WR and ' +
    `MORI_IO_QP_MAX_CQE, and ${NOTIFICATION_ADVICE}`,
  [EINVAL]:
    'provider rejected the notification SEND as invalid; verify notification is enabled on both peers and the ' +
    'endpoint/QP is still healthy, or disable MORI_IO_ENABLE_NOTIFICATION if inbound notification is not required.',
};

export function notifyPostFailed(errno: number): string {
  const text = `ibv_post_send (notify) failed with ${errno}: ${errnoText(errno)}`;
  const hint = NOTIFY_HINTS[errno];
  return hint === undefined ? text : withHint(text, hint);
}

/** A copy between GPUs that could not be started; `why` is the runtime's text. */
export function copyFailed(
  route: 'xgmi' | 'fabric',
  isSingle: boolean,
  sameDevice: boolean,
  why: string,
): string {
  if (route === 'fabric') return `FABRIC: ${isSingle ? 'copy' : 'batch copy'} launch failed: ${why}`;
  if (!isSingle) return `XGMI: memcpy failed: ${why}`;
  return `XGMI: ${sameDevice ? 'hipMemcpyAsync' : 'hipMemcpyPeerAsync'} failed: ${why}`;
}
